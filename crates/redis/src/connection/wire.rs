//! The connection: batches are queued in the order of the calls, and each failure says whether it may have had an
//! effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_core::BoxFuture;
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_session::{Asking, Effect, Failure, FailureKind, Lookable, Meter, Mutex, Server, answered, late};
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::connection::answer::{HELLO, answer, explained, lacks_script};
use crate::connection::batch::{Batch, Part};
use crate::connection::failure::of_transport;
use crate::connection::greeting::Greeting;
use crate::connection::marks::Marks;
use crate::connection::tracking::{Registry, Told};

/// The most batches that wait for their answers: a hundred times the contenders that one process is tested with.
pub(super) const FLIGHTS_MAX: usize = 1 << 20;

/// A connection to one server. Dropping it closes it.
pub(crate) struct Connection {
    pub(super) server: Server,
    /// What the server says of itself.
    pub(crate) greeting: Greeting,
    pub(super) line: Mutex<Line>,
    pub(super) meter: Arc<Meter>,
    pub(super) waits: Arc<Registry>,
    pub(super) driver: Driver,
    pub(super) is_over: watch::Receiver<bool>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where batches go on that are given up.
    pub(super) runtime: Handle,
    /// How many batches wait for their answers.
    pub(super) batches: Arc<AtomicUsize>,
}

/// Where batches stand in line for the driver.
pub(super) struct Line {
    pub(super) connection: MultiplexedConnection,
    /// How many bytes were queued since the socket was opened.
    pub(super) queued_bytes: u64,
}

impl Connection {
    /// Queues a batch behind all that were queued before, and returns the answers: one for each command, script and
    /// tracked read. A refusal stands in its place; [`answer`] judges it. Dropping the future
    /// takes nothing back.
    ///
    /// A batch fails as a whole if the connection ends first, or if the server does not have one of its scripts.
    pub(crate) fn send(&self, batch: Batch) -> BoxFuture<Result<Vec<Value>, Failure>> {
        let Batch { pipeline, parts } = batch;
        if parts.is_empty() {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        let place = match Place::take(&self.batches) {
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
    /// ([`tracked_get`](Batch::tracked_get)). A change after that read is told; one before it may be told too.
    pub(crate) fn wait_for(&self, key: &[u8]) -> Result<Told, Failure> {
        self.waits.register(key)
    }

    /// Has all keys noted that the server tells of.
    pub(crate) fn mark(&self, marks: Arc<Marks>) {
        self.waits.mark(marks);
    }

    /// Queues a batch, waits for its answers until the deadline, and fails if the server is no master any more.
    pub(crate) async fn send_to_master(&self, batch: Batch, deadline: BootInstant) -> Result<Vec<Value>, Failure> {
        let mut answers = self.send_until(batch.command(redis::cmd(HELLO)), deadline).await?;
        Greeting::of(&answer(answers.pop().ok_or_else(Failure::unexpected)?, HELLO)?)?.check_master()?;
        Ok(answers)
    }

    /// Waits until it has ended.
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
pub(super) async fn send(
    mut connection: MultiplexedConnection,
    commands: &Pipeline,
    meter: &Meter,
    clock: &dyn Clock,
) -> Result<Vec<Value>, RedisError> {
    let asking = connection.send_packed_commands(commands, 0, commands.len());
    let ended = || Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
    answered(asking, meter.is_over(), clock).await.unwrap_or_else(ended)
}

/// Gives each command its answer. The preparation of a tracked read has none, but a refusal of it is the read's.
pub(super) fn sorted(parts: &[Part], answers: Vec<Value>) -> Result<Vec<Value>, Failure> {
    if parts.len() != answers.len() {
        return Err(Failure::unexpected());
    }
    let lost = answers.iter().filter(|answer| lacks_script(answer)).count();
    if lost > 0 {
        let scripts = parts.iter().filter(|part| matches!(part, Part::Script(..))).count();
        let effect = if lost == scripts { Effect::None } else { Effect::Unknown };
        return Err(Failure::new(FailureKind::Broken, effect, SCRIPTS_LOST));
    }
    let mut sorted = Vec::with_capacity(answers.len());
    let mut refused = None;
    for (part, answer) in parts.iter().zip(answers) {
        match part {
            Part::Preparation => refused = matches!(answer, Value::ServerError(_)).then_some(answer),
            Part::Command => sorted.push(refused.take().unwrap_or(answer)),
            Part::Script(source, base) => sorted.push(explained(answer, source, base)),
        }
    }
    Ok(sorted)
}

const SCRIPTS_LOST: &str = "an operator removed the server's scripts, and a new connection will give them to it again";

/// One of the batches that wait for their answers.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(batches: &Arc<AtomicUsize>) -> Result<Self, Failure> {
        let place = Self(batches.clone());
        if batches.fetch_add(1, Ordering::Relaxed) < FLIGHTS_MAX {
            return Ok(place);
        }
        let message = format!("one connection waits for at most {FLIGHTS_MAX} answers at a time");
        Err(Failure::new(FailureKind::Limit, Effect::None, message))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task with the socket, which ends with this.
pub(super) struct Driver(pub(super) AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says that the connection is over when its driver ends, also if that is because the runtime has ended.
pub(super) struct Over {
    pub(super) is_over: watch::Sender<bool>,
    pub(super) waits: Arc<Registry>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.is_over.send_replace(true);
        self.waits.end();
    }
}
