//! Reads the locks of a scope: all of them, or the changed ones. Many nodes at a time, and not too many a
//! second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Contender;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::Marks;
use lockkeeper_zk_proto::message::{ErrorCode, WatchEventKind, WatcherEvent, ZkRequest};

use crate::error::ClientError;
use crate::link::{ClientCall, SessionLink};
use crate::lock::follow::model::NodeModel;
use crate::lock::follow::path_scheme::{ContenderNode, LockSite, NodeRole, PathScheme};
use crate::lock::inspect::{READS_AT_ONCE_MAX, ReadAnswer, ask_all};
use crate::lock::shown::{ChildGroup, ContenderReading};

/// How long a read keeps the next one back: 5,000 reads a second leave a server room for its other clients.
const READ_INTERVAL: Duration = Duration::from_micros(200);

/// How long reads may go on without a rest: a window of them. A rest is not shorter than timers can count.
const REST_MIN: Duration = Duration::from_millis(20);

pub(super) struct PacedReader {
    link: Arc<SessionLink>,
    /// What errors say was asked for.
    shown: String,
    /// When the requests so far have had their time.
    rested_at: BootInstant,
}

impl PacedReader {
    pub(super) fn new(link: Arc<SessionLink>, shown: String) -> Self {
        let rested_at = link.clock.now();
        Self { link, shown, rested_at }
    }

    /// Waits until all changes that other clients know can be read.
    async fn sync(&self, path: &str) -> Result<(), ClientError> {
        self.link.call(&ZkRequest::Sync { path: path.to_owned() }, &self.shown).response().await.map(drop)
    }

    async fn ask<Node: Sync, T, Answer: Future<Output = ReadAnswer<T>> + Send>(
        &mut self,
        nodes: &[Node],
        request: impl Fn(&Node) -> ZkRequest + Send + Sync,
        answer: impl Fn(ClientCall) -> Answer + Send + Sync,
    ) -> Result<Vec<ReadAnswer<T>>, ClientError> {
        let mut answers = Vec::with_capacity(nodes.len());
        for window in nodes.chunks(READS_AT_ONCE_MAX) {
            self.rest(window.len()).await;
            answers.extend(ask_all(&self.link, &self.shown, window, &request, &answer).await?);
        }
        Ok(answers)
    }

    /// Waits until reads before have had their time, and takes that of this many.
    async fn rest(&mut self, reads: usize) {
        let clock = self.link.clock.clone();
        if self.rested_at.saturating_duration_since(clock.now()) >= REST_MIN {
            clock.sleep_until(self.rested_at).await;
        }
        let time = READ_INTERVAL.saturating_mul(u32::try_from(reads).unwrap_or(u32::MAX));
        self.rested_at = self.rested_at.max(clock.now()).saturating_add(time);
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NodeChange {
    /// It was created, and perhaps written since.
    Created,
    Written,
    Deleted,
    /// It was created, and deleted since.
    Passed,
}

/// The nodes that have changed, by their paths as the server knows them.
pub(super) type NodeMarks = Marks<String, NodeChange>;

/// Notes what a watch has seen; quick, since the session waits.
pub(super) fn note(marks: &NodeMarks, event: &WatcherEvent) {
    let change = match event.kind {
        WatchEventKind::NodeCreated => NodeChange::Created,
        WatchEventKind::NodeDataChanged => NodeChange::Written,
        WatchEventKind::NodeDeleted => NodeChange::Deleted,
        _ => return,
    };
    marks.note(event.path.clone(), change, |last, change| match (*last, change) {
        (NodeChange::Created, NodeChange::Written) => {}
        (NodeChange::Created, NodeChange::Deleted) => *last = NodeChange::Passed,
        _ => *last = change,
    });
}

const fn read(path: String) -> ZkRequest {
    ZkRequest::GetData { path, watch: false }
}

const fn list(path: String) -> ZkRequest {
    ZkRequest::GetChildren { path, watch: false }
}

/// Reads all locks of a scope.
///
/// # Errors
///
/// Also if this user may not list the base.
pub(super) async fn snapshot(reader: &mut PacedReader, scheme: &Arc<PathScheme>) -> Result<NodeModel, ClientError> {
    let mut model = NodeModel::new(scheme.clone());
    reader.sync(scheme.base()).await?;
    let mut said = reader.ask(&[()], |()| list(scheme.base().to_owned()), ClientCall::children).await?;
    let nodes = match said.pop() {
        Some(Err(error)) if error.is(ErrorCode::NoAuth) => return Err(error),
        said => said.and_then(Result::ok).unwrap_or_default(),
    };
    let mut sites: Vec<_> = nodes.into_iter().map(LockSite::Below).chain(scheme.sites_besides()).collect();
    let unnamed: Vec<_> = sites.iter().filter(|site| model.is_named_by_its_data(site)).cloned().collect();
    open_sites(reader, &mut model, &unnamed).await?;
    sites.retain(|site| model.lock_of(site).is_some());
    fill_sites(reader, &mut model, sites).await?;
    Ok(model)
}

/// Reads the nodes of sites; returns those whose contenders must be listed.
async fn open_sites(
    reader: &mut PacedReader,
    model: &mut NodeModel,
    sites: &[LockSite],
) -> Result<Vec<LockSite>, ClientError> {
    let scheme = model.scheme().clone();
    let path_of = |site: &LockSite| scheme.path_of(site, scheme.groups(site)[0]);
    let said = reader.ask(sites, |site| read(path_of(site)), ClientCall::data).await?;
    let mut opened = Vec::new();
    for (site, said) in sites.iter().zip(said) {
        match said {
            Ok((data, _)) => {
                if model.open(site, &data) {
                    opened.push(site.clone());
                }
            }
            Err(error) if error.is(ErrorCode::NoAuth) => model.close(site),
            Err(_) => model.forget(site),
        }
    }
    Ok(opened)
}

async fn fill_sites(reader: &mut PacedReader, model: &mut NodeModel, sites: Vec<LockSite>) -> Result<(), ClientError> {
    let scheme = model.scheme().clone();
    let groups_of = |site: LockSite| scheme.groups(&site).iter().map(move |&group| (site.clone(), group));
    let mut groups: Vec<_> = sites.into_iter().flat_map(groups_of).collect();
    let mut nodes_of_contenders = Vec::new();
    // The second time, the parts of semaphores that the lines have shown.
    while !groups.is_empty() {
        let said =
            reader.ask(&groups, |(site, group)| list(scheme.path_of(site, *group)), ClientCall::children).await?;
        let mut parts = Vec::new();
        for ((site, group), said) in groups.into_iter().zip(said) {
            if said.as_ref().is_err_and(|error| error.is(ErrorCode::NoAuth)) {
                model.close(&site);
            }
            let Ok(children) = said else {
                continue;
            };
            if group == ChildGroup::Line {
                let found = ChildGroup::besides_line(&children, scheme.layout()).into_iter();
                parts.extend(found.filter(|&group| group != ChildGroup::Beside).map(|group| (site.clone(), group)));
            }
            let contender_node = |contender: Contender| {
                let name = contender.id.as_str().to_owned();
                (ContenderNode { site: site.clone(), group, name }, contender)
            };
            nodes_of_contenders.extend(group.contenders(&children, scheme.layout()).into_iter().map(contender_node));
        }
        groups = parts;
    }
    for gone in read_contenders(reader, model, &nodes_of_contenders).await? {
        model.remove(gone);
    }
    Ok(())
}

/// Reads contenders; returns those that are gone.
async fn read_contenders<'a>(
    reader: &mut PacedReader,
    model: &mut NodeModel,
    nodes_of_contenders: &'a [(ContenderNode, Contender)],
) -> Result<Vec<&'a ContenderNode>, ClientError> {
    let scheme = model.scheme().clone();
    let path_of = |contender_node: &ContenderNode| {
        format!("{}/{}", scheme.path_of(&contender_node.site, contender_node.group), contender_node.name)
    };
    let said =
        reader.ask(nodes_of_contenders, |(contender_node, _)| read(path_of(contender_node)), ClientCall::data).await?;
    let mut gone = Vec::new();
    for ((contender_node, contender), said) in nodes_of_contenders.iter().zip(said) {
        match ContenderReading::of(contender, said) {
            Some(found) => model.put(contender_node, found),
            None => gone.push(contender_node),
        }
    }
    Ok(gone)
}

/// Takes in changes. What happens meanwhile comes with the next ones.
pub(super) async fn take_in(
    reader: &mut PacedReader,
    model: &mut NodeModel,
    changes: BTreeMap<String, NodeChange>,
) -> Result<(), ClientError> {
    let scheme = model.scheme().clone();
    let (mut sites, mut gone, mut nodes_of_contenders) = (Vec::new(), Vec::new(), Vec::new());
    let mut new = BTreeSet::new();
    for (path, change) in changes {
        for place in scheme.places(&path) {
            match (place, change) {
                (NodeRole::Site(site), NodeChange::Deleted | NodeChange::Passed) => gone.push(site),
                (NodeRole::Site(site), NodeChange::Created) => sites.push(site),
                (NodeRole::Site(site), NodeChange::Written) if model.is_named_by_its_data(&site) => sites.push(site),
                // The value of a queue is not shown.
                (NodeRole::Site(_), NodeChange::Written) => {}
                (NodeRole::ContenderNode(contender_node), NodeChange::Deleted) => _ = model.remove(&contender_node),
                (NodeRole::ContenderNode(contender_node), NodeChange::Passed) => model.pass(&contender_node),
                (NodeRole::ContenderNode(contender_node), _) => {
                    new.extend(Some(contender_node.clone()).filter(|_| change == NodeChange::Created));
                    nodes_of_contenders.push(contender_node);
                }
            }
        }
    }
    // After their contenders, which know by them whose they were.
    gone.iter().for_each(|site| model.forget(site));
    let opened = open_sites(reader, model, &sites).await?;
    fill_sites(reader, model, opened).await?;
    let named = nodes_of_contenders
        .into_iter()
        .filter_map(|contender_node| model.contender_at(&contender_node).map(|contender| (contender_node, contender)));
    let named: Vec<_> = named.collect();
    for gone in read_contenders(reader, model, &named).await? {
        if new.contains(gone) {
            model.pass(gone);
        } else {
            model.remove(gone);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_change_of_a_node_counts_but_a_write_leaves_it_new() {
        let marks = NodeMarks::default();
        for (kind, path) in [
            (WatchEventKind::NodeCreated, "/a"),
            (WatchEventKind::NodeDataChanged, "/a"),
            (WatchEventKind::NodeDeleted, "/b"),
            (WatchEventKind::NodeCreated, "/b"),
            (WatchEventKind::NodeCreated, "/c"),
            (WatchEventKind::NodeDeleted, "/c"),
            (WatchEventKind::NodeChildrenChanged, "/d"),
            (WatchEventKind::NodeDataChanged, "/e"),
        ] {
            note(&marks, &WatcherEvent::new(kind, path));
        }
        marks.until_any().await;
        let expected = [
            ("/a", NodeChange::Created),
            ("/b", NodeChange::Created),
            ("/c", NodeChange::Passed),
            ("/e", NodeChange::Written),
        ];
        let taken = marks.take().unwrap();
        assert_eq!(taken.iter().map(|(path, change)| (path.as_str(), *change)).collect::<Vec<_>>(), expected);
        assert!(marks.take().unwrap().is_empty());
    }
}
