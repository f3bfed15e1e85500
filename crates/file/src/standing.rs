//! The belief in one place: it stands while its pipe is where the queue's path leads, under its name, and its session
//! is not closed.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Liveness, LivenessAt, LossReason, Revocation, SafeUntil, SessionBond, Standing};
use rustix::io::Errno;

use crate::inner::FileSessionState;
use crate::pipe::{Pipe, PipeState};
use crate::request;
use crate::watch::{FileWatch, SessionWatches, WatchTopic};

/// How old the look may be by which a turn begins or ends.
///
/// A look along the path takes a microsecond and a half, and a turn that passes within the process takes less. Of fifty
/// microseconds that are full of turns, one look is three hundredths. It is no longer than a thread may lose the
/// processor between a look and what follows from it, so no caller could rely on less.
const LOOK_AGE_MAX: Duration = Duration::from_micros(50);

/// One place of a session.
pub(crate) struct FileStanding {
    place: Arc<StandingPlace>,
    watches: Arc<SessionWatches>,
}

struct StandingPlace {
    bond: SessionBond,
    clock: Arc<dyn Clock>,
    pipe: Arc<Pipe>,
    lost: OnceLock<LossReason>,
    /// When the last look at a turn began that found the place standing, in nanoseconds since boot; 0 before the first.
    stood_at_nanos: AtomicU64,
}

impl FileStanding {
    pub(crate) fn new(session: &FileSessionState, pipe: Arc<Pipe>, watches: Arc<SessionWatches>) -> Self {
        let (bond, clock) = (session.bond.clone(), session.base.clock.clone());
        let (lost, stood_at_nanos) = (OnceLock::new(), AtomicU64::new(0));
        Self { place: Arc::new(StandingPlace { bond, clock, pipe, lost, stood_at_nanos }), watches }
    }
}

impl StandingPlace {
    fn liveness(&self) -> Liveness {
        if let Some(&reason) = self.lost.get() {
            return Liveness::Lost(reason);
        }
        let reason = match self.bond.liveness() {
            Liveness::Lost(reason) => reason,
            _ => match self.pipe.state() {
                PipeState::Stands => return Liveness::Held { safe_until: SafeUntil::ProcessEnd },
                state => match (state, self.pipe.conclude()) {
                    (PipeState::Displaced, LossReason::Removed) => LossReason::Displaced,
                    (_, reason) => reason,
                },
            },
        };
        Liveness::Lost(*self.lost.get_or_init(|| reason))
    }

    /// As [`StandingPlace::liveness`], by a look that is young enough at `now`.
    fn liveness_at_turn(&self, now: BootInstant) -> Liveness {
        let stood_at = BootInstant::from_nanos(self.stood_at_nanos.load(Ordering::Relaxed));
        // What happens within this process needs no look.
        let is_ours = self.lost.get().is_none() && self.bond.liveness().is_held() && !self.pipe.has_left();
        if is_ours && now.saturating_duration_since(stood_at) < LOOK_AGE_MAX {
            return Liveness::Held { safe_until: SafeUntil::ProcessEnd };
        }
        let liveness = self.liveness();
        if liveness.is_held() {
            // `now` is before the look, so the look is taken for older than it is.
            self.stood_at_nanos.store(now.as_nanos(), Ordering::Relaxed);
        }
        liveness
    }

    /// Waits until the pipe no longer stands in the queue.
    async fn removed(&self, watches: &SessionWatches) {
        if !self.pipe.stands() {
            return;
        }
        if let Some(mut watch) = self.watch(watches) {
            while self.pipe.stands() {
                tokio::select! {
                    _ = watch.changed() => {}
                    // The kernel does not report that a directory above was renamed.
                    () = self.pipe.site().replaced(watches.clock()) => {}
                }
            }
        }
    }

    /// Waits until a request was left; `None` if the place was left or lost.
    async fn asked(&self, watches: &SessionWatches) -> Option<Revocation> {
        let mut watch = self.watch(watches)?;
        while self.pipe.stands() {
            if let Some(revocation) = request::read(self.pipe.site().directory(), self.pipe.name().ticket) {
                return Some(revocation);
            }
            watch.changed().await;
        }
        None
    }

    /// Watches the pipe; `None` if we left.
    fn watch(&self, watches: &SessionWatches) -> Option<FileWatch> {
        let watch: Option<Result<FileWatch, Errno>> =
            self.pipe.with_path(|path| watches.watch(path, WatchTopic::Contender));
        watch?.ok()
    }
}

/// Returns a file descriptor that keeps the place while it is open in any process, so that a lock can be handed to a
/// process that outlives this one; `None` for a place of another service, one that is lost, and one that outlives every
/// process.
pub fn lifeline(standing: &dyn Standing) -> Option<OwnedFd> {
    let standing: &dyn Any = standing;
    let place = &standing.downcast_ref::<FileStanding>()?.place;
    if place.liveness().is_held() { place.pipe.lifeline() } else { None }
}

impl Standing for FileStanding {
    fn liveness(&self, at: LivenessAt) -> Liveness {
        match at {
            LivenessAt::Now => self.place.liveness(),
            LivenessAt::Turn(now) => self.place.liveness_at_turn(now),
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let (place, watches) = (self.place.clone(), self.watches.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = place.bond.lost() => {}
                () = place.removed(&watches) => {}
            }
            match place.liveness() {
                Liveness::Lost(reason) => reason,
                // The pipe lost its place, or the session its bond, and neither comes back.
                _ => LossReason::Removed,
            }
        })
    }

    fn granted(&self) {
        self.place.pipe.note_grant(self.place.clock.unix_time());
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let (place, watches) = (self.place.clone(), self.watches.clone());
        Box::pin(async move {
            // A place that was left is not asked for anything any more.
            match place.asked(&watches).await {
                Some(revocation) => revocation,
                None => std::future::pending().await,
            }
        })
    }
}

impl fmt::Debug for FileStanding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, liveness) = (self.place.pipe.name().as_str(), self.place.liveness());
        formatter.debug_struct("FileStanding").field("contender", &name).field("liveness", &liveness).finish()
    }
}
