//! Messages of every kind: empty and null, short and long, and texts of more bytes than characters.

use bytes::Bytes;
use lockkeeper_zk_proto::message::*;

const PATHS: [&str; 3] = ["", "/a", "/häuser/日本"];

pub(crate) const STAT: Stat = Stat {
    czxid: 1,
    mzxid: -2,
    ctime: i64::MAX,
    mtime: 4,
    version: 5,
    cversion: -6,
    aversion: i32::MIN,
    ephemeral_owner: 8,
    data_length: 9,
    num_children: 10,
    pzxid: 11,
};

fn data() -> [Option<Bytes>; 3] {
    [None, Some(Bytes::new()), Some(Bytes::from_static(&[0, 0xff, 7]))]
}

fn texts() -> Vec<String> {
    PATHS.map(str::to_owned).into()
}

fn acl() -> Vec<Acl> {
    vec![Acl::open(), Acl::new(Permissions::from_bits(i32::MIN), "", "é")]
}

/// A node of each mode, with another path and other data.
fn creates() -> impl Iterator<Item = Create> {
    let rest = PATHS.into_iter().zip(data()).cycle();
    CreateMode::ALL.into_iter().zip(rest).map(|(mode, (path, data))| {
        let acl = if data.is_some() { acl() } else { Vec::new() };
        Create { path: path.into(), data, acl, mode }
    })
}

fn operations() -> Vec<MultiOperation> {
    use MultiOperation::*;
    let mut all = Vec::new();
    for create in creates() {
        let ttl_ms = i64::MIN;
        all.extend([Create(create.clone()), Create2(create.clone()), CreateContainer(create.clone())]);
        all.push(CreateTtl { create, ttl_ms });
    }
    for (path, data) in texts().into_iter().zip(data()) {
        all.push(SetData { path: path.clone(), data, version: 3 });
        all.extend([Delete { path: path.clone(), version: -1 }, Check { path, version: i32::MAX }]);
    }
    all
}

pub(crate) fn requests() -> Vec<ZkRequest> {
    use ZkRequest::*;
    let mut all = vec![Ping, WhoAmI, CloseSession, Multi(Vec::new()), Multi(operations()), MultiRead(Vec::new())];
    for create in creates() {
        all.extend([Create(create.clone()), Create2(create.clone()), CreateContainer(create.clone())]);
        all.push(CreateTtl { create, ttl_ms: 1 });
    }
    for (path, data) in texts().into_iter().zip(data()) {
        let path = || path.clone();
        for watch in [false, true] {
            all.extend([Exists { path: path(), watch }, GetData { path: path(), watch }]);
            all.extend([GetChildren { path: path(), watch }, GetChildren2 { path: path(), watch }]);
        }
        let reads = [MultiReadOperation::GetData { path: path() }, MultiReadOperation::GetChildren { path: path() }];
        all.extend([MultiRead(reads.into()), Sync { path: path() }, GetAcl { path: path() }]);
        all.extend([Delete { path: path(), version: -1 }, SetAcl { path: path(), acl: acl(), version: 7 }]);
        all.extend([GetEphemerals { prefix: path() }, GetAllChildrenNumber { path: path() }]);
        all.push(Auth(lockkeeper_zk_proto::message::Auth {
            scheme: path(),
            credentials: data.clone().unwrap_or_default(),
        }));
        all.push(SetData { path: path(), data, version: i32::MIN });
        for mode in [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive] {
            all.push(AddWatch { path: path(), mode });
        }
        for code in 1..=5 {
            let kinds = [WatcherKind::Children, WatcherKind::Data, WatcherKind::Any];
            let newer = [WatcherKind::Persistent, WatcherKind::PersistentRecursive];
            let kind = kinds.into_iter().chain(newer).find(|kind| kind.code() == code).unwrap();
            all.extend([RemoveWatches { path: path(), kind }, CheckWatches { path: path(), kind }]);
        }
    }
    let watches = lockkeeper_zk_proto::message::SetWatches { relative_zxid: -5, data: texts(), ..Default::default() };
    let newer = lockkeeper_zk_proto::message::SetWatches { exist: texts(), persistent: texts(), ..watches.clone() };
    all.extend([SetWatches(watches), SetWatches(newer)]);
    all
}

pub(crate) fn responses() -> Vec<(OpCode, ZkResponse)> {
    use ZkResponse::*;
    let (path, stat) = ("/häuser/日本".to_owned(), STAT);
    let results = vec![
        MultiResult::Create { path: path.clone() },
        MultiResult::Create2 { path: path.clone(), stat },
        MultiResult::Delete,
        MultiResult::SetData { stat },
        MultiResult::Check,
        MultiResult::GetChildren { children: texts() },
        MultiResult::GetData { data: None, stat },
        MultiResult::Error(ErrorCode::NoNode),
        MultiResult::Error(ErrorCode::Other(-126)),
    ];
    let info = |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    let done = [OpCode::Delete, OpCode::Ping, OpCode::Auth, OpCode::SetWatches, OpCode::SetWatches2];
    let mut all: Vec<_> = done.map(|opcode| (opcode, Done)).into();
    all.extend([OpCode::RemoveWatches, OpCode::CheckWatches, OpCode::CloseSession].map(|opcode| (opcode, Done)));
    all.extend([OpCode::Exists, OpCode::SetData, OpCode::SetAcl].map(|opcode| (opcode, Stat(stat))));
    for opcode in [OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl] {
        all.push((opcode, Create2 { path: path.clone(), stat }));
    }
    all.extend(data().map(|data| (OpCode::GetData, GetData { data, stat })));
    for children in [Vec::new(), texts()] {
        all.push((OpCode::GetChildren, GetChildren { children: children.clone() }));
        all.push((OpCode::GetEphemerals, GetEphemerals { ephemerals: children.clone() }));
        all.push((OpCode::GetChildren2, GetChildren2 { children, stat }));
    }
    all.extend([
        (OpCode::Create, Create { path: path.clone() }),
        (OpCode::GetAcl, GetAcl { acl: acl(), stat }),
        (OpCode::Multi, Multi(Vec::new())),
        (OpCode::Multi, Multi(results.clone())),
        (OpCode::MultiRead, Multi(results)),
        (OpCode::Sync, Sync { path }),
        (OpCode::AddWatch, AddWatch),
        (OpCode::GetAllChildrenNumber, GetAllChildrenNumber { total: i32::MIN }),
        (OpCode::WhoAmI, WhoAmI(vec![info("", ""), info("digest", "é")])),
    ]);
    all
}

pub(crate) fn events() -> Vec<WatcherEvent> {
    let kinds = (-1..8).filter_map(WatchEventKind::from_code);
    kinds.flat_map(|kind| PATHS.map(|path| WatcherEvent::new(kind, path))).collect()
}

pub(crate) fn handshakes() -> Vec<(ConnectRequest, ConnectResponse)> {
    let flags = [ReadOnlyFlag::Absent, ReadOnlyFlag::No, ReadOnlyFlag::Yes];
    let of_form = |(read_only, password): (ReadOnlyFlag, Option<Bytes>)| {
        let (protocol_version, timeout_ms, session_id) = (0, 20_000, i64::MIN);
        let request = ConnectRequest {
            protocol_version,
            last_zxid_seen: 3,
            timeout_ms,
            session_id,
            password: password.clone(),
            read_only,
        };
        (request, ConnectResponse { protocol_version, timeout_ms, session_id, password, read_only })
    };
    flags.into_iter().zip(data()).map(of_form).collect()
}
