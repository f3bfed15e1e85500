//! Watches: which client sees which event, and when in the order of events and answers.

use lockkeeper_zk_proto::message::{
    Acl, AddWatchMode, Create, CreateMode, ErrorCode, Permissions, SetWatches, WatchEventKind, WatcherKind, ZkRequest,
    encode_request,
};

use super::service::*;

#[test]
fn an_event_comes_before_the_answer_to_a_later_read() {
    let mut service = Service::new();
    let (watcher, writer) = (service.connect(), service.connect());
    service.ask(&watcher, exists("/a", true)).unwrap_err();
    service.ask(&writer, create("/a")).unwrap();
    let read = encode_request(9, &exists("/a", false), FRAME_BYTES_MAX).unwrap();
    service.bytes(watcher.connection, &read);
    let xids: Vec<_> = std::iter::from_fn(|| service.frame(watcher.connection))
        .map(|frame| i32::from_be_bytes(*frame.first_chunk().unwrap()))
        .collect();
    assert_eq!(xids, [-1, 9]);
}

#[test]
fn missed_events_are_told_when_watches_are_set_again() {
    let mut service = Service::new();
    let (first, writer) = (service.connect(), service.connect());
    for path in ["/data", "/gone", "/parent", "/calm"] {
        service.ask(&writer, create(path)).unwrap();
    }
    let seen = service.machine.zxid();
    service.ask(&writer, delete("/gone")).unwrap();
    service.ask(&writer, create("/parent/child")).unwrap();
    service.ask(&writer, create("/new")).unwrap();
    service.ask(&writer, ZkRequest::SetData { path: "/data".into(), data: None, version: -1 }).unwrap();
    let again = service.resume(&first).unwrap();
    let wishes = SetWatches {
        relative_zxid: seen,
        data: vec!["/data".into(), "/gone".into(), "/calm".into()],
        exist: vec!["/new".into(), "/later".into()],
        child: vec!["/parent".into(), "/gone".into()],
        ..SetWatches::default()
    };
    service.bytes(again.connection, &encode_request(-8, &ZkRequest::SetWatches(wishes), FRAME_BYTES_MAX).unwrap());
    let mut frames: Vec<_> = std::iter::from_fn(|| service.frame(again.connection)).collect();
    let answer = frames.pop().unwrap();
    assert_eq!(answer[..4], (-8_i32).to_be_bytes(), "the answer comes behind what was missed");
    assert_eq!(frames.len(), 5);
    // What did not change is watched again.
    service.ask(&writer, delete("/calm")).unwrap();
    service.ask(&writer, create("/later")).unwrap();
    assert_eq!(
        service.events(&again),
        [(WatchEventKind::NodeDeleted, "/calm".into()), (WatchEventKind::NodeCreated, "/later".into())]
    );
}

#[test]
fn persistent_watches_stay_until_they_are_removed() {
    let mut service = Service::new();
    let peer = service.connect();
    let add = ZkRequest::AddWatch { path: "/a".into(), mode: AddWatchMode::Persistent };
    service.ask(&peer, add).unwrap();
    let other = service.connect();
    for _ in 0..3 {
        service.ask(&other, create("/a")).unwrap();
        service.ask(&other, create("/a/b")).unwrap();
        service.ask(&other, delete("/a/b")).unwrap();
        service.ask(&other, delete("/a")).unwrap();
    }
    let kinds: Vec<_> = service.events(&peer).into_iter().map(|(kind, _)| kind).collect();
    let round = [
        WatchEventKind::NodeCreated,
        WatchEventKind::NodeChildrenChanged,
        WatchEventKind::NodeChildrenChanged,
        WatchEventKind::NodeDeleted,
    ];
    assert_eq!(kinds, round.repeat(3));
    let remove = ZkRequest::RemoveWatches { path: "/a".into(), kind: WatcherKind::Any };
    service.ask(&peer, remove.clone()).unwrap();
    assert_eq!(service.ask(&peer, remove), Err(ErrorCode::NoWatcher));
    service.ask(&other, create("/a")).unwrap();
    assert_eq!(service.events(&peer), []);
}

#[test]
fn a_client_that_may_not_read_a_node_gets_no_event_of_it() {
    let mut service = Service::new();
    let (peer, writer) = (service.connect(), service.connect());
    service.ask(&peer, exists("/secret", true)).unwrap_err();
    let secret =
        Create { acl: vec![Acl::new(Permissions::ALL, "ip", "10.0.0.1")], ..node("/secret", CreateMode::Persistent) };
    service.ask(&writer, ZkRequest::Create(secret)).unwrap();
    assert_eq!(service.events(&peer), []);
    assert_eq!(service.machine.watches_count(), 0);
}

#[test]
fn a_read_that_fails_sets_no_watch_but_exists_does() {
    let mut service = Service::new();
    let peer = service.connect();
    let get = ZkRequest::GetData { path: "/a".into(), watch: true };
    service.ask(&peer, get).unwrap_err();
    assert_eq!(service.machine.watches_count(), 0);
    service.ask(&peer, exists("/a", true)).unwrap_err();
    assert_eq!(service.machine.watches_count(), 1);
}
