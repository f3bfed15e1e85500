//! Posts alerts to a webhook, over TLS if its URL says so. What is posted, `receiver` says.

use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
#[cfg(feature = "tls")]
use lockkeeper_tls::Connector;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::receiver::Untaken;
use crate::config::Webhook;
use crate::exit::CommandFailure;

/// How long a webhook may take for an alert.
const WEBHOOK_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Poster {
    webhook: Webhook,
    #[cfg(feature = "tls")]
    connector: Option<Connector>,
}

impl Poster {
    /// Reads the authorities that are trusted, if it is posted to over TLS.
    #[cfg(feature = "tls")]
    pub(super) fn new(webhook: Webhook) -> Result<Self, CommandFailure> {
        let material = webhook.security.as_ref().map(|security| security.settings().read()).transpose();
        let material = material.map_err(|error| CommandFailure::ours(format!("monitor.webhook: {error:#}")))?;
        let connector = material.map(|material| Connector::new(&material));
        Ok(Self { webhook, connector })
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn new(webhook: Webhook) -> Result<Self, CommandFailure> {
        Ok(Self { webhook })
    }

    pub(super) fn url(&self) -> String {
        let Webhook { host, port, path, security, .. } = &self.webhook;
        let scheme = if security.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{port}{path}")
    }

    /// Posts a body, with a key by which the receiver knows it again.
    pub(super) async fn post(&self, body: &str, key: Option<String>) -> Result<(), Untaken> {
        match timeout(WEBHOOK_TIME_MAX, self.answer(body, key)).await {
            Err(_) => Err(Untaken::Down(format!("it did not answer within {WEBHOOK_TIME_MAX:?}"))),
            Ok(Err(what)) => Err(Untaken::Down(what)),
            Ok(Ok(200..=299)) => Ok(()),
            // It is this alert that is not wanted; anything else may be mended.
            Ok(Ok(status @ (400 | 413 | 422))) => Err(Untaken::Refused(format!("it answers {status}"))),
            Ok(Ok(status)) => Err(Untaken::Down(format!("it answers {status}"))),
        }
    }

    /// Posts a body, and returns the status of the answer.
    async fn answer(&self, body: &str, key: Option<String>) -> Result<u16, String> {
        let Webhook { host, port, .. } = &self.webhook;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
        #[cfg(feature = "tls")]
        if let Some(connector) = &self.connector {
            let stream = connector.connect(host, stream).await.map_err(|error| error.to_string())?;
            return exchanged(&self.webhook, stream, body, key).await;
        }
        exchanged(&self.webhook, stream, body, key).await
    }
}

/// Posts a body over a connection, and returns the status of the answer.
async fn exchanged<Stream>(webhook: &Webhook, stream: Stream, body: &str, key: Option<String>) -> Result<u16, String>
where
    Stream: AsyncRead + AsyncWrite + Unpin,
{
    let Webhook { host, port, path, .. } = webhook;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let host = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = Request::post(path.as_str()).header(HOST, host).header(CONTENT_TYPE, "application/json");
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let request = request.body(Full::<Bytes>::from(body.to_owned())).map_err(|error| error.to_string())?;
    let answered = async { sender.send_request(request).await.map(|answer| answer.status().as_u16()) };
    tokio::pin!(answered);
    let answer = tokio::select! {
        biased;
        answer = &mut answered => answer,
        // It may have carried the answer as the last thing.
        _ = connection => answered.await,
    };
    answer.map_err(|error| error.to_string())
}
