//! The owner of a node by its path: the places where locks of a scope have their contenders. Pure.

use lockkeeper_core::{Part, QueueName, Result, Scope};
use lockkeeper_zk_proto::path::Chroot;

use crate::config::Config;
use crate::layout::{CURATOR_PERMITS, CURATOR_WAITERS, Layout};
use crate::lock::paths::QueuePath;
use crate::lock::shown::ChildGroup;

/// What the contenders of a lock stand below.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum LockSite {
    /// A node below the base, by its name.
    Below(String),
    /// The path of a lock that is followed besides.
    At(QueueName),
}

/// The node of a contender, as far as its path says it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct ContenderNode {
    pub(super) site: LockSite,
    pub(super) group: ChildGroup,
    pub(super) name: String,
}

/// What a node may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum NodeRole {
    /// A node that contenders stand below.
    Site(LockSite),
    /// A contender's.
    ContenderNode(ContenderNode),
}

#[derive(Debug)]
pub(super) struct PathScheme {
    layout: Layout,
    scope: Scope,
    /// The base as the server knows it; empty for the root.
    base: String,
    /// The locks at paths, and the nodes of their lines and of the waiters beside them.
    also: Vec<(QueueName, [String; 2])>,
}

impl PathScheme {
    /// # Errors
    ///
    /// [`InvalidName`](lockkeeper_core::ErrorKind::InvalidName), permanent, for a path where no lock can lie.
    pub(super) fn new(config: &Config, chroot: &Chroot, scope: &Scope) -> Result<Self> {
        let layout = config.naming.layout;
        let mut also = Vec::new();
        for lock in scope.also.iter().filter(|lock| lock.as_str().starts_with('/')) {
            let node = |group: ChildGroup| {
                let (part, layout) = group.queue(layout);
                QueuePath::of(&lock.with_part(part), &config.base, chroot, layout).map(|path| path.on_server())
            };
            also.push((lock.with_part(Part::Line), [node(ChildGroup::Line)?, node(ChildGroup::Beside)?]));
        }
        let base = chroot.join(&config.base).as_str().trim_end_matches('/').to_owned();
        Ok(Self { layout, scope: scope.clone(), base, also })
    }

    pub(super) const fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn base(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// The paths below which all places lie.
    pub(super) fn roots(&self) -> Vec<&str> {
        let also = self.also.iter().flat_map(|(_, nodes)| nodes.iter().map(String::as_str));
        std::iter::once(self.base()).chain(also).collect()
    }

    /// The sites that lie at paths of their own.
    pub(super) fn sites_besides(&self) -> impl Iterator<Item = LockSite> {
        self.also.iter().map(|(lock, _)| LockSite::At(lock.clone()))
    }

    /// Tells whether a lock below the base is followed. A name that is a path lies elsewhere.
    pub(super) fn covers(&self, lock: &QueueName) -> bool {
        let is_asked_for = || self.scope.also.iter().any(|also| also.as_str() == lock.as_str());
        !lock.as_str().starts_with('/') && (lock.as_str().starts_with(&self.scope.prefix) || is_asked_for())
    }

    /// The groups of a site that are found without a look into another of them.
    pub(super) fn groups(&self, site: &LockSite) -> &'static [ChildGroup] {
        match (site, self.layout) {
            (LockSite::Below(node), _) if self.layout.own_node(node) != node => &[ChildGroup::Beside],
            (LockSite::Below(_), _) => &[ChildGroup::Line],
            (LockSite::At(_), _) => &[ChildGroup::Line, ChildGroup::Beside],
        }
    }

    /// The path of a group's node, as the server knows it.
    pub(super) fn path_of(&self, site: &LockSite, group: ChildGroup) -> String {
        let (line, beside) = match site {
            LockSite::Below(node) => (format!("{}/{node}", self.base), format!("{}/{node}", self.base)),
            LockSite::At(lock) => match self.also.iter().find(|(also, _)| also == lock) {
                Some((_, [line, beside])) => (line.clone(), beside.clone()),
                // A site is one of ours.
                None => (String::new(), String::new()),
            },
        };
        match group {
            ChildGroup::Line => line,
            ChildGroup::Permits => format!("{line}/{CURATOR_PERMITS}"),
            ChildGroup::Waiters => format!("{line}/{CURATOR_WAITERS}"),
            ChildGroup::Beside => beside,
        }
    }

    /// What a node may be, by its path: none, or several where a lock at a path lies below the base.
    pub(super) fn places(&self, path: &str) -> Vec<NodeRole> {
        let mut places = Vec::new();
        if let Some(below) = below(&self.base, path) {
            match below.split_once('/') {
                None => places.push(NodeRole::Site(LockSite::Below(below.to_owned()))),
                Some((node, within)) => {
                    let site = || LockSite::Below(node.to_owned());
                    let is_beside = self.layout.own_node(node) != node;
                    places.extend(if is_beside { beside(site, within) } else { line(site, within) });
                }
            }
        }
        for (lock, [line_path, beside_path]) in &self.also {
            let site = || LockSite::At(lock.clone());
            places.extend(below(line_path, path).and_then(|within| line(site, within)));
            places.extend(below(beside_path, path).and_then(|within| beside(site, within)));
        }
        places
    }
}

/// The rest of a path below another one.
fn below<'a>(above: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(above)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}

/// What lies in a lock's own node.
fn line(site: impl Fn() -> LockSite, within: &str) -> Option<NodeRole> {
    let (group, name) = match within.split_once('/') {
        None => (ChildGroup::Line, within),
        Some((CURATOR_PERMITS, name)) => (ChildGroup::Permits, name),
        Some((CURATOR_WAITERS, name)) => (ChildGroup::Waiters, name),
        Some(_) => return None,
    };
    (!name.contains('/')).then(|| NodeRole::ContenderNode(ContenderNode { site: site(), group, name: name.to_owned() }))
}

/// What lies in the node of the waiters beside a lock.
fn beside(site: impl Fn() -> LockSite, within: &str) -> Option<NodeRole> {
    let contender_node = || ContenderNode { site: site(), group: ChildGroup::Beside, name: within.to_owned() };
    (!within.contains('/')).then(|| NodeRole::ContenderNode(contender_node()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheme(url: &str, scope: &Scope) -> PathScheme {
        let config = Config::from_url(&url.parse().unwrap()).unwrap();
        PathScheme::new(&config, &Chroot::new(config.chroot.clone()), scope).unwrap()
    }

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    fn shown(scheme: &PathScheme, path: &str) -> Vec<String> {
        let site = |site: &LockSite| match site {
            LockSite::Below(node) => node.clone(),
            LockSite::At(lock) => format!("at {}", lock.as_str()),
        };
        let place = |place: &NodeRole| match place {
            NodeRole::Site(place) => site(place),
            NodeRole::ContenderNode(contender_node) => {
                format!("{} {:?} {}", site(&contender_node.site), contender_node.group, contender_node.name)
            }
        };
        scheme.places(path).iter().map(place).collect()
    }

    #[test]
    fn a_path_says_whose_contender_a_node_is_and_back() {
        let curator = scheme("zk://h/app", &Scope::default());
        let kazoo = scheme("zk://h/app?layout=kazoo", &Scope::default());
        for (path, by_curator, by_kazoo) in [
            ("/app/lockkeeper/a", &["a"][..], &["a"][..]),
            ("/app/lockkeeper/a/x", &["a Line x"], &["a Line x"]),
            ("/app/lockkeeper/a/leases", &["a Line leases"], &["a Line leases"]),
            ("/app/lockkeeper/a/leases/x", &["a Permits x"], &["a Permits x"]),
            ("/app/lockkeeper/a/locks/x", &["a Waiters x"], &["a Waiters x"]),
            ("/app/lockkeeper/a/other/x", &[], &[]),
            ("/app/lockkeeper/a/locks/x/y", &[], &[]),
            ("/app/lockkeeper/a-__lock__/x", &["a-__lock__ Line x"], &["a-__lock__ Beside x"]),
            ("/app/lockkeeper/a-__lock__/locks/x", &["a-__lock__ Waiters x"], &[]),
            ("/app/lockkeeper", &[], &[]),
            ("/app/lockkeeper2/a", &[], &[]),
            ("/lockkeeper/a", &[], &[]),
        ] {
            assert_eq!(shown(&curator, path), by_curator, "{path}");
            assert_eq!(shown(&kazoo, path), by_kazoo, "{path}");
            for scheme in [&curator, &kazoo] {
                for place in scheme.places(path) {
                    if let NodeRole::ContenderNode(ContenderNode { site, group, name }) = place {
                        assert_eq!(format!("{}/{name}", scheme.path_of(&site, group)), path);
                    }
                }
            }
        }
        let own_node = |scheme: &PathScheme| scheme.layout.own_node("a-__lock__");
        assert_eq!((own_node(&curator), own_node(&kazoo)), ("a-__lock__", "a"));
    }

    #[test]
    fn a_lock_at_a_path_has_a_root_of_its_own_and_the_base_may_be_the_root() {
        let scope = Scope::below_base("").with(name("/fleet/a")).with(name("b"));
        let curator = scheme("zk://h?base=/", &scope);
        assert_eq!((curator.base(), curator.roots()), ("/", vec!["/", "/fleet/a", "/fleet/a-__lock__"]));
        assert_eq!(shown(&curator, "/fleet/a-__lock__/x"), ["at /fleet/a Beside x"]);
        assert_eq!(shown(&curator, "/fleet/a/x"), ["at /fleet/a Line x"]);
        assert_eq!(shown(&curator, "/fleet/a/leases/x"), ["at /fleet/a Permits x"]);
        assert_eq!(shown(&curator, "/fleet/locks/a"), ["fleet Waiters a"]);
        let kazoo = scheme("zk://h/app?layout=kazoo", &scope);
        assert_eq!(kazoo.roots(), ["/app/lockkeeper", "/app/fleet/a", "/app/fleet/a-__lock__"]);
        assert_eq!(shown(&kazoo, "/app/fleet/a-__lock__/x"), ["at /fleet/a Beside x"]);
        assert_eq!(shown(&kazoo, "/app/fleet/a/x"), ["at /fleet/a Line x"]);
        assert_eq!(kazoo.path_of(&LockSite::At(name("/fleet/a")), ChildGroup::Beside), "/app/fleet/a-__lock__");
    }

    #[test]
    fn a_scope_covers_names_that_begin_so_and_those_beside_them_and_no_path() {
        let scheme = scheme("zk://h", &Scope::below_base("jobs/").with(name("door")).with(name("/fleet/a")));
        let covered = ["jobs/x", "job", "door", "doors", "/fleet/a"].map(|text| scheme.covers(&name(text)));
        assert_eq!(covered, [true, false, true, false, false]);
    }
}
