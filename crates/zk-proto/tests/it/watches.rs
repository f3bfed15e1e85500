//! Tests of watches: which of them an event ends, what is set again, and what may be removed at the server.

use lockkeeper_zk_proto::message::{ErrorCode, SetWatches, WatchEventKind, WatcherEvent, WatcherKind};
use lockkeeper_zk_proto::watch::{RESTORE_BYTES_MAX, WatchId, WatchRegistry, WatchWish};

/// Watches set in a registry, numbered from 1.
#[derive(Default)]
struct Watches {
    registry: WatchRegistry,
    count: u64,
}

impl Watches {
    fn ask(&mut self, wish: WatchWish, path: &str) -> WatchId {
        self.count += 1;
        let id = WatchId::new(self.count);
        self.registry.ask(id, wish, path).unwrap();
        id
    }

    fn set(&mut self, wish: WatchWish, path: &str) -> WatchId {
        let id = self.ask(wish, path);
        assert!(self.registry.answer(id, ErrorCode::Ok));
        id
    }

    fn fire(&mut self, kind: WatchEventKind, path: &str) -> Vec<u64> {
        self.registry.fire(&WatcherEvent::new(kind, path)).into_iter().map(WatchId::number).collect()
    }
}

/// One watch of each kind on `/a`: data 1, existence of an absent node 2, children 3, persistent 4, recursive 5.
fn one_of_each() -> Watches {
    let mut watches = Watches::default();
    watches.set(WatchWish::Data, "/a");
    let absent = watches.ask(WatchWish::Existence, "/a");
    assert!(watches.registry.answer(absent, ErrorCode::NoNode));
    watches.set(WatchWish::Children, "/a");
    watches.set(WatchWish::Persistent, "/a");
    watches.set(WatchWish::PersistentRecursive, "/a");
    watches
}

#[test]
fn each_event_reaches_the_watches_apache_sorts_it_to() {
    for (kind, heard) in [
        (WatchEventKind::NodeCreated, vec![1, 2, 4, 5]),
        (WatchEventKind::NodeDataChanged, vec![1, 2, 4, 5]),
        (WatchEventKind::NodeDeleted, vec![1, 2, 3, 4, 5]),
        (WatchEventKind::NodeChildrenChanged, vec![3, 4]),
        (WatchEventKind::DataWatchRemoved, vec![]),
        (WatchEventKind::None, vec![]),
    ] {
        assert_eq!(one_of_each().fire(kind, "/a"), heard, "{kind:?}");
    }
}

#[test]
fn one_shot_watches_fire_once_and_persistent_ones_again() {
    let mut watches = one_of_each();
    watches.fire(WatchEventKind::NodeDeleted, "/a");
    assert_eq!(watches.fire(WatchEventKind::NodeDeleted, "/a"), [4, 5]);
    assert_eq!(watches.registry.len(), 2);
}

#[test]
fn a_recursive_watch_sees_everything_below_but_sets_of_children() {
    let mut watches = Watches::default();
    watches.set(WatchWish::PersistentRecursive, "/a");
    watches.set(WatchWish::PersistentRecursive, "/");
    assert_eq!(watches.fire(WatchEventKind::NodeCreated, "/a/b/c"), [1, 2]);
    assert_eq!(watches.fire(WatchEventKind::NodeDataChanged, "/"), [2]);
    assert_eq!(watches.fire(WatchEventKind::NodeCreated, "/ab"), [2]);
    assert_eq!(watches.fire(WatchEventKind::NodeChildrenChanged, "/a/b"), Vec::<u64>::new());
    watches.registry.forget(WatchId::new(2));
    assert_eq!(watches.fire(WatchEventKind::NodeDeleted, "/x"), Vec::<u64>::new());
}

#[test]
fn all_watches_on_a_path_see_its_event_in_the_order_of_asking() {
    let mut watches = Watches::default();
    for _ in 0..3 {
        watches.set(WatchWish::Data, "/a");
    }
    assert_eq!(watches.fire(WatchEventKind::NodeDeleted, "/a"), [1, 2, 3]);
    assert!(watches.registry.is_empty());
}

#[test]
fn a_watch_is_set_only_by_the_answers_that_set_it_at_the_server() {
    for (wish, answer, is_set) in [
        (WatchWish::Data, ErrorCode::NoNode, false),
        (WatchWish::Children, ErrorCode::NoNode, false),
        (WatchWish::Existence, ErrorCode::NoNode, true),
        (WatchWish::Existence, ErrorCode::NoAuth, false),
        (WatchWish::Persistent, ErrorCode::Unimplemented, false),
        (WatchWish::Data, ErrorCode::Ok, true),
    ] {
        let mut watches = Watches::default();
        let id = watches.ask(wish, "/a");
        assert_eq!(watches.fire(WatchEventKind::NodeDeleted, "/a"), Vec::<u64>::new(), "only asked for");
        assert_eq!(watches.registry.answer(id, answer), is_set, "{wish:?} {answer:?}");
        assert_eq!((watches.registry.is_set(id), watches.registry.len()), (is_set, usize::from(is_set)));
    }
}

#[test]
fn what_is_set_is_set_again_and_what_was_only_asked_for_is_not() {
    let mut watches = one_of_each();
    watches.ask(WatchWish::Data, "/asked");
    let a = || vec!["/a".to_owned()];
    let all =
        SetWatches { relative_zxid: 77, data: a(), exist: a(), child: a(), persistent: a(), persistent_recursive: a() };
    assert_eq!(watches.registry.restore(77, RESTORE_BYTES_MAX), [all]);
    assert_eq!(WatchRegistry::new().restore(77, RESTORE_BYTES_MAX), []);
}

#[test]
fn many_watches_are_set_again_in_requests_of_bounded_size() {
    let mut watches = Watches::default();
    let mut paths: Vec<_> = (0..5_000).map(|n| format!("/some/rather/long/path/to/a/lock/node-{n:010}")).collect();
    for path in &paths {
        watches.set(WatchWish::Data, path);
    }
    let long = format!("/{}", "x".repeat(RESTORE_BYTES_MAX));
    watches.set(WatchWish::Persistent, &long);
    let batches = watches.registry.restore(1, RESTORE_BYTES_MAX);
    let bytes = |batch: &SetWatches| {
        let paths = batch.data.iter().chain(&batch.persistent);
        paths.map(|path| path.len() + 4).sum::<usize>()
    };
    assert!(batches.len() > 2);
    assert!(batches.iter().all(|batch| bytes(batch) <= RESTORE_BYTES_MAX || batch.persistent.len() == 1));
    let mut restored: Vec<_> = batches.iter().flat_map(|batch| batch.data.clone()).collect();
    restored.sort();
    paths.sort();
    assert_eq!(restored, paths, "each once");
    assert_eq!(batches.last().unwrap().persistent, [long]);
}

#[test]
fn the_server_is_asked_to_remove_a_watch_only_when_no_other_could_be_hit() {
    let mut watches = Watches::default();
    let first = watches.set(WatchWish::Data, "/a");
    let second = watches.set(WatchWish::Data, "/a");
    let children = watches.set(WatchWish::Children, "/a");
    assert_eq!(watches.registry.forget(first), None, "the second lives on the same watch at the server");
    let asked = watches.ask(WatchWish::Data, "/a");
    assert_eq!(watches.registry.forget(second), None, "one that is being asked for would be hit");
    assert_eq!(watches.registry.forget(asked), None, "it is not known to be set");
    assert_eq!(watches.registry.forget(children), Some(("/a".into(), WatcherKind::Children)));
    assert_eq!(watches.registry.forget(children), None);

    let data = watches.set(WatchWish::Data, "/b");
    watches.set(WatchWish::Persistent, "/b");
    assert_eq!(watches.registry.forget(data), None, "an older server would take the persistent one along");
    let exist = watches.ask(WatchWish::Existence, "/c");
    watches.registry.answer(exist, ErrorCode::NoNode);
    watches.set(WatchWish::Children, "/c");
    assert_eq!(watches.registry.forget(exist), Some(("/c".into(), WatcherKind::Data)));
    let recursive = watches.set(WatchWish::PersistentRecursive, "/d");
    assert_eq!(watches.registry.forget(recursive), Some(("/d".into(), WatcherKind::Any)));
}

#[test]
fn watches_the_server_removed_are_gone() {
    let mut watches = one_of_each();
    let numbers = |ids: Vec<WatchId>| ids.into_iter().map(WatchId::number).collect::<Vec<_>>();
    assert_eq!(numbers(watches.registry.remove("/a", WatcherKind::Data)), [1, 2]);
    assert_eq!(numbers(watches.registry.remove("/a", WatcherKind::Any)), [3, 4, 5]);
    assert!(watches.registry.is_empty());
    assert_eq!(watches.fire(WatchEventKind::NodeDeleted, "/a/b"), Vec::<u64>::new());
}
