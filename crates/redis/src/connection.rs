//! One connection to a server: batches of commands, scripts and tracked reads, queued in the order of the calls. Each
//! failure says whether it may have had an effect.
//!
//! A connection is one socket, which never comes back. What is done when it is lost, and what the scripts do, is left
//! to the session.
//!
//! - `find`, `open`, `greeting`, `loading`: which server has the keys, how it is connected to, what it says of itself,
//!   and what is done while it loads its data.
//! - `answer`: reads answers. `tracking`: reads notifications.

mod answer;
mod find;
mod greeting;
mod loading;
mod open;
#[cfg(test)]
mod tests;
mod tracking;

pub(crate) use answer::{answer, list, number, only, text, texts};
pub(crate) use find::until_replaced;
pub(crate) use greeting::{HelloReply, Version};
pub(crate) use loading::LoadingNote;
pub(crate) use open::OpenedConnection;
pub(crate) use tracking::{KeyMarks, KeyWait, KeyWake, Marked};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{AnswerMeter, Asking, Effect, Failure, FailureKind, Lookable, Server, answered, late};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, ToRedisArgs, Value, cmd};
use sha1::{Digest, Sha1};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::connection::answer::{HELLO, explained, lacks_script, of_transport};
use crate::connection::tracking::WaitRegistry;

/// The most batches that wait for their answers: a hundred times the contenders that one process is tested with.
const BATCHES_MAX: usize = 1 << 20;

pub(crate) struct Connection {
    server: Server,
    pub(crate) greeting: HelloReply,
    line: Mutex<SendLine>,
    meter: Arc<AnswerMeter>,
    waits: Arc<WaitRegistry>,
    driver: Driver,
    is_over: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    /// Where abandoned batches go on.
    runtime: Handle,
    batches: Arc<AtomicUsize>,
}

/// The line of batches before the driver.
struct SendLine {
    connection: MultiplexedConnection,
    /// How many bytes were queued since the socket was opened.
    queued_bytes: u64,
}

impl Connection {
    /// Queues a batch behind all that were queued before, and returns the answers: one for each command, script and
    /// tracked read. A refusal stands in its place; [`answer()`] judges it. Dropping the future
    /// takes nothing back.
    ///
    /// A batch fails as a whole if the connection ends first, or if the server does not have one of its scripts.
    pub(crate) fn send(&self, batch: Batch) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let Batch { pipeline, parts } = batch;
        if parts.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let place = match BatchSlot::take(&self.batches) {
            Ok(place) => place,
            Err(failure) => return Box::pin(std::future::ready(Err(failure))),
        };
        let bytes = pipeline.get_packed_pipeline().len() as u64;
        let (meter, driver, clock) = (self.meter.clone(), self.driver.0.clone(), self.clock.clone());
        let mut line = self.line.lock();
        let connection = line.connection.clone();
        let begins_at = line.queued_bytes;
        line.queued_bytes += bytes;
        let asking = async move {
            let answers = send(connection, &pipeline, &meter, &*clock).await;
            drop(place);
            meter.note_progress();
            match answers {
                Ok(answers) => sorted(&parts, answers).inspect_err(|_| driver.abort()),
                Err(error) => {
                    let is_begun = meter.written() > begins_at;
                    Err(of_transport(error, if is_begun { Effect::Unknown } else { Effect::None }))
                }
            }
        };
        // Under the lock, so that what is queued stands in the order of the calls.
        let asking = Asking::begin(asking, self.runtime.clone());
        drop(line);
        Box::pin(asking)
    }

    /// Queues a batch, and waits for its answers until the deadline.
    pub(crate) fn send_until(&self, batch: Batch, deadline: BootInstant) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let (asking, clock) = (self.send(batch), self.clock.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                answers = asking => answers,
                () = late(&*clock, deadline) => Err(Failure::late(Effect::Unknown)),
            }
        })
    }

    /// Registers a wait for a change of a key, which is then to be read by a batch
    /// ([`tracked`](Batch::tracked)). A change after that read is told; one before it may be told too.
    pub(crate) fn wait_for(&self, key: &[u8]) -> Result<KeyWait, Failure> {
        self.waits.register(key)
    }

    pub(crate) fn mark(&self, marks: Arc<KeyMarks>) {
        self.waits.mark(marks);
    }

    /// Queues a batch, waits for its answers until the deadline, and fails if the server is no master any more.
    pub(crate) async fn send_to_master(&self, batch: Batch, deadline: BootInstant) -> Result<Vec<Value>, Failure> {
        let mut answers = self.send_until(batch.command(cmd(HELLO)), deadline).await?;
        HelloReply::of(&answer(answers.pop().ok_or_else(Failure::unexpected)?, HELLO)?)?.check_master()?;
        Ok(answers)
    }

    pub(crate) async fn over(&self) {
        let mut is_over = self.is_over.clone();
        // An error says that the driver was dropped.
        let _ = is_over.wait_for(|&is_over| is_over).await;
    }
}

impl Lookable for Connection {
    fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    fn shut(&self) {
        self.driver.0.abort();
    }

    fn server(&self) -> &Server {
        &self.server
    }
}

/// Hands commands to the driver, and waits for an answer to each.
async fn send(
    mut connection: MultiplexedConnection,
    commands: &Pipeline,
    meter: &AnswerMeter,
    clock: &dyn Clock,
) -> Result<Vec<Value>, RedisError> {
    let asking = connection.send_packed_commands(commands, 0, commands.len());
    let ended = || Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
    answered(asking, meter.is_over(), clock).await.unwrap_or_else(ended)
}

/// Sorts the answers by commands. The preparation of a tracked read has none, but its refusal is the read's answer.
fn sorted(parts: &[AnswerPart], answers: Vec<Value>) -> Result<Vec<Value>, Failure> {
    if parts.len() != answers.len() {
        return Err(Failure::unexpected());
    }
    let lost = answers.iter().filter(|answer| lacks_script(answer)).count();
    if lost > 0 {
        let scripts = parts.iter().filter(|part| matches!(part, AnswerPart::Script(..))).count();
        let effect = if lost == scripts { Effect::None } else { Effect::Unknown };
        return Err(Failure::new(FailureKind::Broken, effect, SCRIPTS_LOST));
    }
    let mut sorted = Vec::with_capacity(answers.len());
    let mut refused = None;
    for (part, answer) in parts.iter().zip(answers) {
        match part {
            AnswerPart::Preparation => refused = matches!(answer, Value::ServerError(_)).then_some(answer),
            AnswerPart::Command => sorted.push(refused.take().unwrap_or(answer)),
            AnswerPart::Script(source, base) => sorted.push(explained(answer, source, base)),
        }
    }
    Ok(sorted)
}

const SCRIPTS_LOST: &str = "an operator removed the server's scripts, and a new connection will give them to it again";

/// One of the batches that wait for their answers.
struct BatchSlot(Arc<AtomicUsize>);

impl BatchSlot {
    fn take(batches: &Arc<AtomicUsize>) -> Result<Self, Failure> {
        let place = Self(batches.clone());
        if batches.fetch_add(1, Ordering::Relaxed) < BATCHES_MAX {
            return Ok(place);
        }
        let message = format!("one connection waits for at most {BATCHES_MAX} answers at a time");
        Err(Failure::new(FailureKind::Limit, Effect::None, message))
    }
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task with the socket, which ends with this.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says that the connection is over when its driver ends, also if that is because the runtime has ended.
struct ConnectionEnd {
    is_over: watch::Sender<bool>,
    waits: Arc<WaitRegistry>,
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        self.is_over.send_replace(true);
        self.waits.end();
    }
}

#[derive(Debug)]
pub(crate) struct LoadedScript {
    /// Its name in messages.
    pub(crate) name: &'static str,
    source: Arc<str>,
    sha: String,
}

impl LoadedScript {
    pub(crate) fn new(name: &'static str, source: impl Into<String>) -> Self {
        let source: String = source.into();
        let sha = Sha1::digest(source.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { name, source: source.into(), sha }
    }
}

/// The origin of one of the server's answers.
#[derive(Clone, Debug, Eq, PartialEq)]
enum AnswerPart {
    Command,
    /// A script, by its source, and what all of its keys begin with.
    Script(Arc<str>, String),
    /// The preparation of a tracked read, whose answer is dropped.
    Preparation,
}

/// Commands that are sent together, and stay together: nothing of another batch comes between them.
///
/// The server goes on behind a command that it refused. So what stands behind a script must do no harm if the script
/// was refused. A batch that changes anything does so by scripts alone.
#[derive(Debug, Default)]
#[must_use = "it is not sent before it is given to a connection"]
pub(crate) struct Batch {
    pipeline: Pipeline,
    parts: Vec<AnswerPart>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { pipeline: Pipeline::new(), parts: Vec::new() }
    }

    /// Gives a script to the server, which then knows it until it restarts or an operator removes it.
    pub(crate) fn load(self, script: &LoadedScript) -> Self {
        let mut command = cmd("SCRIPT");
        command.arg("LOAD").arg(&*script.source);
        self.command(command)
    }

    /// Runs a script that the server was given over this connection. A server that has lost it ends the connection.
    pub(crate) fn script(mut self, script: &LoadedScript, keys: &[&str], arguments: impl ToRedisArgs) -> Self {
        let mut command = cmd("EVALSHA");
        command.arg(&script.sha).arg(keys.len()).arg(keys).arg(arguments);
        let base = keys.first().copied().unwrap_or_default();
        self.push(command, AnswerPart::Script(script.source.clone(), base.to_owned()));
        self
    }

    pub(crate) fn command(mut self, command: Cmd) -> Self {
        self.push(command, AnswerPart::Command);
        self
    }

    /// Reads a key by a command without further arguments, so that the server reports its next change.
    pub(crate) fn tracked(mut self, command: &str, key: &[u8]) -> Self {
        let (mut caching, mut read) = (cmd("CLIENT"), cmd(command));
        caching.arg("CACHING").arg("YES");
        read.arg(key);
        self.push(caching, AnswerPart::Preparation);
        self.push(read, AnswerPart::Command);
        self
    }

    fn push(&mut self, command: Cmd, part: AnswerPart) {
        self.pipeline.add_command(command);
        self.parts.push(part);
    }
}
