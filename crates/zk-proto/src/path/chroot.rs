//! The subtree that a client sees as the whole tree.

use crate::path::znode_path::{PathError, SequentialPath, ZnodePath};

/// Maps the paths a client speaks of to those the server knows, and back.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Chroot(ZnodePath);

impl Chroot {
    /// Takes `path` for the root; the root itself for no chroot at all.
    pub const fn new(path: ZnodePath) -> Self {
        Self(path)
    }

    /// The node taken for the root.
    pub const fn path(&self) -> &ZnodePath {
        &self.0
    }

    /// The server's path for the client's `path`.
    pub fn join(&self, path: &ZnodePath) -> ZnodePath {
        if self.0.is_root() {
            return path.clone();
        }
        if path.is_root() {
            return self.0.clone();
        }
        ZnodePath::parse(format!("{}{path}", self.0)).expect("a path under a path is a path")
    }

    /// The server's path for the client's path of a sequential node.
    pub fn join_sequential(&self, path: &SequentialPath) -> SequentialPath {
        if self.0.is_root() {
            return path.clone();
        }
        SequentialPath::parse(format!("{}{}", self.0, path.as_str())).expect("a path under a path is a path")
    }

    /// The client's path for `path`, which came from the server; `None` if it lies outside.
    ///
    /// # Errors
    ///
    /// Fails if the server sent a path that is not valid.
    pub fn strip(&self, path: &str) -> Result<Option<ZnodePath>, PathError> {
        let path = ZnodePath::parse(path)?;
        if self.0.is_root() {
            return Ok(Some(path));
        }
        if path == self.0 {
            return Ok(Some(ZnodePath::root()));
        }
        if !self.0.contains(&path) {
            return Ok(None);
        }
        ZnodePath::parse(&path.as_str()[self.0.as_str().len()..]).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> ZnodePath {
        ZnodePath::parse(path).unwrap()
    }

    #[test]
    fn joining_and_stripping_are_inverse() {
        for root in ["/", "/app", "/app/x"] {
            let chroot = Chroot::new(path(root));
            for inner in ["/", "/a", "/a/b", "/app"] {
                let outer = chroot.join(&path(inner));
                assert_eq!(chroot.strip(outer.as_str()).unwrap(), Some(path(inner)), "{inner} under {root}");
            }
        }
        assert_eq!(Chroot::new(path("/app")).join(&path("/a")).as_str(), "/app/a");
        assert_eq!(Chroot::new(path("/app")).join(&path("/")).as_str(), "/app");
    }

    #[test]
    fn a_sequential_path_keeps_its_open_end() {
        let chroot = Chroot::new(path("/app"));
        assert_eq!(chroot.join_sequential(&SequentialPath::parse("/").unwrap()).as_str(), "/app/");
        assert_eq!(chroot.join_sequential(&SequentialPath::parse("/l-").unwrap()).as_str(), "/app/l-");
    }

    #[test]
    fn a_path_outside_the_chroot_is_told_apart() {
        let chroot = Chroot::new(path("/app"));
        assert_eq!(chroot.strip("/other").unwrap(), None);
        assert_eq!(chroot.strip("/application").unwrap(), None);
        assert!(chroot.strip("app").is_err());
    }
}
