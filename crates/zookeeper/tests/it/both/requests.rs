//! Breaks, as other clients and onlookers see them. `mixed/orders.rs` has requests to give up.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, FencingToken, LossReason, Mode, Request};
use lockkeeper_zk_proto::message::{Acl, Permissions};
use lockkeeper_zookeeper::{Client, NewNode};

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::line;

/// A holder as Curator makes one, with its default data.
async fn curators_holder(operator: &Client, lock: &str, mark: &str) -> String {
    let node = format!("{lock}/_c_01234567-89ab-cdef-0123-456789abcdef-{mark}");
    let made = operator.create(NewNode::ephemeral_sequential(node).with_data("127.0.0.1")).await.expect("it is made");
    made.path.rsplit('/').next().expect("a name").to_owned()
}

async fn make_lock(operator: &Client, lock: &str) {
    operator.create(NewNode::container("/lockkeeper")).await.expect("it is made");
    operator.create(NewNode::container(lock)).await.expect("it is made");
}

#[tokio::test]
async fn a_break_is_noted_beside_the_locks_true_name_and_its_value_is_left_alone() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, eve) = (bench.neighbouring_waist("").await, bench.neighbouring_waist("").await);
    let operator = bench.operator().await;
    let long = "é".repeat(100);
    for (name, value, reason) in [
        ("short", None, LossReason::Broken),
        (long.as_str(), None, LossReason::Broken),
        (long.as_str(), Some(&b"5"[..]), LossReason::Broken),
        // There is no room for notes in what other clients may read, so that is found out no more.
        ("count", Some(&b"5"[..]), LossReason::Removed),
    ] {
        let lock = line(name);
        let (_, other) = ann.take(&lock, Mode::Member).await;
        if let Some(value) = value {
            ann.session.values().set(&lock, lockkeeper_core::Expected::Any, Some(value.into())).await.unwrap();
        }
        let (_, ours) = ann.take(&lock, Mode::Member).await;
        let breaking = eve.session.request(&lock, &ours.id, Request::Break { token: ours.token });
        assert!(soon("the answer", breaking).await.unwrap());
        assert_eq!(soon("the loss", ours.standing.lost()).await, reason, "{name} {value:?}");
        assert_eq!(
            ann.backend.admin().queues(name).await.unwrap(),
            std::slice::from_ref(&lock),
            "the name is still known"
        );
        let left = ann.session.values().get(&lock).await.unwrap().map(|value| value.bytes.to_vec());
        assert_eq!(left.as_deref(), value);
        let breaking = eve.session.request(&lock, &other.id, Request::Break { token: other.token });
        assert!(soon("the answer", breaking).await.unwrap());
    }
    operator.delete("/lockkeeper/short", None).await.unwrap();
}

#[tokio::test]
async fn a_downgraded_reader_of_curators_is_shown_with_its_writers_token_and_broken_by_it() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    make_lock(&operator, "/lockkeeper/door").await;
    let writer = curators_holder(&operator, "/lockkeeper/door", "__WRIT__").await;
    let sequence = &writer[writer.len() - 10..];
    let reader = format!("_c_11111111-89ab-cdef-0123-456789abcdef-__READ__{sequence}");
    let made = operator.create(NewNode::ephemeral(format!("/lockkeeper/door/{reader}"))).await.unwrap();
    let shown = ann.backend.admin().inspect(&line("door")).await.unwrap();
    assert_eq!((shown[0].id.as_str(), shown[1].id.as_str()), (writer.as_str(), reader.as_str()));
    assert_eq!(shown[0].token, shown[1].token);
    let of_reader = FencingToken::new(u64::try_from(made.stat.czxid).unwrap(), 0).unwrap();
    let ask = |token| ann.session.request(&line("door"), &shown[1].id, Request::Break { token });
    assert!(!ask(of_reader).await.unwrap(), "it is not shown with that one");
    assert!(ask(shown[0].token.unwrap()).await.unwrap());
    assert_eq!(ann.modes(&line("door")).await, [Mode::Write]);
}

#[tokio::test]
async fn a_break_that_may_not_leave_a_note_still_breaks() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, operator) = (bench.neighbouring_waist("").await, bench.operator().await);
    let (_, ours) = ann.take(&line("door"), Mode::Mutex).await;
    let all_but_writing = Permissions::READ | Permissions::CREATE | Permissions::DELETE;
    operator.set_acl("/lockkeeper/door", vec![Acl::new(all_but_writing, "world", "anyone")], None).await.unwrap();
    let breaking = ann.session.request(&line("door"), &ours.id, Request::Break { token: ours.token });
    assert!(soon("the answer", breaking).await.unwrap());
    assert_eq!(soon("the loss", ours.standing.lost()).await, LossReason::Removed);
}
