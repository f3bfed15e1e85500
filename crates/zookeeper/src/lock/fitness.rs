//! Whether locks can be had at a service at all. A look asks it where it finds nothing: no lock is free that cannot be
//! taken.

use std::sync::Arc;

use lockkeeper_zk_proto::message::{ErrorCode, Request, WatcherKind};

use crate::error::ClientError;
use crate::link::{Link, if_there};

/// Fails if the server is too old for locks, or the chroot does not exist.
pub(super) async fn require_fit(link: &Arc<Link>) -> Result<(), ClientError> {
    let chroot = link.chroot.path();
    let path = || chroot.to_string();
    // It changes nothing, and came with the containers: ZooKeeper 3.4 does not know it.
    let known = link.call(&Request::CheckWatches { path: path(), kind: WatcherKind::Any }, chroot.as_str());
    let stands = link.call(&Request::Exists { path: path(), watch: false }, chroot.as_str());
    match known.response().await {
        Err(error) if error.is(ErrorCode::Unimplemented) => return Err(error),
        _ => {}
    }
    if_there(stands.stat().await)?.map(drop).ok_or_else(|| ClientError::no_chroot(chroot))
}
