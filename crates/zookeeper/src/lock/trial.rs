//! Trials of a service: whether locks can be had there at all, and what this user may do.
//!
//! A trial is a transaction that makes a node, writes it and deletes it again, so that no other client ever sees it.

use std::sync::Arc;

use lockkeeper_core::{Finding, Severity, randomness};
use lockkeeper_zk_proto::message::{
    Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, WatcherKind, ZkRequest,
};
use lockkeeper_zk_proto::path::ZnodePath;

use crate::config::Config;
use crate::error::ClientError;
use crate::link::{SessionLink, if_there};

/// Fails if the server is too old for locks, or the chroot does not exist. A look asks it where it finds nothing: no
/// lock is free that cannot be taken.
pub(super) async fn require_fit(link: &Arc<SessionLink>) -> Result<(), ClientError> {
    let chroot = link.chroot.path();
    let path = || chroot.to_string();
    // It changes nothing, and came with the containers: ZooKeeper 3.4 does not know it.
    let known = link.call(&ZkRequest::CheckWatches { path: path(), kind: WatcherKind::Any }, chroot.as_str());
    let stands = link.call(&ZkRequest::Exists { path: path(), watch: false }, chroot.as_str());
    if let Err(error) = known.response().await
        && error.is(ErrorCode::Unimplemented)
    {
        return Err(error);
    }
    if_there(stands.stat().await)?.map(drop).ok_or_else(|| ClientError::no_chroot(chroot))
}

/// Tries it below the deepest node that there is on the way to the queues; returns that node, and the results.
pub(super) async fn try_below_base(
    link: &Arc<SessionLink>,
    config: &Config,
    mode: CreateMode,
) -> Result<(ZnodePath, Vec<MultiResult>), ClientError> {
    let mut parent = link.chroot.join(&config.base);
    loop {
        let name = format!("lockkeeper-trial-{:016x}", randomness::spread());
        let child = parent.child(&name).map_err(|error| ClientError::invalid_path(OpCode::Multi, &name, &error))?;
        let path = String::from(child);
        let empty = || Some(Vec::new().into());
        let create = Create { path: path.clone(), data: empty(), acl: config.acl.clone(), mode };
        let request = ZkRequest::Multi(vec![
            match mode {
                CreateMode::Container => MultiOperation::CreateContainer(create),
                _ => MultiOperation::Create(create),
            },
            MultiOperation::SetData { path: path.clone(), data: empty(), version: -1 },
            MultiOperation::Delete { path: path.clone(), version: -1 },
        ]);
        let results = link.call(&request, &path).results().await?;
        match (MultiResult::blamed(&results), parent.parent()) {
            (Some((_, ErrorCode::NoNode)), Some(above)) => parent = above,
            _ => return Ok((parent, results)),
        }
    }
}

pub(super) async fn examine_rights(link: &Arc<SessionLink>, config: &Config) -> Result<Option<Finding>, ClientError> {
    let (parent, results) = try_below_base(link, config, CreateMode::Container).await?;
    Ok(judge(MultiResult::blamed(&results).map(|(_, code)| code), &parent))
}

fn judge(refused: Option<ErrorCode>, parent: &ZnodePath) -> Option<Finding> {
    match refused? {
        ErrorCode::Unimplemented | ErrorCode::BadArguments => Some(Finding::new(
            Severity::Error,
            "the server knows no containers, of which queues are made",
            "use ZooKeeper 3.5.3 or later",
        )),
        code => Some(Finding::new(
            Severity::Error,
            format!("this user cannot make and delete nodes below {parent} ({code:?}), so it can take no lock there"),
            "give the user the rights `cd` on that node (setAcl), or name another user or another base in the URL",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_an_error_that_says_where() {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        assert_eq!(judge(None, &base), None);
        let refused = judge(Some(ErrorCode::NoAuth), &base).unwrap();
        assert_eq!(refused.severity, Severity::Error);
        assert!(refused.what.contains("below /lockkeeper (NoAuth)"), "{refused}");
        let old = judge(Some(ErrorCode::Unimplemented), &base).unwrap();
        assert!(old.what.contains("no containers"), "{old}");
    }
}
