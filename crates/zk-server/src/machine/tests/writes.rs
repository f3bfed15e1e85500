//! Changes: versions, counts, transactions, and nodes the service deletes by itself.

use std::time::Duration;

use lockkeeper_zk_proto::message::{
    Acl, Create, CreateMode, ErrorCode, MultiOperation, MultiResult, Permissions, Stat, ZkRequest, ZkResponse,
};
use tokio::time::Instant;

use super::service::*;
use crate::machine::{MachineSettings, MemoryLimits};
use crate::tree::NodeRecord;

fn stat(service: &mut Service, peer: &Peer, path: &str) -> Stat {
    match service.ask(peer, exists(path, false)) {
        Ok(ZkResponse::Stat(stat)) => stat,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_service_has_the_nodes_of_apache() {
    let mut service = Service::new();
    let peer = service.connect();
    let root = stat(&mut service, &peer, "/");
    assert_eq!((root.cversion, root.num_children, root.czxid), (-1, 1, 0));
    let config = stat(&mut service, &peer, "/zookeeper/config");
    assert_eq!((config.aversion, config.cversion), (-1, 0));
    let count = service.ask(&peer, ZkRequest::GetAllChildrenNumber { path: "/".into() });
    assert_eq!(count, Ok(ZkResponse::GetAllChildrenNumber { total: 3 }));
    assert_eq!(service.ask(&peer, delete("/zookeeper/quota")), Err(ErrorCode::BadArguments));
}

#[test]
fn sequence_numbers_count_creations_and_cversion_counts_both() {
    let mut service = Service::new();
    let peer = service.connect();
    service.ask(&peer, create("/q")).unwrap();
    for number in 0..3 {
        let sequential = ZkRequest::Create(node("/q/n-", CreateMode::PersistentSequential));
        let path = format!("/q/n-{number:010}");
        assert_eq!(service.ask(&peer, sequential), Ok(ZkResponse::Create { path: path.clone() }));
        service.ask(&peer, delete(&path)).unwrap();
    }
    let queue = stat(&mut service, &peer, "/q");
    assert_eq!((queue.cversion, queue.num_children), (6, 0));
    assert_eq!(queue.pzxid, service.machine.zxid());
}

#[test]
fn a_failed_write_takes_a_number_and_leaves_no_record() {
    let mut service = Service::new();
    let peer = service.connect();
    let (zxid, records) = (service.machine.zxid(), service.records.len());
    let (header, answer) = service.ask_seen(&peer, delete("/none"));
    assert_eq!((answer, header.zxid), (Err(ErrorCode::NoNode), zxid + 1));
    assert_eq!(service.records.len(), records);
}

#[test]
fn a_transaction_of_checks_is_a_transaction_and_changes_nothing() {
    let mut service = Service::new();
    let peer = service.connect();
    service.ask(&peer, create_ephemeral("/mine")).unwrap();
    let zxid = service.machine.zxid();
    let check = |path: &str| MultiOperation::Check { path: path.into(), version: -1 };
    let (header, answer) = service.ask_seen(&peer, ZkRequest::Multi(vec![check("/mine")]));
    assert_eq!(answer, Ok(ZkResponse::Multi(vec![MultiResult::Check])));
    assert_eq!(header.zxid, zxid + 1);
    let answer = service.ask(&peer, ZkRequest::Multi(vec![check("/mine"), check("/no"), check("/nor")]));
    let results = [ErrorCode::Ok, ErrorCode::NoNode, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    assert_eq!(answer, Ok(ZkResponse::Multi(results.to_vec())));
}

#[test]
fn operations_of_a_transaction_see_one_another_and_share_its_number() {
    let mut service = Service::new();
    let peer = service.connect();
    let zxid = service.machine.zxid();
    let operations = vec![
        MultiOperation::Create(node("/a", CreateMode::Persistent)),
        MultiOperation::Create(node("/a/b", CreateMode::Persistent)),
        MultiOperation::SetData { path: "/a/b".into(), data: None, version: 0 },
    ];
    service.ask(&peer, ZkRequest::Multi(operations)).unwrap();
    let child = stat(&mut service, &peer, "/a/b");
    assert_eq!((child.czxid, child.mzxid, child.version), (zxid + 1, zxid + 1, 1));
    assert_eq!(stat(&mut service, &peer, "/a").pzxid, zxid + 1);
}

#[test]
fn containers_go_after_their_last_child_and_nodes_with_a_time_to_live_when_it_is_over() {
    let mut service =
        Service::with(MachineSettings { container_check: Duration::from_secs(5), ..MachineSettings::default() });
    let peer = service.connect();
    service.ask(&peer, ZkRequest::CreateContainer(node("/used", CreateMode::Container))).unwrap();
    service.ask(&peer, ZkRequest::CreateContainer(node("/new", CreateMode::Container))).unwrap();
    let ttl = ZkRequest::CreateTtl { create: node("/ttl", CreateMode::PersistentWithTtl), ttl_ms: 7_000 };
    service.ask(&peer, ttl).unwrap();
    service.ask(&peer, create("/used/child")).unwrap();
    assert_eq!(stat(&mut service, &peer, "/ttl").ephemeral_owner, 0);
    service.pass(Duration::from_secs(6));
    assert!(service.exists(&peer, "/used") && service.exists(&peer, "/ttl"));
    service.ask(&peer, delete("/used/child")).unwrap();
    service.pass(Duration::from_secs(5));
    assert!(!service.exists(&peer, "/used") && !service.exists(&peer, "/ttl"));
    assert!(service.exists(&peer, "/new"), "a container that never had a child is kept");
}

#[test]
fn nothing_grows_beyond_the_limit_on_memory_but_deleting_goes_on() {
    let mut service = Service::with(MachineSettings {
        limits: MemoryLimits::default().with_tree_bytes_max(20_000),
        ..MachineSettings::default()
    });
    let peer = service.connect();
    let mut count = 0;
    let refused = loop {
        match service.ask(&peer, create(&format!("/n{count}"))) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 1_000);
    };
    assert_eq!(refused, ErrorCode::QuotaExceeded);
    service.ask(&peer, delete("/n0")).unwrap();
    service.ask(&peer, create("/n0")).unwrap();
}

#[test]
fn while_nothing_can_be_stored_reads_go_on_and_writes_are_refused() {
    let mut service = Service::new();
    let peer = service.connect();
    let word = |service: &mut Service, word: &str| {
        let connection = service.accept();
        service.bytes(connection, word.as_bytes());
        service.text(connection)
    };
    assert_eq!(word(&mut service, "ruok"), "imok");
    assert!(word(&mut service, "mntr").contains("zk_writes_refused\t0\n"));
    service.machine.set_refuses_writes(true);
    assert!(word(&mut service, "ruok").starts_with("writes are refused"));
    assert!(word(&mut service, "mntr").contains("zk_writes_refused\t1\n"));
    assert_eq!(service.ask(&peer, create("/a")), Err(ErrorCode::SystemError));
    service.ask(&peer, exists("/", false)).unwrap();
    assert!(service.resume(&peer).is_some(), "a session can be resumed: nothing is stored for it");
    let (_, response) = service.shake_hands(&new_session());
    assert_eq!(response, None);
    service.pass(TIMEOUT * 2);
    assert_eq!(service.machine.session_ids().len(), 1, "an end that cannot be stored waits");
    service.machine.set_refuses_writes(false);
    service.pass(TIMEOUT);
    assert_eq!(service.machine.session_ids(), Vec::<i64>::new());
}

#[test]
fn the_count_of_children_stands_still_at_its_largest() {
    let mut service = Service::new();
    let peer = service.connect();
    service.ask(&peer, create("/q")).unwrap();
    let queue = service.machine.state.tree.get("/q").unwrap().clone();
    let record = NodeRecord { children_created: i32::MAX - 1, ..queue.record };
    service.machine.state.tree.restore("/q".into(), None, queue.access, record);
    let names: Vec<_> = ["a-", "b-", "c-"]
        .iter()
        .map(|name| {
            let path = format!("/q/{name}");
            match service.ask(&peer, ZkRequest::Create(node(&path, CreateMode::PersistentSequential))) {
                Ok(ZkResponse::Create { path }) => path,
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(names, ["/q/a-2147483646", "/q/b-2147483647", "/q/c-2147483647"]);
    let again = service.ask(&peer, ZkRequest::Create(node("/q/c-", CreateMode::PersistentSequential)));
    assert_eq!(again, Err(ErrorCode::NodeExists));
}

/// The same entries in few long lists or in many short ones: only work that grows with a list's square tells them
/// apart.
#[test]
fn a_refused_transaction_of_long_access_lists_takes_as_long_as_one_of_short_ones() {
    const ENTRIES: usize = 32_768;
    let mut service = Service::new();
    let peer = service.connect();
    let mut took = |length: usize| {
        let entry = |number: usize| Acl::new(Permissions::ALL, "ip", format!("10.{}.{}.1", number / 256, number % 256));
        let create = |at: usize| {
            let acl = (0..length).map(|number| entry(at * length + number)).collect();
            MultiOperation::Create(Create { acl, ..node(&format!("/n{at}"), CreateMode::Persistent) })
        };
        let refused = MultiOperation::Check { path: "/missing".into(), version: -1 };
        let operations = (0..ENTRIES / length).map(create).chain([refused]).collect();
        let request = ZkRequest::Multi(operations);
        let measure = || {
            let start = Instant::now();
            assert!(matches!(service.ask(&peer, request.clone()), Ok(ZkResponse::Multi(_))));
            start.elapsed()
        };
        // The quickest of some: other programs only make it slower.
        std::iter::repeat_with(measure).take(5).min().unwrap()
    };
    let (short, long) = (took(64), took(4_096));
    assert!(long < short * 4, "{long:?} for lists of 4,096 entries, {short:?} for lists of 64");
}
