//! Finds out why a node of ours is gone: an operator who breaks a lock leaves a note in the lock's own node.

use std::sync::Arc;

use lockkeeper_core::LossReason;
use lockkeeper_zk_proto::message::Request;

use crate::error::ClientErrorKind;
use crate::lock::inner::{Inner, LOOK_ATTEMPTS_MAX};
use crate::lock::place::Place;
use crate::lock::queue_data::QueueData;

/// Starts to find out why the node of a place is gone.
///
/// The answer comes after a sync, and so when it is known whether the session has outlived the node: when the service
/// ends a session, its nodes' watches fire first, and only then is the connection closed.
pub(super) fn explain(inner: &Arc<Inner>, place: Arc<Place>) {
    let chore_inner = inner.clone();
    inner.link.adopt(Box::pin(async move {
        let reason = find_out(chore_inner, &place).await;
        place.bond.explain(reason);
    }));
}

/// Finds out why the node of a place is gone that we did not delete.
pub(super) async fn find_out(inner: Arc<Inner>, place: &Place) -> LossReason {
    let path = place.path.line_on_server();
    for _ in 0..LOOK_ATTEMPTS_MAX {
        let read = Request::GetData { path: path.clone(), watch: false };
        let read = inner.link.call_synced(&path, &read, place.path.shown());
        match read.data().await {
            Ok((data, _)) if QueueData::read(&data).is_broken(place.id.as_str()) => return LossReason::Broken,
            Err(error) if error.kind() == ClientErrorKind::ConnectionLost => {}
            // No note, no node, or no right to read it.
            Ok(_) | Err(_) => return LossReason::Removed,
        }
    }
    LossReason::Removed
}
