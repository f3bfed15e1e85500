//! What may be believed of one place: it stands for as long as its pipe has a name and its session was not closed.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Liveness, LossReason, SafeUntil, SessionBond, Standing};

use crate::pipe::Pipe;
use crate::watch::{self, Watches};

/// One place of a session.
pub(crate) struct FileStanding {
    place: Arc<Place>,
    watches: Arc<Watches>,
    clock: Arc<dyn Clock>,
}

struct Place {
    bond: SessionBond,
    pipe: Arc<Pipe>,
    lost: OnceLock<LossReason>,
}

impl FileStanding {
    pub(crate) fn new(bond: SessionBond, pipe: Arc<Pipe>, watches: Arc<Watches>, clock: Arc<dyn Clock>) -> Self {
        Self { place: Arc::new(Place { bond, pipe, lost: OnceLock::new() }), watches, clock }
    }
}

impl Place {
    fn liveness(&self) -> Liveness {
        if let Some(&reason) = self.lost.get() {
            return Liveness::Lost(reason);
        }
        let reason = match self.bond.liveness() {
            Liveness::Lost(reason) => reason,
            _ if !self.pipe.is_linked() => LossReason::Removed,
            _ => return Liveness::Held { safe_until: SafeUntil::ProcessEnd },
        };
        Liveness::Lost(*self.lost.get_or_init(|| reason))
    }
}

impl Standing for FileStanding {
    fn liveness(&self) -> Liveness {
        self.place.liveness()
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        let (place, watches, clock) = (self.place.clone(), self.watches.clone(), self.clock.clone());
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = place.bond.lost() => {}
                () = watch::removed(&place.pipe, &watches, &*clock) => {}
            }
            match place.liveness() {
                Liveness::Lost(reason) => reason,
                // The pipe lost its name, or the session its bond, and neither comes back.
                _ => LossReason::Removed,
            }
        })
    }

    fn lifeline(&self) -> Option<OwnedFd> {
        self.place.pipe.lifeline()
    }
}

impl fmt::Debug for FileStanding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, liveness) = (self.place.pipe.name().as_str(), self.liveness());
        formatter.debug_struct("FileStanding").field("contender", &name).field("liveness", &liveness).finish()
    }
}
