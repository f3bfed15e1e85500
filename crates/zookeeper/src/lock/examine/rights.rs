//! Whether this user can make the nodes that locks are made of, and whether the server knows containers.

use std::sync::Arc;

use lockkeeper_core::{Finding, Severity};
use lockkeeper_zk_proto::message::{CreateMode, ErrorCode, MultiResult};
use lockkeeper_zk_proto::path::ZnodePath;

use crate::config::Config;
use crate::error::ClientError;
use crate::link::Link;
use crate::lock::trial::try_below_base;

/// Tries it without leaving anything.
pub(super) async fn examine_rights(link: &Arc<Link>, config: &Config) -> Result<Option<Finding>, ClientError> {
    let (parent, results) = try_below_base(link, config, CreateMode::Container).await?;
    Ok(judge(MultiResult::blamed(&results).map(|(_, code)| code), &parent))
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
