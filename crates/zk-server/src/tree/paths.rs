//! Paths are taken apart as Apache does it: by the last slash, without checking the rest.

/// The root's key. The empty path is another name of the root.
pub(crate) const ROOT: &str = "/";
/// Where the service keeps its own nodes.
pub(crate) const SYSTEM: &str = "/zookeeper";
/// Where limits of subtrees would be kept.
pub(crate) const SYSTEM_QUOTA: &str = "/zookeeper/quota";
/// Where the members of an ensemble would be kept.
pub(crate) const SYSTEM_CONFIG: &str = "/zookeeper/config";

/// Whether the node belongs to the service and can never be deleted.
pub(crate) fn is_system_path(path: &str) -> bool {
    matches!(path, ROOT | SYSTEM | SYSTEM_QUOTA | SYSTEM_CONFIG)
}

/// The parent's key and the name; `None` without a slash.
pub(crate) fn split_parent(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((key(parent), name))
}

/// The key a path is stored under.
pub(crate) const fn key(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}
