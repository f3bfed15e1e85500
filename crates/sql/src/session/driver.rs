//! The one task of a session that keeps it: it beats, connects again when the connection is lost, and ends the session.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Liveness, LossReason};

use crate::engine::Wire;
use crate::failure::{Effect, Failure, FailureKind};
use crate::session::core::{Core, Ending};
use crate::session::finder::Finder;
use crate::session::link::Link;
use crate::session::others::Others;
use crate::session::restore::{Taken, restore};
use crate::session::settling::{self, Unsettled};
use crate::session::{beat, waits};
use crate::statement::{Statement, status};

/// The pause after all servers were tried, at first …
pub(crate) const PAUSE_MIN: Duration = Duration::from_millis(20);

/// … and at most: a server that comes back is found soon.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How many pieces of a session are ended one after the other: more contenders than one process is tested with.
const PIECES_MAX: usize = 10_000;

/// Drives one session until it is over.
pub(super) struct Driver {
    core: Arc<Core>,
    finder: Finder,
    /// The number of the next connection.
    next_connection: u64,
    /// The state of the data that was not settled when it was seen last.
    unsettled: Option<Unsettled>,
    /// Also if this is dropped before it has run.
    _over: Over,
}

impl Driver {
    pub(super) fn new(core: Arc<Core>, finder: Finder, next_connection: u64) -> Self {
        Self { _over: Over(core.clone()), core, finder, next_connection, unsettled: None }
    }

    pub(super) async fn run(mut self, first: Taken) {
        let mut taken = Some(first);
        while let Some(Taken { link, hints, unsettled, proven_at }) = taken.take() {
            self.unsettled.clone_from(&unsettled);
            let present = link.clone();
            if self.serve(Taken { link, hints, unsettled, proven_at }).await.is_break() {
                self.end(Some(&present)).await;
                return;
            }
            present.shut();
            self.core.detach();
            taken = self.next_link().await;
        }
        self.end(None).await;
    }

    /// Uses a connection until it fails, or the session is lost.
    async fn serve(&self, taken: Taken) -> ControlFlow<()> {
        let core = &self.core;
        let Taken { link, hints, unsettled, proven_at } = taken;
        let others = Others::new(core);
        let failure = tokio::select! {
            biased;
            _ = core.bond().lost() => return ControlFlow::Break(()),
            () = link.wire.over() => Failure::broken(Effect::None),
            Err(failure) = settling::attach(core, &link, unsettled.as_ref()) => failure,
            never = waits::serve(core, &link, hints) => match never {},
            never = others.run(core, &link) => match never {},
            failure = beat::run(core, &link, &others, proven_at) => failure,
        };
        if failure.kind == FailureKind::SessionGone {
            core.expire();
            return ControlFlow::Break(());
        }
        tracing::debug!(target: "lockkeeper", server = %link.server, %failure, "connection lost");
        core.set_trouble(Some(failure));
        ControlFlow::Continue(())
    }

    /// Connects anew; `None` if the session is lost before.
    async fn next_link(&mut self) -> Option<Taken> {
        let core = self.core.clone();
        let mut pause = PAUSE_MIN;
        let connecting = async {
            loop {
                match self.try_round().await {
                    Ok(taken) => return Some(taken),
                    Err(failure) if failure.kind == FailureKind::SessionGone => {
                        core.expire();
                        return None;
                    }
                    Err(failure) => core.set_trouble(Some(failure)),
                }
                core.clock.sleep_until(core.clock.now().saturating_add(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        };
        tokio::select! {
            biased;
            _ = core.bond().lost() => None,
            taken = connecting => taken,
        }
    }

    /// Tries each server once.
    async fn try_round(&mut self) -> Result<Taken, Failure> {
        self.finder.begin_round();
        let deadline = self.core.clock.now().saturating_add(self.core.timing.patience());
        while let Some((server, attempt_ends)) = self.finder.next(deadline) {
            let core = &self.core;
            let restored = match self.finder.connect(server, attempt_ends).await {
                Ok(connected) => {
                    let number = self.next_connection;
                    self.next_connection += 1;
                    let server = core.config.servers[server].clone();
                    let wire = connected.wire.clone();
                    let restored = restore(core, connected, number, server, self.unsettled.as_ref()).await;
                    if restored.is_err() {
                        wire.shut();
                    }
                    restored
                }
                Err(failure) => Err(failure),
            };
            match restored {
                Err(failure) if failure.kind != FailureKind::SessionGone => self.finder.note(failure),
                restored => return restored,
            }
        }
        Err(self.finder.trouble())
    }

    /// Ends the session, and all contenders with it, until that is certain or it must have run out.
    async fn end(&mut self, link: Option<&Link>) {
        let core = self.core.clone();
        #[cfg(feature = "testing")]
        core.testing.note_loss(core.id.to_string());
        let until = core.clock.now().saturating_add(core.timing.timeout);
        let mut outcome = match link {
            Some(link) => close(&core, &*link.wire).await,
            None => Err(core.trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        if let Some(link) = link {
            // What has no answer by now gets none.
            link.shut();
        }
        if core.bond().liveness() == Liveness::Lost(LossReason::Expired) {
            // What is left of it, others remove.
            core.end(Ending::Certain);
            return;
        }
        let mut pause = PAUSE_MIN;
        while let Err(failure) = outcome {
            // A caller that waits should not wait for a server that is away; but what it asked for goes on.
            core.end(Ending::Untold(failure.clone()));
            if !failure.is_passing() || core.clock.now() >= until {
                return;
            }
            core.clock.sleep_until(core.clock.now().saturating_add(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
            outcome = self.close_anew().await;
        }
        core.end(Ending::Certain);
    }

    /// Ends the session over another connection.
    async fn close_anew(&mut self) -> Result<(), Failure> {
        self.finder.begin_round();
        let deadline = self.core.clock.now().saturating_add(self.core.timing.patience());
        while let Some((server, attempt_ends)) = self.finder.next(deadline) {
            let closed = match self.finder.connect(server, attempt_ends).await {
                Ok(connected) => {
                    let closed = close(&self.core, &*connected.wire).await;
                    connected.wire.shut();
                    closed
                }
                Err(failure) => Err(failure),
            };
            match closed {
                Ok(()) => return Ok(()),
                Err(failure) => self.finder.note(failure),
            }
        }
        Err(self.finder.trouble())
    }
}

/// Ends the session over a connection, piece by piece.
async fn close(core: &Core, wire: &dyn Wire) -> Result<(), Failure> {
    for _ in 0..PIECES_MAX {
        let asking = wire.ask(Statement::new("close", vec![core.id.into()]));
        if status(&core.patiently(asking).await?)?.number == Some(0) {
            return Ok(());
        }
    }
    Err(Failure::unexpected())
}

/// Says that the session is over when its task ends, also if that is because the runtime has ended.
struct Over(Arc<Core>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.bond().lose(LossReason::Closed);
        let is_ended = self.0.ending.borrow().is_some();
        if !is_ended {
            let message = "the runtime of the session has ended";
            self.0.end(Ending::Untold(Failure::new(FailureKind::Broken, Effect::None, message)));
        }
    }
}
