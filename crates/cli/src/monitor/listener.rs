//! Connections of a monitor: their time, and the requests that are refused. How they are accepted is `listening`.

use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use crate::config::Listen;
use crate::exit::Failure;
use crate::listening::{HEAD_BYTES_MAX, Listening};

/// How many connections are served at a time: a hundred onlookers, and some scrapers; more are closed.
const CONNECTIONS_MAX: usize = 256;

/// How long a client may take to send the head of a request, and how long a connection may be idle.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// Where a monitor is served.
#[derive(Debug)]
pub(crate) struct Listener(Listening);

impl Listener {
    /// Listens on the first address that can be had of those that `listen` stands for.
    pub(crate) fn bind(listen: &Listen) -> Result<Self, Failure> {
        Listening::bind("--listen", listen).map(Self)
    }

    /// Where it is found.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.address())
    }

    /// Warns if other machines may reach it.
    pub(crate) fn exposure(&self) -> Option<String> {
        let is_exposed = !self.0.address().ip().to_canonical().is_loopback();
        is_exposed.then(|| {
            format!(
                "warning: other machines may reach {}, and each can see the names of all locks and their \
                 owners; listen on 127.0.0.1, or let only hosts that you trust reach the port",
                self.0.address()
            )
        })
    }

    /// Answers requests.
    pub(crate) async fn serve(&self, router: Router) -> Infallible {
        let router = router.layer(from_fn(known_host));
        self.0.serve(CONNECTIONS_MAX, |stream| serve_one(stream, router.clone())).await
    }
}

async fn serve_one(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A client that breaks off is its own matter.
    let _ = connection.await;
}

/// Refuses requests for other hosts' names: a page of such a host, whose name leads here, must not read the answers.
async fn known_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default().to_owned());
    match host {
        Some(host) if !is_known(&host) => {
            let refusal = "ask for the monitor by its address or as localhost: other names may be of other pages\n";
            (StatusCode::MISDIRECTED_REQUEST, refusal).into_response()
        }
        _ => next.run(request).await,
    }
}

/// An address cannot be another host's name.
fn is_known(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_known_hosts() {
        for (host, is_so) in [
            ("127.0.0.1:9142", true),
            ("127.0.0.1", true),
            ("[::1]:9142", true),
            ("[::1]", true),
            ("localhost", true),
            ("LocalHost:1", true),
            ("10.0.0.7:80", true),
            ("evil.example", false),
            ("evil.example:9142", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:9142", false),
            ("", false),
        ] {
            assert_eq!(is_known(host), is_so, "{host}");
        }
    }
}
