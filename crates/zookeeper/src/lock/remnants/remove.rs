//! Removes a remnant if it is still as it was seen: all of its nodes in one transaction, each by its version. A node
//! with a child is not deleted by any server, so a contender that came in between stays.

use std::sync::Arc;

use lockkeeper_core::{Operation, Remnant, Result};
use lockkeeper_zk_proto::message::{ErrorCode, MultiOperation, MultiResult, OpCode, Request, Stat};

use super::census::SeenNode;
use crate::error::ClientError;
use crate::link::{Call, Link, if_there};

/// The nodes of a remnant, in the order in which they go.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    nodes: Vec<(String, Stat)>,
}

impl Seen {
    pub(super) fn new<'a>(nodes: impl IntoIterator<Item = &'a SeenNode>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.path.clone(), node.stat)).collect() }
    }
}

/// Removes it; `false` if it is not as it was seen any more.
pub(in crate::lock) async fn remove(link: &Arc<Link>, remnant: &Remnant) -> Result<bool> {
    let Some(seen) = remnant.seen::<Seen>() else {
        return Ok(false);
    };
    let removed = removed(link, seen, &remnant.place).await;
    removed.map_err(|error| error.into_core(Operation::Configure, None))
}

async fn removed(link: &Arc<Link>, seen: &Seen, shown: &str) -> Result<bool, ClientError> {
    let sync = link.call(&Request::Sync { path: remnant_root(seen).to_owned() }, shown);
    let look = |(path, _): &(String, Stat)| link.call(&Request::Exists { path: path.clone(), watch: false }, shown);
    let looks: Vec<Call> = seen.nodes.iter().map(look).collect();
    sync.response().await?;
    for ((_, before), look) in seen.nodes.iter().zip(looks) {
        // Its deletion is noted by its version alone, which begins anew with a node that was made anew; so its
        // transactions are compared too.
        if !if_there(look.stat().await)?.is_some_and(|now| is_same(before, &now)) {
            return Ok(false);
        }
    }
    let delete = |(path, stat): &(String, Stat)| MultiOperation::Delete { path: path.clone(), version: stat.version };
    let request = Request::Multi(seen.nodes.iter().map(delete).collect());
    match MultiResult::blamed(&link.call(&request, shown).results().await?) {
        None => Ok(true),
        Some((_, ErrorCode::NoNode | ErrorCode::NotEmpty | ErrorCode::BadVersion)) => Ok(false),
        Some((_, code)) => Err(ClientError::of_refusal(code, OpCode::Multi, shown)),
    }
}

/// The node that all others lie below.
fn remnant_root(seen: &Seen) -> &str {
    seen.nodes.last().map_or("/", |(path, _)| path)
}

/// Whether nothing has happened to a node: it was not made anew or written, and no child has come or gone.
fn is_same(before: &Stat, now: &Stat) -> bool {
    let of = |stat: &Stat| (stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.num_children);
    of(before) == of(now)
}
