//! A place that was granted to a local queue, and what its turns and its watch have of the grant.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{QueueView, Session};

use crate::contend::Place;
use crate::hold::grant::Grant;

/// A grant of the service, which all of its turns share.
#[derive(Debug)]
pub(super) struct SharedGrant {
    /// Among all grants of the local queue.
    pub(super) number: u64,
    pub(super) grant: Grant,
    pub(super) session: Arc<dyn Session>,
    pub(super) granted_at: BootInstant,
    /// The queue at the join, if no other contender was in it.
    pub(super) alone: Option<QueueView>,
}

/// A place that was granted. It is dropped when the local queue is not locked any more.
#[derive(Debug)]
pub(super) struct GrantedPlace {
    pub(super) place: Place,
    pub(super) grant: Arc<SharedGrant>,
}
