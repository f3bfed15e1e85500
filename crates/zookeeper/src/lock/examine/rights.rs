//! Whether this user can make the nodes that locks are made of, and whether the server knows containers: a transaction
//! makes one and deletes it again, so that no other client ever sees it.

use std::sync::Arc;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_zk_proto::message::{
    Create, CreateMode, ErrorCode, MultiOperation, MultiResult, OpCode, Request, Response,
};
use lockkeeper_zk_proto::path::ZnodePath;

use crate::client::random;
use crate::config::Config;
use crate::error::ClientError;
use crate::link::Link;

/// Tries it below the deepest node that there is on the way to the queues.
pub(super) async fn examine_rights(link: &Arc<Link>, config: &Config) -> Result<Option<Finding>, ClientError> {
    let base = link.chroot().join(&config.base);
    let ancestors: Vec<_> = base.ancestors().collect();
    let mut parent = ZnodePath::root();
    for path in std::iter::once(base.clone()).chain(ancestors) {
        let exists = link.call(&Request::Exists { path: path.as_str().to_owned(), watch: false }, path.as_str());
        match exists.response().await {
            Ok(_) => {
                parent = path;
                break;
            }
            Err(error) if error.is(ErrorCode::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(judge(try_below(link, config, &parent).await?, &parent))
}

/// Makes a container below this node and deletes it; returns why that was refused, if it was.
async fn try_below(link: &Arc<Link>, config: &Config, parent: &ZnodePath) -> Result<Option<ErrorCode>, ClientError> {
    let name = format!("lockkeeper-examine-{:016x}", random());
    let child = parent.child(&name).map_err(|error| ClientError::invalid_path(OpCode::Multi, &name, &error))?;
    let path = child.as_str().to_owned();
    let create = Create {
        path: path.clone(),
        data: Some(Vec::new().into()),
        acl: config.acl.clone(),
        mode: CreateMode::Container,
    };
    let request = Request::Multi(vec![
        MultiOperation::CreateContainer(create),
        MultiOperation::Delete { path: path.clone(), version: -1 },
    ]);
    let Response::Multi(results) = link.call(&request, &path).response().await? else {
        return Err(ClientError::unexpected(OpCode::Multi, &path));
    };
    Ok(results.into_iter().find_map(|result| match result {
        MultiResult::Error(code) if ![ErrorCode::Ok, ErrorCode::RuntimeInconsistency].contains(&code) => Some(code),
        _ => None,
    }))
}

/// Judges what came of it.
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
