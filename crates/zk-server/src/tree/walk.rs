//! A walk through all nodes as they are at one moment, in slices, while the tree goes on changing.
//!
//! The walk goes by path, a parent before its children. What is changed or deleted ahead of it is saved first, as it
//! was; what is created after the moment is left out, by the number of the transaction that made it.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};

use bytes::Bytes;

use crate::tree::node::{AccessList, NodeMap, NodeRecord, ROOT, TreeNode, split_parent};

/// How far a walk has come.
#[derive(Debug)]
pub(super) struct Walk {
    /// The last transaction whose changes the walk sees.
    zxid: i64,
    /// The last path that was looked at.
    at: Option<Box<str>>,
    /// What was changed ahead of the walk, and not handed out yet.
    saved: Vec<Saved>,
    /// The paths ahead of the walk that were saved.
    saved_paths: HashSet<Box<str>>,
}

/// A node as it was, without its children.
#[derive(Debug)]
struct Saved {
    path: Box<str>,
    data: Option<Bytes>,
    access: AccessList,
    record: NodeRecord,
}

/// A node as the walk hands it out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visited<'a> {
    pub(crate) path: &'a str,
    pub(crate) data: Option<&'a Bytes>,
    pub(crate) access: &'a AccessList,
    pub(crate) record: &'a NodeRecord,
}

impl Walk {
    /// Saves a node that is about to change or go, if the walk has yet to see it.
    pub(super) fn save(&mut self, path: &str, node: &TreeNode) {
        let is_ahead = self.at.as_deref().is_none_or(|at| compare(path, at) == Ordering::Greater);
        if node.record.czxid <= self.zxid && is_ahead && self.saved_paths.insert(path.into()) {
            let TreeNode { data, access, record, .. } = node;
            self.saved.push(Saved { path: path.into(), data: data.clone(), access: access.clone(), record: *record });
        }
    }

    /// Looks at one node.
    fn visit(
        &mut self,
        path: &str,
        node: &TreeNode,
        visit: &mut impl FnMut(Visited<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let is_saved = !self.saved_paths.is_empty() && self.saved_paths.remove(path);
        if node.record.czxid > self.zxid || is_saved {
            return ControlFlow::Continue(());
        }
        visit(Visited { path, data: node.data.as_ref(), access: &node.access, record: &node.record })
    }

    /// Begins a walk that sees the nodes as they are now, after transaction `zxid`.
    pub(super) fn begin(zxid: i64) -> Self {
        Self { zxid, at: None, saved: Vec::new(), saved_paths: HashSet::new() }
    }

    /// Hands out what was saved, and goes on by `nodes_max` nodes or until `visit` breaks; `false` when the walk is
    /// done.
    pub(super) fn go_on(
        &mut self,
        nodes: &NodeMap,
        nodes_max: usize,
        mut visit: impl FnMut(Visited<'_>) -> ControlFlow<()>,
    ) -> bool {
        while let Some(Saved { path, data, access, record }) = self.saved.pop() {
            if visit(Visited { path: &path, data: data.as_ref(), access: &access, record: &record }).is_break() {
                return true;
            }
        }
        let mut left = nodes_max;
        let mut next: Option<Box<str>> = match &self.at {
            None => Some(ROOT.into()),
            Some(at) => path_after(nodes, at),
        };
        while let Some(path) = next {
            if left == 0 {
                return true;
            }
            let at = self.visit_row(nodes, path, &mut left, &mut visit);
            next = path_after(nodes, &at);
            self.at = Some(at);
        }
        false
    }

    /// Looks at a node and at those that follow it below the same parent, up to one that has children; returns the path
    /// of the last.
    fn visit_row(
        &mut self,
        nodes: &NodeMap,
        first: Box<str>,
        left: &mut usize,
        visit: &mut impl FnMut(Visited<'_>) -> ControlFlow<()>,
    ) -> Box<str> {
        let Some(node) = nodes.get(&first) else {
            return first;
        };
        *left = if self.visit(&first, node, visit).is_break() { 0 } else { *left - 1 };
        let Some((parent_path, name)) = split_parent(&first).filter(|_| node.children.is_empty()) else {
            return first;
        };
        let Some(parent) = nodes.get(parent_path) else {
            return first;
        };
        let mut path = String::from(&*first);
        let above = path.len() - name.len();
        for name in parent.children.range::<str, _>((Bound::Excluded(name), Bound::Unbounded)) {
            if *left == 0 {
                break;
            }
            path.truncate(above);
            path.push_str(name);
            let Some(node) = nodes.get(&*path) else {
                continue;
            };
            *left = if self.visit(&path, node, visit).is_break() { 0 } else { *left - 1 };
            if !node.children.is_empty() {
                break;
            }
        }
        path.into()
    }
}

/// The first path behind `path` at which there is a node; there need not be one at `path` itself any more.
fn path_after(nodes: &NodeMap, path: &str) -> Option<Box<str>> {
    if let Some(name) = nodes.get(path).and_then(|node| node.children.first()) {
        return Some(join(path, name));
    }
    let mut path = path;
    while path != ROOT {
        let (parent_path, name) = split_parent(path)?;
        let siblings = nodes.get(parent_path).map(|parent| &parent.children);
        let next = siblings.and_then(|names| names.range::<str, _>((Bound::Excluded(name), Bound::Unbounded)).next());
        if let Some(name) = next {
            return Some(join(parent_path, name));
        }
        path = parent_path;
    }
    None
}

fn join(parent: &str, name: &str) -> Box<str> {
    if parent == ROOT { format!("/{name}").into() } else { format!("{parent}/{name}").into() }
}

/// The order of the walk: a parent before its children, and siblings by name with all that is below them.
fn compare(one: &str, other: &str) -> Ordering {
    match (one == ROOT, other == ROOT) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => one.split('/').cmp(other.split('/')),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lockkeeper_zk_proto::message::Acl;
    use proptest::prelude::*;

    use super::*;
    use crate::tree::{DataTree, NodeOwner, TreeChange, Undo};

    /// The paths that changes are about: deep and wide ones, and a few only, so that changes meet.
    const PATHS: [&str; 12] =
        ["/a", "/a/a", "/a/a/a", "/a/a-", "/a-", "/a-/b", "/a.b", "/b", "/b/c", "/b/c/d", "/b/c/d/e", "/c"];

    /// What a walk shows of a node.
    type Seen = (Option<Bytes>, usize, NodeRecord);

    fn seen(node: Visited<'_>) -> (String, Seen) {
        (node.path.to_owned(), (node.data.cloned(), node.access.len(), *node.record))
    }

    fn all(tree: &DataTree) -> BTreeMap<String, Seen> {
        let nodes = tree.sorted().into_iter();
        nodes.map(|(path, node)| (path.to_owned(), (node.data.clone(), node.access.len(), node.record))).collect()
    }

    /// A step: a change, perhaps taken back at once, or a slice of the walk.
    #[derive(Clone, Debug)]
    enum Step {
        Create(&'static str),
        Delete(&'static str),
        SetData(&'static str, u8),
        SetAccess(&'static str),
        CountChildren(&'static str, i32),
        TakeBackAll(Vec<Self>),
        Walk(usize),
    }

    fn change() -> impl Strategy<Value = Step> {
        let path = || prop::sample::select(&PATHS[..]);
        prop_oneof![
            4 => path().prop_map(Step::Create),
            3 => path().prop_map(Step::Delete),
            2 => (path(), any::<u8>()).prop_map(|(path, data)| Step::SetData(path, data)),
            1 => path().prop_map(Step::SetAccess),
        ]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => change(),
            1 => (prop::sample::select(&PATHS[..]), 1..9).prop_map(|(path, count)| Step::CountChildren(path, count)),
            2 => prop::collection::vec(change(), 1..5).prop_map(Step::TakeBackAll),
            4 => (1_usize..4).prop_map(Step::Walk),
        ]
    }

    struct Subject {
        tree: DataTree,
        zxid: i64,
        walked: BTreeMap<String, Seen>,
        is_over: bool,
    }

    impl Subject {
        fn do_step(&mut self, step: &Step) -> Option<Undo> {
            self.zxid += 1;
            let access = |tree: &mut DataTree, list| tree.share_access(list);
            let change = match step {
                Step::Create(path) => TreeChange::Create {
                    path: (*path).into(),
                    data: None,
                    access: access(&mut self.tree, vec![Acl::open()]),
                    owner: NodeOwner::Nothing,
                },
                Step::Delete(path) => TreeChange::Delete { path: (*path).into() },
                Step::SetData(path, data) => {
                    TreeChange::SetData { path: (*path).into(), data: Some(Bytes::copy_from_slice(&[*data])) }
                }
                Step::SetAccess(path) => {
                    let list = access(&mut self.tree, vec![Acl::open(), Acl::readable()]);
                    TreeChange::SetAccess { path: (*path).into(), access: list }
                }
                Step::CountChildren(path, count) => {
                    self.tree.set_children_created(path, *count);
                    return None;
                }
                Step::TakeBackAll(steps) => {
                    let undos: Vec<Undo> = steps.iter().filter_map(|step| self.do_step(step)).collect();
                    undos.into_iter().rev().for_each(|undo| self.tree.undo(undo));
                    return None;
                }
                Step::Walk(count) => {
                    self.walk(*count);
                    return None;
                }
            };
            self.tree.apply(&change, self.zxid, 0).ok()
        }

        fn walk(&mut self, count: usize) {
            if self.is_over {
                return;
            }
            let walked = &mut self.walked;
            self.is_over = !self.tree.go_on_walking(count, |node| {
                let (path, node) = seen(node);
                assert_eq!(walked.insert(path.clone(), node), None, "{path} is seen twice");
                // Slices end by bytes, too.
                if path.len() % 2 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

        #[test]
        fn a_walk_sees_each_node_once_as_it_was_at_its_beginning(
            before in prop::collection::vec(change(), 0..30),
            meanwhile in prop::collection::vec(step(), 0..60),
        ) {
            let mut subject = Subject { tree: DataTree::new(), zxid: 0, walked: BTreeMap::new(), is_over: false };
            for step in &before {
                subject.do_step(step);
            }
            let expected = all(&subject.tree);
            subject.tree.begin_walk(subject.zxid);
            for step in &meanwhile {
                subject.do_step(step);
            }
            while !subject.is_over {
                subject.walk(3);
            }
            prop_assert_eq!(subject.walked, expected);
            prop_assert!(!subject.tree.go_on_walking(3, |_| ControlFlow::Continue(())), "it is over");
        }
    }

    #[test]
    fn the_order_is_a_parent_before_its_children_and_they_before_its_siblings() {
        for (index, one) in PATHS.iter().enumerate() {
            assert_eq!(compare(ROOT, one), Ordering::Less);
            for (other_index, other) in PATHS.iter().enumerate() {
                assert_eq!(compare(one, other), index.cmp(&other_index), "{one} and {other}");
            }
        }
    }
}
