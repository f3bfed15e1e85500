//! Tells one receiver of alerts: each again and again until it is taken.

use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_monitor::alerts::{Alert, News, Outbox};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::config::{Webhook, WebhookFormat};
use crate::output::{ToldAlert, json_line, posted};
use crate::voice::say;

/// How long a webhook may take for an alert.
const WEBHOOK_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a command may take for one; after that it is killed.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);

/// How often Alertmanager is told what fires: it takes for over what it does not hear of for some minutes.
const REPEAT_PERIOD: Duration = Duration::from_secs(60);

/// What takes alerts.
#[derive(Debug)]
pub(crate) enum Sink {
    /// A server of HTTP.
    Webhook(Webhook),
    /// A program and its arguments, which reads one alert from stdin.
    Command(Vec<String>),
}

/// Why an alert was not taken.
enum Untaken {
    /// The receiver may take it later.
    Down(String),
    /// It never will.
    Refused(String),
}

/// One receiver, and what it is still to be told.
#[derive(Debug)]
pub(super) struct Receiver {
    sink: Sink,
    service: String,
    outbox: Mutex<Outbox>,
    news: Notify,
}

impl Receiver {
    pub(super) fn new(sink: Sink, service: String) -> Self {
        Self { sink, service, outbox: Mutex::default(), news: Notify::new() }
    }

    /// Nothing panics while it is locked but a bug.
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is to be told.
    pub(super) fn put(&self, news: News) {
        self.outbox().put(news, SystemClock.now());
        self.news.notify_one();
    }

    /// Returns how many alerts were never told.
    pub(super) fn dropped(&self) -> u64 {
        self.outbox().dropped()
    }

    /// Tells until the future is dropped. `firing` returns the alerts that are not over.
    pub(super) async fn run(&self, firing: impl Fn() -> Vec<Alert>) {
        let mut is_down = false;
        let mut repeat = SystemClock.now().saturating_add(REPEAT_PERIOD);
        loop {
            let due = self.outbox().due(SystemClock.now()).cloned();
            let Some(news) = due else {
                if self.until_due(repeat).await {
                    repeat = SystemClock.now().saturating_add(REPEAT_PERIOD);
                    // What is not taken now is told again a minute later.
                    let _ = self.repeat(firing()).await;
                }
                continue;
            };
            match self.tell(&news).await {
                Ok(()) => {
                    if std::mem::take(&mut is_down) {
                        say(&format!("alerts are taken again by {}", self.name()));
                    }
                    self.outbox().told();
                }
                Err(Untaken::Refused(what)) => {
                    say(&format!("warning: {} refuses an alert: {what}", self.name()));
                    self.outbox().told();
                }
                Err(Untaken::Down(what)) => {
                    if !std::mem::replace(&mut is_down, true) {
                        say(&format!("warning: alerts are not taken by {}: {what}; it is tried again", self.name()));
                    }
                    self.outbox().failed(SystemClock.now());
                }
            }
        }
    }

    /// Waits until something is to be told; tells whether it is time to repeat instead.
    async fn until_due(&self, repeat: lockkeeper::clock::BootInstant) -> bool {
        let next = self.outbox().next_try(SystemClock.now());
        let is_repeating = matches!(&self.sink, Sink::Webhook(Webhook { format: WebhookFormat::Alertmanager, .. }));
        tokio::select! {
            () = self.news.notified(), if next.is_none() => false,
            () = SystemClock.sleep_until(next.unwrap_or(repeat)), if next.is_some() => false,
            () = SystemClock.sleep_until(repeat), if next.is_none() && is_repeating => true,
        }
    }

    fn name(&self) -> String {
        match &self.sink {
            Sink::Webhook(Webhook { host, port, path, .. }) => format!("http://{host}:{port}{path}"),
            Sink::Command(words) => words.first().cloned().unwrap_or_default(),
        }
    }

    async fn tell(&self, news: &News) -> Result<(), Untaken> {
        let (News::Raised(alert) | News::Ended(alert)) = news else { return Ok(()) };
        let now_unix = SystemClock.unix_time();
        let told = ToldAlert::new(&self.service, alert, now_unix);
        match &self.sink {
            Sink::Webhook(webhook) if webhook.format == WebhookFormat::Alertmanager => {
                post(webhook, &json(&posted(&self.service, std::slice::from_ref(alert), now_unix))?, None).await
            }
            Sink::Webhook(webhook) => post(webhook, &json(&told)?, Some(told.key())).await,
            Sink::Command(words) => run(words, &json(&told)?).await,
        }
    }

    async fn repeat(&self, firing: Vec<Alert>) -> Result<(), Untaken> {
        match &self.sink {
            Sink::Webhook(webhook) if !firing.is_empty() => {
                post(webhook, &json(&posted(&self.service, &firing, SystemClock.unix_time()))?, None).await
            }
            _ => Ok(()),
        }
    }
}

fn json(value: &impl serde::Serialize) -> Result<String, Untaken> {
    json_line(value).map_err(|failure| Untaken::Refused(failure.message))
}

async fn post(webhook: &Webhook, body: &str, key: Option<String>) -> Result<(), Untaken> {
    let status = timeout(WEBHOOK_TIME_MAX, exchanged(webhook, body, key)).await;
    match status {
        Err(_) => Err(Untaken::Down(format!("it did not answer within {WEBHOOK_TIME_MAX:?}"))),
        Ok(Err(what)) => Err(Untaken::Down(what)),
        Ok(Ok(200..=299)) => Ok(()),
        // Too much at a time, or too slow: not the alert's fault.
        Ok(Ok(status @ (408 | 429 | 500..))) => Err(Untaken::Down(format!("it answers {status}"))),
        Ok(Ok(status)) => Err(Untaken::Refused(format!("it answers {status}"))),
    }
}

/// Posts a body, and returns the status of the answer.
async fn exchanged(webhook: &Webhook, body: &str, key: Option<String>) -> Result<u16, String> {
    let Webhook { host, port, path, .. } = webhook;
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error.to_string())?;
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

/// Runs a program with an alert on its stdin.
async fn run(words: &[String], alert: &str) -> Result<(), Untaken> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
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
