//! An attempt at a place beside a write lock that is held.

use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, QueueName, Result};

use crate::contend::{Attempt, Granted, OnePlace, Progress, join_beside};
use crate::lock::guard::WriteGuard;
use crate::shared::{Shared, Stage};

/// Asks for a place right behind a writer's, of a mode that the same owner may have too.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) write: &'a WriteGuard,
    pub(crate) wanted: OnePlace<'a>,
}

impl Attempt for Beside<'_> {
    type Granted = Granted;

    /// Allowed until the keeper is closed.
    fn refused_from(&self) -> Stage {
        Stage::Closed
    }

    /// Does not wait: the writer keeps out all contenders that could be in the way.
    async fn wait(&mut self, shared: &Shared, _progress: &mut Progress) -> Result<Granted> {
        let hold = self.write.hold();
        if let Liveness::Lost(reason) = hold.liveness() {
            return Err(lost_outside(hold.name(), reason));
        }
        let place = self.write.place().expect("a guard that can be borrowed was not released");
        let granted = join_beside(shared, &self.wanted, place.anchor(), hold.place()).await;
        match (granted, hold.liveness()) {
            // Any other failure has this cause.
            (Err(_), Liveness::Lost(reason)) => Err(lost_outside(hold.name(), reason)),
            (granted, _) => granted,
        }
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Granted>> {
        self.wait(shared, &mut Progress::NoPlace(None)).await.map(Some)
    }
}

/// Returns the error for a hold inside another one that was lost.
pub(crate) fn lost_outside(queue: &QueueName, reason: LossReason) -> Error {
    let message = format!("the same owner already had this lock, and lost it: {reason}");
    Error::permanent(ErrorKind::Lost(reason), Operation::Join, message).at(queue)
}
