//! The stays of a lock with a process, and the record of each: an attempt, which lasts from the first turn's
//! grant to the last moment at which a turn was believed in.
//!
//! All turns of a stay have the token of one grant of the service. Within the process each must have a greater turn,
//! and none begins while another is believed in.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{FencingToken, Mutex};
use lockkeeper_history::What;
use parking_lot::Mutex as Turn;

use crate::program::{LOOK_INTERVAL, Program, look};

/// How often a belief is recorded at most: a record costs more than a turn.
const RECORDED_EVERY: Duration = Duration::from_millis(1);

/// The stays of a lock with the process.
#[derive(Debug)]
pub(crate) struct Stays {
    program: Arc<Program>,
    lock: u32,
    present: Turn<Option<Stay>>,
}

#[derive(Debug)]
struct Stay {
    attempt: u32,
    token: FencingToken,
    /// Whether a turn is believed in.
    is_taken: bool,
    believed_at: BootInstant,
    recorded_at: BootInstant,
}

impl Stays {
    pub(crate) fn new(program: Arc<Program>, lock: u32) -> Self {
        Self { program, lock, present: Turn::new(None) }
    }

    /// Takes turns until the process is told to stop.
    pub(crate) async fn contend(self: Arc<Self>, mutex: Mutex) {
        while !self.program.is_stopping() {
            match mutex.lock().await {
                Ok(guard) => {
                    let hold = guard.hold().clone();
                    let (at, is_held) = look(&hold);
                    if is_held {
                        self.begin(at, hold.fencing_token());
                        self.program.count();
                        // Others come to wait for their turns.
                        tokio::task::yield_now().await;
                        while self.believe(look(&hold)) && self.program.keeps(self.lock) {
                            tokio::time::sleep(LOOK_INTERVAL).await;
                        }
                        self.end();
                    }
                }
                Err(error) => assert!(error.is_transient(), "{error:#}"),
            }
        }
        self.leave();
    }

    /// Notes that a turn begins.
    fn begin(&self, at: BootInstant, token: FencingToken) {
        let mut present = self.present.lock();
        if let Some(stay) = present.as_mut().filter(|stay| stay.token.as_u64() == token.as_u64()) {
            assert!(!stay.is_taken, "a turn of {token} began within one of {}", stay.token);
            assert!(stay.token < token, "the turn {token} came after {}", stay.token);
            (stay.token, stay.is_taken) = (token, true);
            return;
        }
        if let Some(before) = present.take() {
            self.give_back(&before);
        }
        let attempt = self.program.call(self.lock, at);
        self.program.scribe.record(self.lock, at, &What::Granted { attempt, token, held: true });
        *present = Some(Stay { attempt, token, is_taken: true, believed_at: at, recorded_at: at });
    }

    /// Notes that a turn is believed in, if it is; returns whether it is.
    fn believe(&self, (at, is_held): (BootInstant, bool)) -> bool {
        let mut present = self.present.lock();
        let Some(stay) = present.as_mut().filter(|_| is_held) else {
            return false;
        };
        stay.believed_at = at;
        if at >= stay.recorded_at.saturating_add(RECORDED_EVERY) {
            stay.recorded_at = at;
            self.program.scribe.record(self.lock, at, &What::Held { attempt: stay.attempt });
            self.program.tell_count();
        }
        true
    }

    /// Notes that a turn is about to be given back, or was found to be lost.
    fn end(&self) {
        if let Some(stay) = self.present.lock().as_mut() {
            stay.is_taken = false;
        }
    }

    /// Notes that no turn follows, of the tasks of this process.
    fn leave(&self) {
        let mut present = self.present.lock();
        if present.as_ref().is_some_and(|stay| !stay.is_taken)
            && let Some(stay) = present.take()
        {
            self.give_back(&stay);
        }
    }

    fn give_back(&self, stay: &Stay) {
        self.program.scribe.record(self.lock, stay.believed_at, &What::Releasing { attempt: stay.attempt });
    }
}
