//! Remnants of clients on a server: what is listed, that a newcomer wins, and what an examination says of the nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper_conformance::{Party, soon};
use lockkeeper_core::{Backend, Finding, Remnant, RemnantKind, Scrutiny, Severity, UNUSED_FOR, Wait};
use lockkeeper_recipes::LockKind;
use lockkeeper_zk_proto::message::{Acl, Permissions};
use lockkeeper_zookeeper::{Client, NewNode, ZooKeeperBackend};

use super::SERVER;
use crate::support::Bench;
use crate::support::way;

/// A contender's name as Curator writes it, but for its number.
const CURATOR: &str = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-";

async fn remnants(party: &Party, unused_for: Duration) -> Vec<Remnant> {
    soon("the remnants", party.keeper.admin().remnants(unused_for)).await.expect("they are listed")
}

async fn remove(party: &Party, remnant: &Remnant) -> bool {
    soon("the removal", party.keeper.admin().remove_remnant(remnant)).await.expect("it is removed or left")
}

/// The kinds and the last names of what was found.
fn names(found: &[Remnant]) -> BTreeSet<(RemnantKind, String)> {
    found.iter().map(|remnant| (remnant.kind, remnant.place.rsplit('/').next().unwrap().to_owned())).collect()
}

async fn make(operator: &Client, nodes: &[&str]) {
    for node in nodes {
        operator.create(NewNode::persistent(*node)).await.unwrap();
    }
}

/// A parent that had a child, which is gone.
async fn make_left(operator: &Client, node: &str) {
    make(operator, &[node, &format!("{node}/x")]).await;
    operator.delete(&format!("{node}/x"), None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_empty_and_what_belongs_to_no_session_is_listed_and_removed() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, bob, eve) = (bench.neighbour(""), bench.neighbour(""), bench.neighbour(""));
    let operator = bench.operator().await;
    let held = ann.lock("live").await;
    let waiting = bob.queue_up("live").await;
    assert!(ann.keeper.admin().freeze("frozen", LockKind::Mutex, "disks", Wait::Forever).await.unwrap().is_some());
    ann.keeper.shared_value("value").unwrap().set(b"7").await.unwrap();
    let hostile = "a <b>\u{202e}\u{2066}/é";
    ann.lock(hostile).await.release().await.unwrap();
    drop(ann.keeper.semaphore("permits", 2).unwrap().acquire().await.unwrap().release().await);
    make_left(&operator, "/lockkeeper/left").await;
    // A barrier of kazoo's: it is there, and so it is set.
    make(&operator, &["/lockkeeper/barrier"]).await;
    // A queue of tasks, which looks like one of contenders.
    make(&operator, &["/lockkeeper/tasks", "/lockkeeper/tasks/queue-0000000001"]).await;
    let (blocked, permit) =
        (format!("/lockkeeper/blocked/{CURATOR}0000000003"), "/lockkeeper/full/leases/x".to_owned());
    make(&operator, &["/lockkeeper/blocked", &blocked, "/lockkeeper/full", "/lockkeeper/full/leases", &permit]).await;
    let before = operator.get_children("/lockkeeper").await.unwrap().0.into_iter().collect::<BTreeSet<_>>();

    assert_eq!(names(&remnants(&eve, UNUSED_FOR).await), names_of_unbound(&blocked), "nothing is known to be unused");
    let found = remnants(&eve, Duration::ZERO).await;
    let encoded = "a%20%3Cb%3E%E2%80%AE%E2%81%A6%2F%C3%A9";
    let empty = ["left", "permits", encoded].map(|name| (RemnantKind::Empty, name.to_owned()));
    let expected: BTreeSet<_> = empty.into_iter().chain(names_of_unbound(&blocked)).collect();
    assert_eq!(names(&found), expected);
    let named = found.iter().find(|remnant| remnant.place.ends_with(encoded)).and_then(|it| it.lock.clone());
    assert_eq!(named.unwrap().as_str(), hostile);
    let after = operator.get_children("/lockkeeper").await.unwrap().0.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(after, before, "a list changes nothing");

    for remnant in &found {
        assert!(remove(&eve, remnant).await, "{remnant:?}");
        assert!(!remove(&eve, remnant).await, "{remnant:?} is removed once");
    }
    let left = operator.get_children("/lockkeeper").await.unwrap().0.into_iter().collect::<BTreeSet<_>>();
    let stays = ["barrier", "blocked", "frozen", "full", "live", "tasks", "value"];
    assert_eq!(left, stays.map(str::to_owned).into());
    assert!(held.hold().is_held() && !waiting.is_finished());
    assert_eq!(eve.contenders("frozen").await, 1);
    assert_eq!(&*eve.keeper.shared_value("value").unwrap().get().await.unwrap().unwrap().bytes, b"7");
    eve.lock("blocked").await.release().await.unwrap();
}

fn names_of_unbound(blocked: &str) -> BTreeSet<(RemnantKind, String)> {
    let contender = blocked.rsplit('/').next().unwrap();
    [contender, "x"].map(|name| (RemnantKind::Unbound, name.to_owned())).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_wins_over_what_was_listed_before() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, eve) = (bench.neighbour(""), bench.neighbour(""));
    let operator = bench.operator().await;
    make(&operator, &["/lockkeeper"]).await;
    for node in ["joined", "passed", "written", "anew"] {
        make_left(&operator, &format!("/lockkeeper/{node}")).await;
    }
    let contender = format!("/lockkeeper/blocked/{CURATOR}0000000003");
    make(&operator, &["/lockkeeper/blocked", &contender]).await;
    let found = remnants(&eve, Duration::ZERO).await;
    assert_eq!(found.len(), 5, "{found:?}");

    let held = ann.lock("joined").await;
    ann.lock("passed").await.release().await.unwrap();
    operator.set_data("/lockkeeper/written", b"7".to_vec(), None).await.unwrap();
    operator.delete("/lockkeeper/anew", None).await.unwrap();
    make_left(&operator, "/lockkeeper/anew").await;
    operator.delete(&contender, None).await.unwrap();
    operator.create(NewNode::ephemeral(&contender)).await.unwrap();
    for remnant in &found {
        assert!(!remove(&eve, remnant).await, "{remnant:?}");
    }
    assert!(held.hold().is_held());
    let left = operator.get_children("/lockkeeper").await.unwrap().0.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(left, ["anew", "blocked", "joined", "passed", "written"].map(str::to_owned).into());
    assert!(operator.exists(&contender).await.unwrap().is_some());
}

pub(crate) async fn findings_of(backend: &ZooKeeperBackend) -> Vec<Finding> {
    soon("the findings", backend.admin().examine(Scrutiny::Full)).await.unwrap()
}

pub(crate) fn severity_of(findings: &[Finding], word: &str) -> Option<Severity> {
    findings.iter().find(|finding| finding.what.contains(word)).map(|finding| finding.severity)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_examination_tells_of_strange_nodes_great_numbers_and_closed_nodes() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let operator = bench.operator().await;
    let servers = bench.servers();
    let backend = |settings: &str| ZooKeeperBackend::open(&way::url(&servers, settings)).unwrap();
    let words = ["may be a contender", "looks like a contender", "have come to", "may not read"];
    make(&operator, &["/lockkeeper", "/lockkeeper/door", "/lockkeeper/gate", "/lockkeeper/tasks"]).await;
    let in_order = findings_of(&backend("")).await;
    assert!(words.iter().all(|word| severity_of(&in_order, word).is_none()), "{in_order:?}");

    operator.create(NewNode::ephemeral("/lockkeeper/door/strange-0000000001")).await.unwrap();
    make(&operator, &["/lockkeeper/tasks/queue-0000000001"]).await;
    operator.create(NewNode::ephemeral(format!("/lockkeeper/gate/{CURATOR}1073741825"))).await.unwrap();
    let closed =
        NewNode::persistent("/lockkeeper/closed").with_acl(vec![Acl::new(Permissions::CREATE, "world", "anyone")]);
    operator.create(closed).await.unwrap();
    let findings = findings_of(&backend("")).await;
    for word in words {
        assert_eq!(severity_of(&findings, word), Some(Severity::Warning), "{word}: {findings:?}");
    }
    let told = findings_of(&backend("?foreign=ignore")).await;
    assert!(words[..2].iter().all(|word| severity_of(&told, word).is_none()), "{told:?}");
}
