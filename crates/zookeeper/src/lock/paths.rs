//! Where a queue lies, and which queue a node is.

use lockkeeper_core::{Error, ErrorKind, Operation, QueueName, Result};
use lockkeeper_zk_proto::path::{Chroot, ZnodePath};

/// The node of a queue, as the client names it and as the server knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct QueuePath {
    path: ZnodePath,
    chroot: Chroot,
}

impl QueuePath {
    /// Finds a queue's node: `<base>/<encoded name>`, or the path itself for a name that is one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], permanent, for a name that starts with a slash and is no usable path.
    pub(super) fn of(queue: &QueueName, base: &ZnodePath, chroot: &Chroot) -> Result<Self> {
        let name = queue.as_str();
        let refuse = |why: &str| Error::permanent(ErrorKind::InvalidName, Operation::Configure, why).at(queue);
        let path = if name.starts_with('/') {
            ZnodePath::parse(name).map_err(|error| refuse("not a node's path").caused_by(error))?
        } else {
            base.child(&queue.encoded()).map_err(|error| refuse("not a node's name").caused_by(error))?
        };
        let outer = chroot.join(&path);
        if path.is_root() || outer.as_str() == "/zookeeper" || outer.as_str().starts_with("/zookeeper/") {
            return Err(refuse("no lock can lie there"));
        }
        Ok(Self { path, chroot: chroot.clone() })
    }

    /// Whether it lies in the path of a lock below the base: each takes the other's nodes for its contenders.
    pub(super) fn is_nested_below(&self, base: &ZnodePath) -> bool {
        !base.is_root() && base.contains(&self.path) && self.path.parent().as_ref() != Some(base)
    }

    /// The path as people know it, for errors and log lines.
    pub(super) fn shown(&self) -> &str {
        self.path.as_str()
    }

    /// The path as the server knows it.
    pub(super) fn on_server(&self) -> String {
        self.chroot.join(&self.path).into()
    }

    /// A child's path as the server knows it; `name` came from the server, or is the beginning of one of ours.
    pub(super) fn child_on_server(&self, name: &str) -> String {
        format!("{}/{name}", self.chroot.join(&self.path))
    }

    /// The paths above the queue and its own, topmost first, as the server knows them; without the chroot, which is not
    /// ours to make.
    pub(super) fn with_parents_on_server(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.path.ancestors().filter(|path| !path.is_root()).map(|path| self.chroot.join(&path).into()).collect();
        paths.reverse();
        paths
    }

    pub(super) fn has_chroot(&self) -> bool {
        !self.chroot.path().is_root()
    }

    /// The chroot, for an error that it does not exist.
    pub(super) fn chroot(&self) -> &str {
        self.chroot.path().as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(name: &str, chroot: &str) -> Result<QueuePath> {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        QueuePath::of(&QueueName::new(name).unwrap(), &base, &Chroot::new(ZnodePath::parse(chroot).unwrap()))
    }

    #[test]
    fn a_name_lies_below_the_base_and_never_in_another_locks_path() {
        let path = path_of("reports/nightly", "/app").unwrap();
        assert_eq!(path.shown(), "/lockkeeper/reports%2Fnightly");
        assert_eq!(path.on_server(), "/app/lockkeeper/reports%2Fnightly");
        assert_eq!(path.child_on_server("x"), "/app/lockkeeper/reports%2Fnightly/x");
        assert_eq!(path.with_parents_on_server(), ["/app/lockkeeper", "/app/lockkeeper/reports%2Fnightly"]);
    }

    #[test]
    fn a_name_that_starts_with_a_slash_is_a_path_taken_as_it_is() {
        assert_eq!(path_of("/fleet/locks/a", "/").unwrap().on_server(), "/fleet/locks/a");
        for name in ["/", "/a/", "/a//b", "/a/../b", "/zookeeper", "/zookeeper/quota"] {
            assert_eq!(path_of(name, "/").unwrap_err().kind(), ErrorKind::InvalidName, "{name}");
        }
        assert!(path_of("/zookeeper", "/app").is_ok());
    }

    #[test]
    fn a_path_inside_another_locks_path_is_told_apart() {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        let is_nested = |name| path_of(name, "/app").unwrap().is_nested_below(&base);
        assert!(is_nested("/lockkeeper/reports/nightly"));
        assert!(!is_nested("/lockkeeper/reports") && !is_nested("reports") && !is_nested("/fleet/locks/a"));
    }
}
