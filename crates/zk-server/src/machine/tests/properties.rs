//! Properties that hold for all behaviour of clients.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{
    Acl, AddWatchMode, Create, CreateMode, MultiOperation, MultiResult, ZkRequest, ZkResponse, encode_request,
};
use proptest::prelude::*;

use super::service::*;
use crate::machine::{Input, MachineSettings, Seed, ServerState};
use crate::record::{decode_state, decode_transaction, encode_state};

fn path() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::collection::vec("/[abc]", 1..4).prop_map(|names| names.concat()),
        1 => prop_oneof![Just("/".to_owned()), Just(String::new()), Just("/a/".to_owned()), Just("a".to_owned())],
    ]
}

fn mode() -> impl Strategy<Value = CreateMode> {
    prop::sample::select(CreateMode::ALL.to_vec())
}

fn new_node() -> impl Strategy<Value = Create> {
    (path(), mode(), prop::option::of(prop::collection::vec(any::<u8>(), 0..4))).prop_map(|(path, mode, data)| Create {
        path,
        data: data.map(Bytes::from),
        acl: vec![Acl::open()],
        mode,
    })
}

fn operation() -> impl Strategy<Value = MultiOperation> {
    prop_oneof![
        4 => new_node().prop_map(MultiOperation::Create),
        3 => path().prop_map(|path| MultiOperation::Delete { path, version: -1 }),
        2 => (path(), -1..2).prop_map(|(path, version)| MultiOperation::SetData { path, data: None, version }),
        1 => path().prop_map(|path| MultiOperation::Check { path, version: -1 }),
    ]
}

fn request() -> impl Strategy<Value = ZkRequest> {
    prop_oneof![
        4 => new_node().prop_map(ZkRequest::Create2),
        1 => new_node().prop_map(ZkRequest::CreateContainer),
        3 => path().prop_map(|path| ZkRequest::Delete { path, version: -1 }),
        2 => (path(), -1..2).prop_map(|(path, version)| ZkRequest::SetData { path, data: None, version }),
        1 => path().prop_map(|path| ZkRequest::SetAcl { path, acl: vec![Acl::readable(), Acl::open()], version: -1 }),
        3 => prop::collection::vec(operation(), 0..5).prop_map(ZkRequest::Multi),
        1 => path().prop_map(|path| ZkRequest::Exists { path, watch: true }),
        1 => path().prop_map(|path| ZkRequest::AddWatch { path, mode: AddWatchMode::PersistentRecursive }),
    ]
}

/// What a client does.
#[derive(Clone, Debug)]
enum Deed {
    Ask(usize, ZkRequest),
    Expire(usize),
    Resume(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        20 => (0..2_usize, request()).prop_map(|(peer, request)| Deed::Ask(peer, request)),
        1 => (0..2_usize).prop_map(Deed::Expire),
        1 => (0..2_usize).prop_map(Deed::Resume),
    ]
}

/// Does deeds on a new service.
fn service_after(deeds: Vec<Deed>) -> Service {
    let mut service = Service::new();
    let mut peers = [service.connect(), service.connect()];
    for deed in deeds {
        match deed {
            Deed::Ask(peer, request) => {
                let bytes = encode_request(5, &request, FRAME_BYTES_MAX).unwrap();
                service.bytes(peers[peer].connection, &bytes);
            }
            Deed::Expire(peer) => {
                service.handle(Input::Expire { session_id: peers[peer].session_id });
                peers[peer] = service.connect();
            }
            Deed::Resume(peer) => peers[peer] = service.resume(&peers[peer].clone()).unwrap(),
        }
    }
    service
}

fn first_state(service: &Service) -> ServerState {
    let settings = MachineSettings::default();
    ServerState::new(settings.tick, Seed { secret: [3; 32], wall_ms: service.moment.wall_ms })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_records_done_again_give_the_same_state(deeds in prop::collection::vec(deed(), 0..60)) {
        let service = service_after(deeds);
        let mut state = first_state(&service);
        for record in &service.records {
            let transaction = decode_transaction(record.clone(), &mut state.tree).unwrap();
            state.replay(&transaction).unwrap();
        }
        // Failed writes take numbers and leave no record.
        state.zxid = service.machine.zxid();
        prop_assert_eq!(encode_state(&state), encode_state(service.machine.state()));
    }

    #[test]
    fn a_snapshot_gives_the_state_back(deeds in prop::collection::vec(deed(), 0..40)) {
        let service = service_after(deeds);
        let written = encode_state(service.machine.state());
        let read = decode_state(written.clone(), MachineSettings::default().tick).unwrap();
        prop_assert_eq!(encode_state(&read), written);
        prop_assert_eq!(read.tree.data_bytes(), service.machine.state().tree.data_bytes());
    }

    #[test]
    fn a_transaction_that_fails_leaves_everything_as_it_was(
        deeds in prop::collection::vec(deed(), 0..30),
        operations in prop::collection::vec(operation(), 1..8),
    ) {
        let mut service = service_after(deeds);
        let peer = service.connect();
        let before = encode_state(service.machine.state());
        let bytes_before = service.machine.state().tree.data_bytes();
        let answer = service.ask(&peer, ZkRequest::Multi(operations));
        let has_failed = match &answer {
            Ok(ZkResponse::Multi(results)) => results.iter().any(|one| matches!(one, MultiResult::Error(_))),
            _ => true,
        };
        if has_failed {
            service.machine.state.zxid -= 1;
            prop_assert_eq!(encode_state(service.machine.state()), before);
            prop_assert_eq!(service.machine.state().tree.data_bytes(), bytes_before);
        }
    }
}
