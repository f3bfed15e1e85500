//! Receivers of alerts: a webhook, over TLS if its URL says so, or a command. Each alert is sent until it is taken.

use std::process::Stdio;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper_util::rt::TokioIo;
use lockkeeper::clock::{BootInstant, Clock as _, SystemClock};
use lockkeeper_monitor::alerts::{Alert, AlertNews, Desk, is_of_service};
#[cfg(feature = "tls")]
use lockkeeper_tls::Connector;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::operate::TOKEN_VARIABLE;
use super::sender::{AlertSender, SharedDesk};
use crate::config::{Webhook, WebhookFormat};
use crate::exit::CommandFailure;
use crate::output::{ToldAlert, json_line, posted, say};

/// How long a command may take for one; after that it is killed.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);

/// How often Alertmanager is told what fires: it takes for over what it does not hear of for some minutes.
const REPEAT_PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) enum Sink {
    Webhook(Poster, WebhookFormat),
    /// A program and its arguments, which reads one alert from stdin.
    Command(Vec<String>),
}

impl Sink {
    pub(super) fn webhook(webhook: Webhook) -> Result<Self, CommandFailure> {
        let format = webhook.format;
        Ok(Self::Webhook(Poster::new(webhook)?, format))
    }
}

pub(super) enum Untaken {
    /// The receiver may take it later.
    Down(String),
    /// It never will.
    Refused(String),
}

/// One receiver. What it is still to be told, the desk knows.
#[derive(Debug)]
pub(super) struct Receiver {
    sink: Sink,
    service: String,
    news: Notify,
}

impl Receiver {
    pub(super) fn new(sink: Sink, service: String) -> Self {
        Self { sink, service, news: Notify::new() }
    }

    /// What the desk knows it by, and other monitors theirs of the same kind.
    pub(super) const fn key(&self) -> &'static str {
        match self.sink {
            Sink::Webhook(..) => "webhook",
            Sink::Command(_) => "command",
        }
    }

    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    /// Tells until the future is dropped, and notifies whenever something was told.
    pub(super) async fn run(&self, desk: &SharedDesk, sender: Option<&AlertSender>, told: &Notify) {
        let mut is_down = false;
        let mut repeat = SystemClock.now().saturating_add(REPEAT_PERIOD);
        loop {
            if sender.is_some_and(AlertSender::is_over) {
                // Another monitor may lead by now.
                desk.lock().follow();
            }
            let now = SystemClock.now();
            let (due, next) = self.due(&mut desk.lock(), now);
            let Some((number, news)) = due else {
                if self.until_due(next, repeat).await {
                    repeat = SystemClock.now().saturating_add(REPEAT_PERIOD);
                    let firing = desk.lock().told();
                    // What is not taken now is told again a minute later.
                    let _ = self.repeat(firing).await;
                }
                continue;
            };
            let taken = self.tell(&news).await;
            let mut desk = desk.lock();
            let Some(outbox) = desk.outbox(self.key()) else { continue };
            match taken {
                Ok(()) => {
                    if std::mem::take(&mut is_down) {
                        say(&format!("alerts are taken again by {}", self.name()));
                    }
                    outbox.told(number);
                }
                Err(Untaken::Refused(what)) => {
                    say(&format!("warning: {} refuses an alert: {what}", self.name()));
                    outbox.refused(number);
                }
                Err(Untaken::Down(what)) => {
                    if !std::mem::replace(&mut is_down, true) {
                        say(&format!("warning: alerts are not taken by {}: {what}; it is tried again", self.name()));
                    }
                    outbox.failed(SystemClock.now());
                    continue;
                }
            }
            told.notify_one();
        }
    }

    /// Returns the news that are due with their number, and when the next ones are.
    fn due(&self, desk: &mut Desk, now: BootInstant) -> (Option<(u64, AlertNews)>, Option<BootInstant>) {
        let sends = desk.sends();
        let is_ours = |news: &AlertNews| sends || is_of_service(news);
        desk.outbox(self.key()).map_or((None, None), |outbox| {
            let due = outbox.due(now, is_ours).map(|(number, news)| (number, news.clone()));
            (due, outbox.next_try(now, is_ours))
        })
    }

    /// Waits until news are due; tells whether it is time to repeat instead.
    async fn until_due(&self, next: Option<BootInstant>, repeat: BootInstant) -> bool {
        let is_repeating = matches!(&self.sink, Sink::Webhook(_, WebhookFormat::Alertmanager));
        tokio::select! {
            () = self.news.notified(), if next.is_none() => false,
            () = SystemClock.sleep_until(next.unwrap_or(repeat)), if next.is_some() => false,
            () = SystemClock.sleep_until(repeat), if next.is_none() && is_repeating => true,
        }
    }

    fn name(&self) -> String {
        match &self.sink {
            Sink::Webhook(poster, _) => poster.url(),
            Sink::Command(words) => words.first().cloned().unwrap_or_default(),
        }
    }

    async fn tell(&self, news: &AlertNews) -> Result<(), Untaken> {
        let (AlertNews::Raised(alert) | AlertNews::Ended(alert)) = news else { return Ok(()) };
        let now_unix = SystemClock.unix_time();
        let told = ToldAlert::new(&self.service, alert, now_unix);
        match &self.sink {
            Sink::Webhook(poster, WebhookFormat::Alertmanager) => {
                poster.post(&json(&posted(&self.service, std::slice::from_ref(alert), now_unix))?, None).await
            }
            Sink::Webhook(poster, WebhookFormat::Plain) => poster.post(&json(&told)?, Some(told.key())).await,
            Sink::Command(words) => run(words, &json(&told)?).await,
        }
    }

    async fn repeat(&self, firing: Vec<Alert>) -> Result<(), Untaken> {
        match &self.sink {
            Sink::Webhook(poster, _) if !firing.is_empty() => {
                poster.post(&json(&posted(&self.service, &firing, SystemClock.unix_time()))?, None).await
            }
            _ => Ok(()),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Untaken> {
    json_line(value).map_err(|failure| Untaken::Refused(failure.message))
}

/// Runs a program with an alert on its stdin.
async fn run(words: &[String], alert: &str) -> Result<(), Untaken> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    // It has no orders to give.
    command.env_remove(TOKEN_VARIABLE);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| Untaken::Down(error.to_string()))?;
    let ended = async {
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read has seen enough.
            let _ = stdin.write_all(alert.as_bytes()).await;
        }
        child.wait().await
    };
    match timeout(COMMAND_TIME_MAX, ended).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(Untaken::Down(format!("it ended with {status}"))),
        Ok(Err(error)) => Err(Untaken::Down(error.to_string())),
        Err(_) => Err(Untaken::Down(format!("it did not end within {COMMAND_TIME_MAX:?}, and was killed"))),
    }
}

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
        let mut request = Request::post(self.webhook.path.as_str()).header(CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        self.exchange(request, body, 0).await.map(|(status, _)| status)
    }

    /// Asks for a path behind the one of its URL, and returns the status and the body of the answer, of so many bytes
    /// at most.
    pub(super) async fn get(&self, path: &str, bytes_max: usize) -> Result<(u16, Bytes), String> {
        let before = self.webhook.path.trim_end_matches('/');
        self.exchange(Request::get(format!("{before}{path}")), "", bytes_max).await
    }

    async fn exchange(&self, request: Builder, body: &str, bytes_max: usize) -> Result<(u16, Bytes), String> {
        let Webhook { host, port, .. } = &self.webhook;
        let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let request = request.header(HOST, shown).body(Full::<Bytes>::from(body.to_owned()));
        let request = request.map_err(|error| error.to_string())?;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
        #[cfg(feature = "tls")]
        if let Some(connector) = &self.connector {
            let stream = connector.connect(host, stream).await.map_err(|error| error.to_string())?;
            return exchanged(stream, request, bytes_max).await;
        }
        exchanged(stream, request, bytes_max).await
    }
}

/// Sends a request over a connection, and returns the status of the answer, and its body if it is to have bytes.
async fn exchanged<Stream>(
    stream: Stream,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<(u16, Bytes), String>
where
    Stream: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        if bytes_max == 0 {
            return Ok((status, Bytes::new()));
        }
        let body = Limited::new(answer.into_body(), bytes_max).collect().await.map_err(|error| error.to_string())?;
        Ok((status, body.to_bytes()))
    };
    tokio::pin!(answered);
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        // It may have carried the answer as the last thing.
        _ = connection => answered.await,
    }
}
