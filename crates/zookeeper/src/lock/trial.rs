//! A transaction that makes a node, writes it and deletes it again, so that no other client ever sees it: what came of
//! it tells what this user may do, and the time of the leader.

use std::sync::Arc;

use lockkeeper_zk_proto::message::{Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Request};
use lockkeeper_zk_proto::path::ZnodePath;

use crate::client::random;
use crate::config::Config;
use crate::error::ClientError;
use crate::link::Link;

/// Tries it below the deepest node that there is on the way to the queues; returns that node, and the results.
pub(super) async fn try_below_base(
    link: &Arc<Link>,
    config: &Config,
    mode: CreateMode,
) -> Result<(ZnodePath, Vec<MultiResult>), ClientError> {
    let mut parent = link.chroot.join(&config.base);
    loop {
        let name = format!("lockkeeper-trial-{:016x}", random());
        let child = parent.child(&name).map_err(|error| ClientError::invalid_path(OpCode::Multi, &name, &error))?;
        let path = String::from(child);
        let empty = || Some(Vec::new().into());
        let create = Create { path: path.clone(), data: empty(), acl: config.acl.clone(), mode };
        let request = Request::Multi(vec![
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
