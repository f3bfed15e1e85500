//! A follower tells what looks show: in both layouts, of long names, of nodes that may not be read, and on a server
//! that tells of nothing.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{
    Advice, Backend, ErrorKind, FollowEvent, Mode, Part, Picture, QueueName, Rank, Request, Revocation, Scope,
};
use lockkeeper_zk_proto::message::Acl;
use lockkeeper_zookeeper::{NewNode, ZooKeeperBackend};

use super::SERVER;
use crate::follows::{Following, OlderServer, end_of};
use crate::support::Bench;
use crate::support::waist::{Waist, entry, line, queue};
use crate::support::way::{self, url};

/// How late a change may be seen that is not told: looks are a minute apart at most, and a second on an idle machine.
const LOOKED_AT_WITHIN: Duration = Duration::from_secs(100);

fn backend(servers: &str, settings: &str) -> Arc<ZooKeeperBackend> {
    Arc::new(ZooKeeperBackend::open(&url(servers, settings)).expect("a good URL"))
}

/// The name of a lock whose node is named by a digest.
fn long(mark: &str) -> String {
    format!("{mark}{}", "é".repeat(95))
}

/// Takes a place of each kind, of names of each kind.
async fn take_all(ann: &Waist, following: &mut Following, door: &str) {
    let pool = format!("{door}-pool");
    for (name, part, mode) in [
        (door, Part::Line, Mode::Write),
        (door, Part::Line, Mode::Read),
        (&pool, Part::Permits, Mode::Permit),
        (&pool, Part::Permits, Mode::Permit),
        (&pool, Part::Waiters, Mode::Acquire),
        ("leader", Part::Line, Mode::Candidate),
        ("start", Part::Line, Mode::Member),
    ] {
        ann.take(&queue(name, part), mode).await;
        following.until_equal().await;
    }
    let writer = ann.view(&line(door)).await.contenders[0].id.clone();
    let mut beside = entry(Mode::Read);
    beside.rank = Rank::With(writer.clone());
    ann.take_entry(&line(door), beside).await;
    let please = Request::Yield(Revocation::default());
    assert!(ann.session.request(&line(door), &writer, please).await.expect("it is sent"));
    following.until_equal().await;
}

#[tokio::test]
async fn a_follower_tells_of_every_kind_of_lock_in_both_layouts_and_of_names_that_are_too_long_for_a_node() {
    for settings in ["", "?layout=kazoo"] {
        let Some(bench) = Bench::start(SERVER).await else { return };
        let ann = bench.neighbouring_waist(settings).await;
        let mut following = Following::begin(backend(&bench.servers(), settings), Scope::default()).await;
        for door in ["door", &long("door")] {
            take_all(&ann, &mut following, door).await;
        }
        // A client in Curator's layout has its semaphore in the same nodes.
        let curators = bench.neighbouring_waist("").await;
        curators.take(&queue("door-pool", Part::Permits), Mode::Permit).await;
        curators.take(&queue("door-pool", Part::Waiters), Mode::Acquire).await;
        assert!(following.until_equal().await >= 18, "{settings}");
        // And one that begins now is told the same.
        Following::begin(backend(&bench.servers(), settings), Scope::default()).await.until_equal().await;
        for waist in [&ann, &curators] {
            waist.session.close().await.expect("it is closed");
        }
        assert_eq!(following.until_equal().await, 0);
    }
}

#[tokio::test]
async fn a_lock_whose_name_is_learnt_later_is_told_with_all_its_contenders() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    let name = QueueName::new(&long("late")).unwrap();
    let path = format!("/lockkeeper/{}", name.encoded());
    operator.create(NewNode::persistent("/lockkeeper")).await.unwrap();
    operator.create(NewNode::persistent(path.as_str())).await.unwrap();
    let mut following = Following::begin(ann.backend.clone(), Scope::default()).await;
    operator.create(NewNode::ephemeral(format!("{path}/lock-0000000001"))).await.unwrap();
    ann.take(&line("door"), Mode::Mutex).await;
    assert_eq!(following.until_equal().await, 1, "no client knows which lock it is");
    operator.set_data(&path, serde_json::json!({ "name": name.as_str() }).to_string(), None).await.unwrap();
    while following.picture.locks().len() < 2 {
        following.hear().await;
    }
    assert_eq!(following.until_equal().await, 2);
}

#[tokio::test]
async fn what_may_not_be_read_is_told_as_looks_show_it() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let operator = bench.operator().await;
    operator.add_auth("digest", b"ann:secret").await.unwrap();
    let ann = way::party(format!("ann:secret@{}", bench.servers()), "?acl=creator").keeper;
    let stranger = bench.neighbouring_waist("").await;
    let before = ann.mutex("before").unwrap().lock().await.unwrap();
    let mut following = Following::begin(stranger.backend.clone(), Scope::default()).await;
    assert!(following.picture.locks().is_empty(), "no look shows what stands in a node that may not be read");
    let after = ann.mutex("after").unwrap().lock().await.unwrap();
    stranger.take(&line("door"), Mode::Mutex).await;
    let secret = NewNode::ephemeral("/lockkeeper/door/lock-0000000009").with_acl(vec![Acl::creator()]);
    operator.create(secret).await.unwrap();
    assert_eq!(following.until_equal().await, 2, "it stands there, and no more is known");
    let shown = &following.picture.locks()[&line("door")][1];
    assert_eq!((shown.token, shown.session.as_deref()), (None, None));
    operator.delete("/lockkeeper/door/lock-0000000009", None).await.unwrap();
    while following.picture.locks()[&line("door")].len() > 1 {
        following.hear().await;
    }
    assert_eq!(following.until_equal().await, 1);
    before.release().await.unwrap();
    after.release().await.unwrap();
}

/// The names of the locks that are known.
fn known(picture: &Picture) -> Vec<&str> {
    picture.locks().keys().map(QueueName::as_str).collect()
}

#[tokio::test]
async fn what_has_changed_while_a_follower_was_cut_off_is_told_by_a_whole_look_and_by_nothing_else() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.neighbouring_waist("").await;
    ann.take(&line("before"), Mode::Mutex).await;
    let mut follower = backend(&bench.proxied(), "").admin().follow(&Scope::default()).expect("it can be followed");
    // The other one has a planted fault: once it knows all, it takes in no whole look any more.
    let (mut picture, mut faulty) = (Picture::default(), Picture::default());
    let mut hear = async |picture: &mut Picture, faulty: &mut Picture| {
        let told = soon("a telling", follower.next()).await.expect("it goes on");
        if !faulty.is_whole() || matches!(told, FollowEvent::Changed(_)) {
            faulty.take(told.clone());
        }
        picture.take(told);
    };
    while !picture.is_whole() {
        hear(&mut picture, &mut faulty).await;
    }
    bench.proxy.cut_and_refuse().await.expect("it is cut off");
    while picture.lost().is_none() {
        hear(&mut picture, &mut faulty).await;
    }
    ann.take(&line("meanwhile"), Mode::Mutex).await;
    bench.proxy.accept_again().await.expect("the way is open again");
    while picture.lost().is_some() {
        hear(&mut picture, &mut faulty).await;
    }
    assert_eq!(known(&picture), ["before", "meanwhile"]);
    ann.take(&line("after"), Mode::Mutex).await;
    while known(&picture).len() < 3 {
        hear(&mut picture, &mut faulty).await;
    }
    assert_eq!(known(&faulty), ["after", "before"], "the watches told of what came later, and not of what was missed");
}

#[tokio::test]
async fn a_server_that_knows_no_persistent_watches_is_looked_at_again_and_again() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let older = OlderServer::before(bench.server.address()).await;
    let ann = bench.neighbouring_waist("").await;
    let (_, chroot) = bench
        .servers()
        .split_once('/')
        .map_or((String::new(), String::new()), |(address, chroot)| (address.to_owned(), format!("/{chroot}")));
    let mut following = Following::begin(backend(&format!("{}{chroot}", older.address()), ""), Scope::default()).await;
    let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
    ann.take(&queue("pool", Part::Permits), Mode::Permit).await;
    assert_eq!(following.until_equal_within(LOOKED_AT_WITHIN).await, 2);
    ann.leave(&line("door"), ticket).await;
    assert_eq!(following.until_equal_within(LOOKED_AT_WITHIN).await, 1);
    assert_eq!(older.refusals(), 1, "it is asked once, since the server closes the connection then");
}

#[tokio::test]
async fn a_base_that_may_not_be_listed_and_a_path_where_no_lock_can_lie_end_a_follower_for_good() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let operator = bench.operator().await;
    operator.add_auth("digest", b"ann:secret").await.unwrap();
    operator.create(NewNode::persistent("/lockkeeper").with_acl(vec![Acl::creator()])).await.unwrap();
    let follower = backend(&bench.servers(), "").admin().follow(&Scope::default()).unwrap();
    let error = end_of(follower).await;
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{error:#}");
    let server = bench.server.address().to_string();
    let follower = backend(&server, "").admin().follow(&Scope::default().with(line("/zookeeper/quota"))).unwrap();
    let error = end_of(follower).await;
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidName, Advice::Permanent), "{error:#}");
}

#[tokio::test]
async fn a_dropped_follower_closes_its_session() {
    let Some(bench) = Bench::alone(SERVER).await else { return };
    let mut following = Following::begin(backend(&bench.servers(), ""), Scope::default()).await;
    assert_eq!(following.until_equal().await, 0);
    // One recursive watch, which servers count as one of data and one of children.
    assert_eq!(bench.server.watches().await, 2);
    drop(following);
    until("the end of the session", async || bench.server.watches().await == 0).await;
}
