//! The one task of a session that keeps it: it uses a connection, connects again when it is lost, and ends the session.
//!
//! If a runtime ends before its session, none of the session's tasks goes on, nor do the clients of protocols. So a
//! thread has a small runtime for itself, and ends the session over a fresh connection. The old runtime waits for it,
//! since the program may end next.
//!
//! How a service is connected to, what proves a session there, and how it is ended, its backend knows.

#[cfg(test)]
pub(crate) mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Backoff, Error, ErrorKind, Liveness, LossReason, Operation, Result};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};

use crate::{Effect, Ending, Failure, FailureKind, Finder, Life, Link, Server, at_home, share, until};

/// The number of a session's first connection.
pub const FIRST_CONNECTION: u64 = 1;

/// For how long a session that has lapsed is still to be ended at the service, where its contenders keep others
/// waiting: a service that was away may let it live on from its return. After a longer outage it ends at its timeout.
pub const LAPSED_IS_ENDED_WITHIN: Duration = Duration::from_secs(3_600);

/// How long the end of a runtime waits for the service to be told: for the greeting and the end of a session at a
/// service that is near. A program that ends should not stay for one that does not answer.
const FAREWELL_MAX: Duration = Duration::from_millis(250);

/// A round takes at most this part of the session timeout: a service that was cut off is asked anew once it can be.
const PATIENCE_MAX_DIVISOR: u32 = 2;

/// The server of the last session that could not be ended in time, and when that was. All sessions of a program end at
/// once, so the others are not tried over that server: else each would wait as long.
static SILENT: Mutex<Option<(Option<Server>, BootInstant)>> = Mutex::new(None);

/// Returns where a session on this service will live.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent, outside a tokio runtime.
pub fn runtime_for(service: &str) -> Result<Handle> {
    Handle::try_current().map_err(|_| {
        let message = format!("a session on {service} needs a tokio runtime");
        Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
    })
}

/// How the session of one service is kept.
pub trait Keeping: Send + Sync + 'static {
    /// A connection that the session was taken over to.
    type Link: Link;

    /// Such a connection, with what its use needs besides.
    type Taken: Send;

    /// The life of the session.
    fn life(&self) -> &Life<Self::Link>;

    /// The connection that was taken.
    fn link(taken: &Self::Taken) -> Arc<Self::Link>;

    /// How long a round over all servers may take.
    fn patience(&self) -> Duration;

    /// Uses a connection until it fails: then the session is attached to it, and proven over it.
    fn serve(&mut self, taken: Self::Taken) -> impl Future<Output = Failure> + Send;

    /// Notes that no connection is in use.
    fn detached(&self) {}

    /// Takes the session over to a connection to this server, as the one of this number.
    fn take_over(
        &self,
        server: Server,
        number: u64,
        deadline: BootInstant,
    ) -> impl Future<Output = Result<Self::Taken, Failure>> + Send;

    /// Ends the session over this connection, and all contenders with it.
    fn end(&mut self, link: &Self::Link) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends the session over another connection, to this server. It uses the runtime that it is polled in, and not that
    /// of the session, which may have ended.
    fn end_at(&self, server: Server, deadline: BootInstant) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Keeps a session until it is over; the finder finds the servers after the first. If the future is dropped, as it is
/// with its runtime, the session is over here and the service is told, also if that was before its first poll.
pub fn keep<K: Keeping>(keeping: K, finder: Finder, first: K::Taken) -> impl Future<Output = ()> + Send {
    let next_connection = AtomicU64::new(FIRST_CONNECTION + 1);
    let refusals = Backoff::CONNECTING;
    let keeper = SessionKeeper { kept: keeping, finder, next_connection, refusals, is_done: false };
    at_home(async move { keeper.run(first).await })
}

struct SessionKeeper<K: Keeping> {
    kept: K,
    finder: Finder,
    next_connection: AtomicU64,
    /// The pauses after connections that the service has refused to serve.
    refusals: Backoff,
    /// Whether all was done that ends the session.
    is_done: bool,
}

impl<K: Keeping> SessionKeeper<K> {
    async fn run(mut self, first: K::Taken) {
        self.keep(first).await;
        self.is_done = true;
    }

    async fn keep(&mut self, first: K::Taken) {
        let mut taken = Some(first);
        while let Some(present) = taken.take() {
            let link = K::link(&present);
            if self.serve(present).await.is_break() {
                self.end(Some(&link)).await;
                return;
            }
            link.shut();
            self.kept.life().detach();
            self.kept.detached();
            taken = self.connect().await;
        }
        self.end(None).await;
    }

    /// Uses a connection until it fails, or the session is lost.
    async fn serve(&mut self, taken: K::Taken) -> ControlFlow<()> {
        let lost = self.kept.life().bond().clone();
        let link = K::link(&taken);
        let failure = tokio::select! {
            biased;
            _ = lost.lost() => return ControlFlow::Break(()),
            failure = self.kept.serve(taken) => failure,
        };
        if failure.kind == FailureKind::SessionGone {
            self.kept.life().expire();
            return ControlFlow::Break(());
        }
        tracing::debug!(target: "lockkeeper", server = %link.server(), %failure, "connection lost");
        let is_refused = !failure.is_passing();
        self.kept.life().set_trouble(Some(failure));
        if is_refused {
            // The next one will be refused too, and a server is not asked for that in a busy loop.
            link.shut();
            let clock = self.kept.life().clock.clone();
            tokio::select! {
                biased;
                _ = lost.lost() => return ControlFlow::Break(()),
                () = self.refusals.rest(&*clock) => {}
            }
        }
        ControlFlow::Continue(())
    }

    /// Connects anew; `None` if the session is lost before.
    async fn connect(&mut self) -> Option<K::Taken> {
        let Self { kept, finder, next_connection, .. } = self;
        let (kept, next_connection) = (&*kept, &*next_connection);
        let life = kept.life();
        let (mut backoff, mut patience) = (Backoff::CONNECTING, RoundPatience::of(kept));
        let connecting = async {
            loop {
                let take_over = |server, attempt_ends| {
                    kept.take_over(server, next_connection.fetch_add(1, Ordering::Relaxed), attempt_ends)
                };
                match finder.round(patience.deadline(life), take_over).await {
                    Ok(taken) => return Some(taken),
                    Err(failure) if failure.kind == FailureKind::SessionGone => {
                        life.expire();
                        return None;
                    }
                    Err(failure) => life.set_trouble(Some(failure)),
                }
                patience.note_failure(life);
                backoff.rest(&*life.clock).await;
            }
        };
        tokio::select! {
            biased;
            _ = life.bond().lost() => None,
            taken = connecting => taken,
        }
    }

    /// Ends the session until that is certain or it must have run out.
    async fn end(&mut self, link: Option<&K::Link>) {
        self.kept.life().note_loss();
        let reason = self.kept.life().bond().liveness();
        let has_lapsed = reason == Liveness::Lost(LossReason::Lapsed);
        let patience = if has_lapsed { LAPSED_IS_ENDED_WITHIN } else { self.kept.life().timeout };
        let until = self.kept.life().clock.now().saturating_add(patience);
        let mut outcome = match link {
            Some(link) => self.kept.end(link).await,
            None => Err(self.kept.life().trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        if let Some(link) = link {
            // What has no answer by now gets none.
            link.shut();
        }
        if reason == Liveness::Lost(LossReason::Expired) {
            // What is left of it, others remove.
            outcome = Ok(());
        }
        let (mut backoff, mut overload) = (Backoff::CONNECTING, Backoff::OVERLOADED);
        let mut patience = RoundPatience::of(&self.kept);
        let mut may_be_told_elsewhere = true;
        while let Err(failure) = outcome {
            // Another server may serve already, as after a promotion. But a caller that waits should not wait for a
            // server that is away; what it asked for goes on.
            let is_told_elsewhere = std::mem::take(&mut may_be_told_elsewhere) && failure.needs_another();
            if !is_told_elsewhere {
                self.note(Ending::Untold(failure.clone()));
                if !failure.is_passing() || self.kept.life().clock.now() >= until {
                    return;
                }
                let pauses = match failure.kind {
                    // What a busy service was asked, it may still do.
                    FailureKind::Overloaded => &mut overload,
                    _ => &mut backoff,
                };
                pauses.rest(&*self.kept.life().clock.clone()).await;
            }
            let Self { kept, finder, .. } = &mut *self;
            let kept = &*kept;
            // A caller waits for the first round, and not for those of other sessions.
            let _turn = if is_told_elsewhere { None } else { Some(finder.turn_to_end().await) };
            let deadline = patience.deadline(kept.life());
            outcome = finder.round(deadline, |server, attempt_ends| kept.end_at(server, attempt_ends)).await;
            patience.note_failure(kept.life());
        }
        self.note(Ending::Certain);
    }

    /// Ends the session here, and tells the service, unless that has ended it.
    fn leave_runtime(&mut self) {
        let Self { kept, finder, .. } = &mut *self;
        let (kept, life) = (&*kept, kept.life());
        let (last, clock) = (life.abandon(), &*life.clock);
        let last = last.as_ref();
        kept.detached();
        let end_at = async |server, attempt_ends| {
            until(clock, attempt_ends, Effect::Unknown, kept.end_at(server, attempt_ends)).await
        };
        let told = match life.bond().liveness() {
            Liveness::Lost(LossReason::Expired) => Ok(()),
            _ => farewell(clock, last, |deadline| async move {
                // It has served until now. If it is the only one, it has all the time.
                if let Some(last) = last {
                    let attempt_ends = share(clock.now(), deadline, finder.servers().min(2));
                    if end_at(last.clone(), attempt_ends).await.is_ok() {
                        return Ok(());
                    }
                }
                finder.round(deadline, end_at).await
            }),
        };
        self.note(told.map_or_else(Ending::Untold, |()| Ending::Certain));
    }

    fn note(&self, ending: Ending) {
        self.kept.life().end(ending);
        self.kept.detached();
    }
}

/// If the session is not over, it is its runtime that ends.
/// How long the next round may take. After one whose time was not enough it is twice as long: of thousands of clients
/// that come back to a service together, none would ever be served if each hung up before its turn.
struct RoundPatience {
    whole: Duration,
    /// When the present round ends.
    ends: BootInstant,
}

impl RoundPatience {
    fn of<K: Keeping>(kept: &K) -> Self {
        Self { whole: kept.patience(), ends: kept.life().clock.now() }
    }

    /// Says when a round that begins now ends.
    fn deadline<L: Link>(&mut self, life: &Life<L>) -> BootInstant {
        self.ends = life.clock.now().saturating_add(self.whole);
        self.ends
    }

    /// Notes that the round has failed by now.
    fn note_failure<L: Link>(&mut self, life: &Life<L>) {
        if self.ends <= life.clock.now() {
            self.whole = (self.whole * 2).min(life.timeout / PATIENCE_MAX_DIVISOR).max(self.whole);
        }
    }
}

impl<K: Keeping> Drop for SessionKeeper<K> {
    fn drop(&mut self) {
        if !self.is_done {
            self.leave_runtime();
        }
    }
}

/// Has a session ended on another thread, and waits for that; it is told until when it may take. `last` is the server
/// of its connection.
///
/// # Errors
///
/// Why the service could not be told.
fn farewell<F>(
    clock: &dyn Clock,
    last: Option<&Server>,
    end: impl FnOnce(BootInstant) -> F + Send,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let (begun, silent) = (clock.now(), SILENT.lock().clone());
    if silent.is_some_and(|(server, at)| server.as_ref() == last && begun < at.saturating_add(FAREWELL_MAX)) {
        return Err(Failure::late(Effect::None));
    }
    let deadline = begun.saturating_add(FAREWELL_MAX);
    let told = on_a_thread(move || until(clock, deadline, Effect::Unknown, end(deadline)));
    if clock.now() >= deadline {
        *SILENT.lock() = Some((last.cloned(), clock.now()));
    }
    told.unwrap_or_else(|| Err(Failure::broken(Effect::None)))
}

/// Does this in a runtime on another thread: a thread of a runtime, as this may be, enters no other. `None` if the
/// system gives none.
fn on_a_thread<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> Option<T> {
    thread::scope(|scope| {
        let working = thread::Builder::new().name("lockkeeper-end".to_owned()).spawn_scoped(scope, || {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let done = runtime.block_on(work());
            // The machine's resolver may be busy for longer.
            runtime.shutdown_background();
            Some(done)
        });
        // It may be a panic that drops the runtime, so this is not the place for another.
        working.ok()?.join().ok()?
    })
}
