//! What may be believed of one place: it stands while its pipe is where the queue's path leads, under its name, and its
//! session is not closed.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{BoxFuture, Liveness, LossReason, Revocation, SafeUntil, SessionBond, Standing};
use rustix::io::Errno;

use crate::inner::Inner;
use crate::locked;
use crate::pipe::{Footing, Pipe};
use crate::request;
use crate::site::LOOK_INTERVAL;
use crate::stirring::{Calm, Stirring};
use crate::watch::{Topic, Watch, Watches};

/// From which look on at its turns a place is watched: to begin a watch costs as much as some looks, and most places of
/// a lock that is taken now and then have one turn.
const WATCHED_FROM_LOOK: u32 = 8;

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
    turns: Turns,
}

/// What spares the looks at the beginning and the end of each turn.
#[derive(Debug, Default)]
struct Turns {
    looks: AtomicU32,
    is_watched: OnceLock<bool>,
    last_look: Mutex<Option<LastLook>>,
}

/// A look that found the place standing.
#[derive(Clone, Copy, Debug)]
struct LastLook {
    calm: Calm,
    /// The kernel does not report that a directory above was renamed.
    good_until: BootInstant,
}

impl FileStanding {
    pub(crate) fn new(session: &Inner, pipe: Arc<Pipe>, watches: Arc<Watches>) -> Self {
        let (bond, clock) = (session.bond().clone(), session.base().clock().clone());
        let is_displaced = AtomicBool::new(false);
        let (lost, turns) = (OnceLock::new(), Turns::default());
        Self { place: Arc::new(Place { bond, clock, pipe, lost, is_displaced, turns }), watches }
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

    /// As [`Place::liveness`], but looks only if something has happened since the last look, or that is long ago.
    fn liveness_at_turn(&self, stirring: &Stirring) -> Liveness {
        // Before the look: what happens during it ends this calm.
        let Some(calm) = self.watched(stirring).then(|| stirring.calm()).flatten() else {
            return self.liveness();
        };
        let is_lost = self.lost.get().is_some() || !self.bond.liveness().is_held();
        let (now, last_look) = (self.clock.now(), *locked(&self.turns.last_look));
        if !is_lost && last_look.is_some_and(|last| last.calm == calm && now < last.good_until) {
            return Liveness::Held { safe_until: SafeUntil::ProcessEnd };
        }
        let liveness = self.liveness();
        // A removal that was reported already may still show the name: such a look is not good for a later turn.
        if liveness.is_held() && self.pipe.has_one_name() {
            *locked(&self.turns.last_look) = Some(LastLook { calm, good_until: now.saturating_add(LOOK_INTERVAL) });
        }
        liveness
    }

    /// Tells whether what happens to the pipe is reported.
    fn watched(&self, stirring: &Stirring) -> bool {
        if let Some(&is_watched) = self.turns.is_watched.get() {
            return is_watched;
        }
        let looks = self.turns.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let watch = || self.pipe.with_path(|path| stirring.watch(path)).unwrap_or(false);
        looks >= WATCHED_FROM_LOOK && *self.turns.is_watched.get_or_init(watch)
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

    fn liveness_at_turn(&self) -> Liveness {
        self.place.liveness_at_turn(self.watches.stirring())
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
