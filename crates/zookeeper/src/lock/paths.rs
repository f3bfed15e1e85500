//! Where a queue lies, and which queue a node is.

use lockkeeper_core::{ContenderId, Error, ErrorKind, MutexRole, Operation, Part, QueueName, Result};
use lockkeeper_zk_proto::path::{Chroot, ZnodePath};

use crate::config::Config;
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, KAZOO_WAITERS, Layout};

/// The node of a queue, as the client names it and as the server knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct QueuePath {
    line: ZnodePath,
    /// The node of the queue; for most it is the lock's own.
    path: ZnodePath,
    chroot: Chroot,
}

impl QueuePath {
    /// Finds a queue's node: `<base>/<encoded name>`, or the path itself for a name that is a path; for the parts of a
    /// semaphore the node that the layout puts below it or beside it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`], permanent, for a name that starts with a slash and is not a usable path.
    pub(super) fn of(queue: &QueueName, base: &ZnodePath, chroot: &Chroot, layout: Layout) -> Result<Self> {
        let name = queue.as_str();
        let refuse = |why: &str| Error::permanent(ErrorKind::InvalidName, Operation::Configure, why).at(queue);
        let line = if name.starts_with('/') {
            ZnodePath::parse(name).map_err(|error| refuse("not a node's path").caused_by(error))?
        } else {
            base.child(&queue.encoded()).map_err(|error| refuse("not a node's name").caused_by(error))?
        };
        let outer = chroot.join(&line);
        if line.is_root() || outer.as_str() == "/zookeeper" || outer.as_str().starts_with("/zookeeper/") {
            return Err(refuse("no lock can lie there"));
        }
        let path = part_of(&line, queue.part(), layout);
        Ok(Self { line, path, chroot: chroot.clone() })
    }

    /// What a mutex is here to a read/write lock. On a name of ours they are one lock; a path directly below the base
    /// counts as such a name, in either spelling. On any other path a mutex means what its other clients mean by it.
    pub(super) fn mutex_role(&self, base: &ZnodePath) -> MutexRole {
        if self.line.parent().as_ref() == Some(base) { MutexRole::Writer } else { MutexRole::Stranger }
    }

    /// Whether it lies in the path of a lock below the base: each then takes the other's nodes for its contenders.
    pub(super) fn is_nested_below(&self, base: &ZnodePath) -> bool {
        !base.is_root() && base.contains(&self.line) && self.line.parent().as_ref() != Some(base)
    }

    /// The path as people know it, for errors and log lines.
    pub(super) fn shown(&self) -> &str {
        self.path.as_str()
    }

    pub(super) fn on_server(&self) -> String {
        self.chroot.join(&self.path).into()
    }

    pub(super) fn line_on_server(&self) -> String {
        self.chroot.join(&self.line).into()
    }

    /// The path of another queue of the same lock as the server knows it.
    pub(super) fn part_on_server(&self, part: Part, layout: Layout) -> String {
        self.chroot.join(&part_of(&self.line, part, layout)).into()
    }

    /// A child's path as the server knows it; `name` came from the server, or is the beginning of one of ours.
    pub(super) fn child_on_server(&self, name: &str) -> String {
        format!("{}/{name}", self.chroot.join(&self.path))
    }

    /// The paths above the queue and its own, topmost first, as the server knows them; without the chroot, which we
    /// must not make.
    pub(super) fn with_parents_on_server(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.path.ancestors().filter(|path| !path.is_root()).map(|path| self.chroot.join(&path).into()).collect();
        paths.reverse();
        paths
    }

    /// Which of the paths from the top is named after the lock: its own node, or that of its waiters beside it.
    pub(super) fn named_at(&self) -> usize {
        self.line.ancestors().filter(|path| !path.is_root()).count().saturating_sub(1)
    }

    pub(super) fn has_chroot(&self) -> bool {
        !self.chroot.path().is_root()
    }

    /// The chroot, for an error that it does not exist.
    pub(super) const fn chroot(&self) -> &ZnodePath {
        self.chroot.path()
    }
}

/// Returns the path of a contender's node, as a client with the chroot of the same URL writes it.
///
/// # Errors
///
/// [`ErrorKind::InvalidName`], permanent: no lock of this URL has such a contender.
pub fn contender_path(config: &Config, queue: &QueueName, contender: &ContenderId) -> Result<String> {
    let chroot = Chroot::new(config.chroot.clone());
    let queue_path = QueuePath::of(queue, &config.base, &chroot, config.naming.layout)?;
    let node = queue_path.path.child(contender.as_str());
    let refuse = |error| {
        let message = "the contender is not one on ZooKeeper";
        Error::permanent(ErrorKind::InvalidName, Operation::Configure, message).at(queue).caused_by(error)
    };
    node.map(String::from).map_err(refuse)
}

fn part_of(line: &ZnodePath, part: Part, layout: Layout) -> ZnodePath {
    let text = match (layout, part) {
        (_, Part::Line) | (Layout::Kazoo, Part::Permits) => return line.clone(),
        (Layout::Curator, Part::Waiters) => format!("{line}/{CURATOR_WAITERS}"),
        (Layout::Curator, Part::Permits) => format!("{line}/{CURATOR_PERMITS}"),
        (Layout::Kazoo, Part::Waiters) => format!("{line}{KAZOO_WAITERS}"),
    };
    ZnodePath::parse(text).expect("a path that is not the root goes on with a plain name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(name: &str, chroot: &str) -> Result<QueuePath> {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        let chroot = Chroot::new(ZnodePath::parse(chroot).unwrap());
        QueuePath::of(&QueueName::new(name).unwrap(), &base, &chroot, Layout::Curator)
    }

    #[test]
    fn the_parts_of_a_semaphore_lie_where_curator_and_kazoo_put_them() {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        let chroot = Chroot::new(ZnodePath::parse("/app").unwrap());
        let name = QueueName::new("jobs").unwrap();
        for (layout, part, path) in [
            (Layout::Curator, Part::Line, "/app/lockkeeper/jobs"),
            (Layout::Curator, Part::Waiters, "/app/lockkeeper/jobs/locks"),
            (Layout::Curator, Part::Permits, "/app/lockkeeper/jobs/leases"),
            (Layout::Kazoo, Part::Line, "/app/lockkeeper/jobs"),
            (Layout::Kazoo, Part::Waiters, "/app/lockkeeper/jobs-__lock__"),
            (Layout::Kazoo, Part::Permits, "/app/lockkeeper/jobs"),
        ] {
            let found = QueuePath::of(&name.with_part(part), &base, &chroot, layout).unwrap();
            assert_eq!(found.on_server(), path, "{layout:?}");
            assert_eq!(found.line_on_server(), "/app/lockkeeper/jobs");
            assert_eq!(found.part_on_server(part, layout), path);
            let parents = found.with_parents_on_server();
            assert_eq!(parents.last().map(String::as_str), Some(path));
            assert!(parents[found.named_at()].starts_with("/app/lockkeeper/jobs"), "{parents:?}");
        }
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
        for name in ["/zookeeper", "/zookeeper/quota"] {
            assert_eq!(path_of(name, "/").unwrap_err().kind(), ErrorKind::InvalidName, "{name}");
        }
        assert!(path_of("/zookeeper", "/app").is_ok());
    }

    #[test]
    fn a_mutex_is_the_exclusive_side_of_a_read_write_lock_on_names_of_our_own_and_directly_below_the_base() {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        let role = |name| path_of(name, "/app").unwrap().mutex_role(&base);
        for own in ["reports", "reports/nightly", "/lockkeeper/reports", "/lockkeeper/reports%2Fnightly"] {
            assert_eq!(role(own), MutexRole::Writer, "{own}");
        }
        for shared in ["/fleet/locks/a", "/reports", "/lockkeeper", "/lockkeeper/reports/nightly", "/app/lockkeeper/x"]
        {
            assert_eq!(role(shared), MutexRole::Stranger, "{shared}");
        }
    }

    #[test]
    fn a_path_inside_another_locks_path_is_told_apart() {
        let base = ZnodePath::parse("/lockkeeper").unwrap();
        let is_nested = |name| path_of(name, "/app").unwrap().is_nested_below(&base);
        assert!(is_nested("/lockkeeper/reports/nightly"));
        assert!(!is_nested("/lockkeeper/reports") && !is_nested("reports") && !is_nested("/fleet/locks/a"));
    }
}
