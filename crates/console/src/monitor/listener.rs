//! Connections of a monitor: their time, and the requests that are refused. How they are accepted is `listening`.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use super::operate::{Peer, PublicUrl, host_name};
use crate::config::Listen;
use crate::exit::CommandFailure;
use crate::process::{BoundPort, HEAD_BYTES_MAX};

/// How many connections are served at a time: a hundred onlookers, and some scrapers; more are closed.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct MonitorListener {
    listening: BoundPort,
    /// Where a proxy has it.
    public: Option<PublicUrl>,
}

impl MonitorListener {
    /// Listens on the first address that can be had of those that `listen` stands for.
    pub(crate) fn bind(listen: &Listen, public: Option<PublicUrl>) -> Result<Self, CommandFailure> {
        BoundPort::bind("--listen", listen).map(|listening| Self { listening, public })
    }

    pub(crate) const fn port(&self) -> u16 {
        self.listening.address().port()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listening.address())
    }

    pub(crate) fn exposure(&self) -> Option<String> {
        (!self.is_near()).then(|| {
            format!(
                "warning: other machines may reach {}, and each can see the names of all locks and their \
                 owners; listen on 127.0.0.1, or let only hosts that you trust reach the port",
                self.listening.address()
            )
        })
    }

    fn is_near(&self) -> bool {
        self.listening.address().ip().to_canonical().is_loopback()
    }

    /// Refuses to carry a token and a session's cookie where others can read them: only a proxy with TLS may be reached
    /// from other machines.
    pub(crate) fn require_secrecy(&self) -> Result<(), CommandFailure> {
        let address = self.listening.address();
        match &self.public {
            Some(public) if !public.is_tls() => Err(CommandFailure::ours(
                "--operate: --public-url is no https: URL, and over plain HTTP others can read the token",
            )),
            None if !self.is_near() => Err(CommandFailure::ours(format!(
                "--operate: {address} can be reached from other machines, and over plain HTTP others can read the \
                 token; listen on 127.0.0.1, or name the https: URL of a proxy by --public-url"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) async fn serve(&self, router: Router) -> Infallible {
        let public = Arc::new(self.public.clone());
        let router = router.layer(from_fn_with_state(public, known_host));
        self.listening.serve(CONNECTIONS_MAX, |stream| serve_one(stream, router.clone())).await
    }
}

async fn serve_one(stream: TcpStream, router: Router) {
    // It is gone already.
    let Ok(peer) = stream.peer_addr() else { return };
    let router = router.layer(Extension(Peer(peer.ip())));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that breaks off is its own matter.
    let _ = connection.await;
}

/// Refuses requests for other hosts' names: a page of such a host, whose name leads here, must not read the answers.
async fn known_host(State(public): State<Arc<Option<PublicUrl>>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default().to_owned());
    match host {
        Some(host) if !is_known(&host) && !(*public).as_ref().is_some_and(|public| public.is_host(&host)) => {
            let refusal = "ask for the monitor by its address, as localhost, or by the host of its --public-url: other \
                           names may be of other pages\n";
            (StatusCode::MISDIRECTED_REQUEST, refusal).into_response()
        }
        _ => next.run(request).await,
    }
}

/// An address cannot be another host's name.
fn is_known(host: &str) -> bool {
    let name = host_name(host);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_known_hosts() {
        for (host, is_so) in [
            ("127.0.0.1:9142", true),
            ("[::1]:9142", true),
            ("localhost", true),
            ("LocalHost:1", true),
            ("evil.example:9142", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:9142", false),
            ("", false),
        ] {
            assert_eq!(is_known(host), is_so, "{host}");
        }
    }
}
