//! What may be believed of one place: it stands while its pipe is where the queue's path leads, under its name, and its
//! session is not closed.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Liveness, LossReason, Revocation, SafeUntil, SessionBond, Standing};
use rustix::io::Errno;

use crate::inner::Inner;
use crate::pipe::{Footing, Pipe};
use crate::request;
use crate::watch::{Topic, Watch, Watches};

/// One place of a session.
pub(crate) struct FileStanding {
    place: Arc<Place>,
    watches: Arc<Watches>,
}

struct Place {
    bond: SessionBond,
    clock: Arc<dyn Clock>,
    pipe: Arc<Pipe>,
    lost: OnceLock<LossReason>,
    is_displaced: AtomicBool,
}

impl FileStanding {
    pub(crate) fn new(session: &Inner, pipe: Arc<Pipe>, watches: Arc<Watches>) -> Self {
        let (bond, clock) = (session.bond().clone(), session.base().clock().clone());
        let is_displaced = AtomicBool::new(false);
        Self { place: Arc::new(Place { bond, clock, pipe, lost: OnceLock::new(), is_displaced }), watches }
    }
}

impl Place {
    fn liveness(&self) -> Liveness {
        if let Some(&reason) = self.lost.get() {
            return Liveness::Lost(reason);
        }
        let reason = match self.bond.liveness() {
            Liveness::Lost(reason) => reason,
            _ => match self.pipe.footing() {
                Footing::Stands => return Liveness::Held { safe_until: SafeUntil::ProcessEnd },
                footing => {
                    self.is_displaced.store(footing == Footing::Displaced, Ordering::Relaxed);
                    self.pipe.conclude()
                }
            },
        };
        Liveness::Lost(*self.lost.get_or_init(|| reason))
    }

    /// Waits until the pipe no longer stands in the queue.
    async fn removed(&self, watches: &Watches) {
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
    async fn asked(&self, watches: &Watches) -> Option<Revocation> {
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
    fn watch(&self, watches: &Watches) -> Option<Watch> {
        let watch: Option<Result<Watch, Errno>> = self.pipe.with_path(|path| watches.watch(path, Topic::Contender));
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
    fn bond(&self) -> &SessionBond {
        &self.place.bond
    }

    fn liveness(&self) -> Liveness {
        self.place.liveness()
    }

    fn is_displaced(&self) -> bool {
        !self.liveness().is_held() && self.place.is_displaced.load(Ordering::Relaxed)
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
        let (name, liveness) = (self.place.pipe.name().as_str(), self.liveness());
        formatter.debug_struct("FileStanding").field("contender", &name).field("liveness", &liveness).finish()
    }
}
