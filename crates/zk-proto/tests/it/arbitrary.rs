//! Any message of each kind, for property tests.

use bytes::Bytes;
use lockkeeper_zk_proto::message::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) fn data() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..40).prop_map(Bytes::from))
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "/[a-z]{0,8}", any::<String>()]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..5)
}

pub(crate) fn acls() -> impl Strategy<Value = Vec<Acl>> {
    vec((any::<i32>(), text(), text()), 0..4)
        .prop_map(|list| list.into_iter().map(|(p, s, i)| Acl::new(Permissions::from_bits(p), s, i)).collect())
}

pub(crate) fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 6]>(), any::<[i32; 5]>()).prop_map(|(l, i)| Stat {
        czxid: l[0],
        mzxid: l[1],
        ctime: l[2],
        mtime: l[3],
        version: i[0],
        cversion: i[1],
        aversion: i[2],
        ephemeral_owner: l[4],
        data_length: i[3],
        num_children: i[4],
        pzxid: l[5],
    })
}

fn create() -> impl Strategy<Value = Create> {
    (text(), data(), acls(), prop::sample::select(CreateMode::ALL.to_vec()))
        .prop_map(|(path, data, acl, mode)| Create { path, data, acl, mode })
}

fn multi_operation() -> impl Strategy<Value = MultiOperation> {
    prop_oneof![
        create().prop_map(MultiOperation::Create),
        create().prop_map(MultiOperation::Create2),
        create().prop_map(MultiOperation::CreateContainer),
        (create(), any::<i64>()).prop_map(|(create, ttl_ms)| MultiOperation::CreateTtl { create, ttl_ms }),
        (text(), any::<i32>()).prop_map(|(path, version)| MultiOperation::Delete { path, version }),
        (text(), data(), any::<i32>()).prop_map(|(path, data, version)| MultiOperation::SetData {
            path,
            data,
            version
        }),
        (text(), any::<i32>()).prop_map(|(path, version)| MultiOperation::Check { path, version }),
    ]
}

fn multi_read_operation() -> impl Strategy<Value = MultiReadOperation> {
    prop_oneof![
        text().prop_map(|path| MultiReadOperation::GetData { path }),
        text().prop_map(|path| MultiReadOperation::GetChildren { path }),
    ]
}

pub(crate) fn error() -> impl Strategy<Value = ErrorCode> {
    any::<i32>().prop_map(ErrorCode::from_code)
}

fn multi_result() -> impl Strategy<Value = MultiResult> {
    prop_oneof![
        text().prop_map(|path| MultiResult::Create { path }),
        (text(), stat()).prop_map(|(path, stat)| MultiResult::Create2 { path, stat }),
        Just(MultiResult::Delete),
        stat().prop_map(|stat| MultiResult::SetData { stat }),
        Just(MultiResult::Check),
        texts().prop_map(|children| MultiResult::GetChildren { children }),
        (data(), stat()).prop_map(|(data, stat)| MultiResult::GetData { data, stat }),
        error().prop_map(MultiResult::Error),
    ]
}

fn watcher_kind() -> impl Strategy<Value = WatcherKind> {
    use WatcherKind::*;
    prop::sample::select(vec![Children, Data, Any, Persistent, PersistentRecursive])
}

fn set_watches() -> impl Strategy<Value = SetWatches> {
    (any::<i64>(), texts(), texts(), texts(), texts(), texts()).prop_map(
        |(relative_zxid, data, exist, child, persistent, persistent_recursive)| SetWatches {
            relative_zxid,
            data,
            exist,
            child,
            persistent,
            persistent_recursive,
        },
    )
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    let node = prop_oneof![
        create().prop_map(Request::Create),
        create().prop_map(Request::Create2),
        create().prop_map(Request::CreateContainer),
        (create(), any::<i64>()).prop_map(|(create, ttl_ms)| Request::CreateTtl { create, ttl_ms }),
        (text(), any::<i32>()).prop_map(|(path, version)| Request::Delete { path, version }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::Exists { path, watch }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetData { path, watch }),
        (text(), data(), any::<i32>()).prop_map(|(path, data, version)| Request::SetData { path, data, version }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren { path, watch }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren2 { path, watch }),
    ];
    let service = prop_oneof![
        text().prop_map(|path| Request::GetAcl { path }),
        (text(), acls(), any::<i32>()).prop_map(|(path, acl, version)| Request::SetAcl { path, acl, version }),
        vec(multi_operation(), 0..4).prop_map(Request::Multi),
        vec(multi_read_operation(), 0..4).prop_map(Request::MultiRead),
        text().prop_map(|path| Request::Sync { path }),
        Just(Request::Ping),
        Just(Request::WhoAmI),
        Just(Request::CloseSession),
        text().prop_map(|prefix| Request::GetEphemerals { prefix }),
        text().prop_map(|path| Request::GetAllChildrenNumber { path }),
    ];
    let watch = prop_oneof![
        (text(), vec(any::<u8>(), 0..9))
            .prop_map(|(scheme, credentials)| Request::Auth(Auth { scheme, credentials: credentials.into() })),
        set_watches().prop_map(Request::SetWatches),
        (text(), prop::sample::select(vec![AddWatchMode::Persistent, AddWatchMode::PersistentRecursive]))
            .prop_map(|(path, mode)| Request::AddWatch { path, mode }),
        (text(), watcher_kind()).prop_map(|(path, kind)| Request::RemoveWatches { path, kind }),
        (text(), watcher_kind()).prop_map(|(path, kind)| Request::CheckWatches { path, kind }),
    ];
    prop_oneof![2 => node, 2 => service, 1 => watch]
}

/// A reply with an operation it can answer.
pub(crate) fn response() -> impl Strategy<Value = (OpCode, Response)> {
    let done = prop::sample::select(vec![
        OpCode::Delete,
        OpCode::Ping,
        OpCode::Auth,
        OpCode::SetWatches,
        OpCode::SetWatches2,
        OpCode::RemoveWatches,
        OpCode::CheckWatches,
        OpCode::CloseSession,
    ]);
    let node = prop_oneof![
        done.prop_map(|opcode| (opcode, Response::Done)),
        text().prop_map(|path| (OpCode::Create, Response::Create { path })),
        (prop::sample::select(vec![OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl]), text(), stat())
            .prop_map(|(opcode, path, stat)| (opcode, Response::Create2 { path, stat })),
        (prop::sample::select(vec![OpCode::Exists, OpCode::SetData, OpCode::SetAcl]), stat())
            .prop_map(|(opcode, stat)| (opcode, Response::Stat(stat))),
        (data(), stat()).prop_map(|(data, stat)| (OpCode::GetData, Response::GetData { data, stat })),
        texts().prop_map(|children| (OpCode::GetChildren, Response::GetChildren { children })),
        (texts(), stat())
            .prop_map(|(children, stat)| (OpCode::GetChildren2, Response::GetChildren2 { children, stat })),
    ];
    let service = prop_oneof![
        (acls(), stat()).prop_map(|(acl, stat)| (OpCode::GetAcl, Response::GetAcl { acl, stat })),
        (prop::sample::select(vec![OpCode::Multi, OpCode::MultiRead]), vec(multi_result(), 0..4))
            .prop_map(|(opcode, results)| (opcode, Response::Multi(results))),
        text().prop_map(|path| (OpCode::Sync, Response::Sync { path })),
        Just((OpCode::AddWatch, Response::AddWatch)),
        texts().prop_map(|ephemerals| (OpCode::GetEphemerals, Response::GetEphemerals { ephemerals })),
        any::<i32>().prop_map(|total| (OpCode::GetAllChildrenNumber, Response::GetAllChildrenNumber { total })),
        vec((text(), text()), 0..4).prop_map(|infos| {
            let infos = infos.into_iter().map(|(scheme, user)| ClientInfo { scheme, user }).collect();
            (OpCode::WhoAmI, Response::WhoAmI(infos))
        }),
    ];
    prop_oneof![node, service]
}

pub(crate) fn event() -> impl Strategy<Value = WatcherEvent> {
    (-1..8_i32, -1..8_i32, text()).prop_filter_map("a number without a meaning", |(kind, state, path)| {
        let state = KeeperState::from_code(if state == 2 { -112 } else { state })?;
        Some(WatcherEvent { kind: EventKind::from_code(kind)?, state, path })
    })
}

fn read_only_flag() -> impl Strategy<Value = ReadOnlyFlag> {
    prop::sample::select(vec![ReadOnlyFlag::Absent, ReadOnlyFlag::No, ReadOnlyFlag::Yes])
}

pub(crate) fn connect_request() -> impl Strategy<Value = ConnectRequest> {
    (any::<i32>(), any::<i64>(), any::<i32>(), any::<i64>(), data(), read_only_flag()).prop_map(
        |(protocol_version, last_zxid_seen, timeout_ms, session_id, password, read_only)| ConnectRequest {
            protocol_version,
            last_zxid_seen,
            timeout_ms,
            session_id,
            password,
            read_only,
        },
    )
}

pub(crate) fn connect_response() -> impl Strategy<Value = ConnectResponse> {
    (any::<i32>(), any::<i32>(), any::<i64>(), data(), read_only_flag()).prop_map(
        |(protocol_version, timeout_ms, session_id, password, read_only)| ConnectResponse {
            protocol_version,
            timeout_ms,
            session_id,
            password,
            read_only,
        },
    )
}
