//! The script of the clients, made from a seed only, and the numbers that look random and repeat with it.

use bytes::Bytes;
use lockkeeper_zk_proto::message::{
    Acl, AddWatchMode, Auth, Create, CreateMode, MultiOperation, MultiReadOperation, Permissions, SetWatches,
    WatcherKind, ZkRequest,
};

/// How many clients there are besides the observer.
pub(crate) const CLIENTS: usize = 3;
/// After how many steps everything is deleted, so that most operations go on to find something to do.
const STEPS_PER_WIPE: usize = 120;

/// The steps of a run.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Requests sent at once.
    Send { client: usize, requests: Vec<ZkRequest> },
    /// A request with the given bytes.
    Raw { client: usize, code: i32, body: Vec<u8> },
    /// The connection is lost and the session resumed.
    Reattach { client: usize },
    /// The session is resumed while its old connection stands.
    Move { client: usize },
    /// The connection is lost and the session asked for with a wrong password, then with the right one.
    WrongPassword { client: usize },
    /// The session is closed and another begun.
    Reopen { client: usize },
    /// The session expires and another is begun.
    Expire { client: usize },
    /// All clients report what they have received.
    Barrier,
    /// Everything is deleted.
    Wipe,
}

impl Script {
    pub(crate) fn operations_count(&self) -> usize {
        let count = |step: &Step| match step {
            Step::Send { requests, .. } => requests.len(),
            Step::Barrier => 0,
            _ => 1,
        };
        self.steps.iter().map(count).sum()
    }
}

/// The script of a seed, with at least this many operations.
pub(crate) fn script(seed: u64, operations: usize) -> Script {
    let mut random = Random::new(seed);
    let mut script = Script { steps: Vec::new() };
    let mut sent = 0;
    while sent < operations {
        let client = random.below(CLIENTS);
        let step = match random.below(1000) {
            0..8 => Step::Reattach { client },
            8..14 => Step::Move { client },
            14..18 => Step::WrongPassword { client },
            18..26 => Step::Reopen { client },
            26..28 => Step::Expire { client },
            28..45 => raw(&mut random, client),
            _ => {
                let count = if random.percent(75) { 1 } else { 2 + random.below(4) };
                let requests = (0..count).map(|_| request(&mut random)).collect();
                Step::Send { client, requests }
            }
        };
        // The events of a session's end come to the clients in no particular order: it has a separate window.
        let is_end = matches!(step, Step::Reopen { .. } | Step::Expire { .. });
        if is_end {
            script.steps.push(Step::Barrier);
        }
        sent += if let Step::Send { requests, .. } = &step { requests.len() } else { 1 };
        script.steps.push(step);
        if is_end || random.percent(40) {
            script.steps.push(Step::Barrier);
        }
        if script.steps.len().is_multiple_of(STEPS_PER_WIPE) {
            script.steps.extend([Step::Barrier, Step::Wipe, Step::Barrier]);
        }
    }
    script.steps.push(Step::Barrier);
    script
}

fn request(random: &mut Random) -> ZkRequest {
    let watch = random.percent(40);
    match random.below(100) {
        0..12 => ZkRequest::Create2(create(random)),
        12..18 => ZkRequest::Create(create(random)),
        18..21 => ZkRequest::CreateContainer(create(random)),
        21..24 => ZkRequest::CreateTtl {
            create: Create {
                mode: random.pick(&[
                    CreateMode::PersistentWithTtl,
                    CreateMode::PersistentWithTtl,
                    CreateMode::PersistentSequentialWithTtl,
                ]),
                ..create(random)
            },
            ttl_ms: random.pick(&[1, 60_000, 3_600_000, (1 << 40) - 1, 1 << 40, 0, -1]),
        },
        24..36 => ZkRequest::Delete { path: path(random), version: version(random) },
        36..44 => ZkRequest::SetData { path: path(random), data: data(random), version: version(random) },
        44..51 => ZkRequest::GetData { path: path(random), watch },
        51..58 => ZkRequest::Exists { path: path(random), watch },
        58..61 => ZkRequest::GetChildren { path: path(random), watch },
        61..66 => ZkRequest::GetChildren2 { path: path(random), watch },
        66..68 => ZkRequest::GetAcl { path: path(random) },
        68..70 => ZkRequest::SetAcl { path: path(random), acl: acl(random), version: version(random) },
        70..80 => ZkRequest::Multi((0..random.below(5)).map(|_| multi_operation(random)).collect()),
        80..82 => ZkRequest::MultiRead((0..random.below(4)).map(|_| multi_read_operation(random)).collect()),
        82..83 => ZkRequest::Sync { path: path(random) },
        83..84 => ZkRequest::Ping,
        84..86 => ZkRequest::Auth(auth(random)),
        86..88 => ZkRequest::SetWatches(set_watches(random)),
        88..92 => ZkRequest::AddWatch {
            path: path(random),
            mode: random.pick(&[AddWatchMode::Persistent, AddWatchMode::PersistentRecursive]),
        },
        92..94 => ZkRequest::RemoveWatches { path: path(random), kind: watcher_kind(random) },
        94..96 => ZkRequest::CheckWatches { path: path(random), kind: watcher_kind(random) },
        96..97 => ZkRequest::GetEphemerals { prefix: random.pick(&["", "/", "/a", "/b/", "/nothing"]).to_owned() },
        97..99 => ZkRequest::GetAllChildrenNumber { path: path(random) },
        _ => ZkRequest::WhoAmI,
    }
}

/// A request that cannot be read, or that no server knows.
fn raw(random: &mut Random, client: usize) -> Step {
    let codes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 14, 15, 18, 21, 22, 101, 103, 104, 105, 106];
    let unknown = [-1, 0, 10, 23, 99, 108, 1_000, i32::MAX, i32::MIN];
    if random.percent(15) {
        let code = random.pick(&unknown);
        return Step::Raw { client, code, body: Vec::new() };
    }
    let body = match random.below(3) {
        0 => Vec::new(),
        1 => (0..random.below(12)).map(|_| random.next() as u8).collect(),
        _ => [&[0, 0, 0, 2], &b"/a"[..], &[0xff; 3]].concat(),
    };
    let code = random.pick(&codes);
    Step::Raw { client, code, body }
}

fn create(random: &mut Random) -> Create {
    let path = if random.percent(30) {
        format!("{}/s", random.pick(&["", "/a", "/b", "/a/b", "/none"]))
    } else {
        path(random)
    };
    Create {
        path,
        data: data(random),
        acl: acl(random),
        mode: random.pick(&[
            CreateMode::Persistent,
            CreateMode::Persistent,
            CreateMode::Persistent,
            CreateMode::Ephemeral,
            CreateMode::Ephemeral,
            CreateMode::EphemeralSequential,
            CreateMode::PersistentSequential,
            CreateMode::Container,
            CreateMode::PersistentWithTtl,
        ]),
    }
}

fn path(random: &mut Random) -> String {
    if random.percent(4) {
        let odd = [
            "",
            "/",
            "/zookeeper",
            "/zookeeper/quota",
            "/zookeeper/config",
            "/zookeeper/x",
            "a",
            "/a/",
            "//a",
            "/a//b",
            "/.",
            "/a/../b",
            "/a/\u{0}b",
            "/\u{1}",
            "/ü",
            "/a b",
            "/a/zookeeper",
            "//",
            "/a/.",
        ];
        return random.pick(&odd).to_owned();
    }
    if random.percent(10) {
        let parent = random.pick(&["", "/a", "/b", "/a/b"]);
        return format!("{parent}/s{:010}", random.below(12));
    }
    let names = ["/a", "/a", "/b", "/c"];
    (0..=random.below(3)).map(|_| random.pick(&names)).collect()
}

fn data(random: &mut Random) -> Option<Bytes> {
    match random.below(10) {
        0 => None,
        1 => Some(Bytes::new()),
        length => Some(vec![b'x'; length].into()),
    }
}

fn version(random: &mut Random) -> i32 {
    random.pick(&[-1, -1, -1, -1, 0, 0, 1, 2, -2, i32::MAX])
}

fn acl(random: &mut Random) -> Vec<Acl> {
    if random.percent(85) {
        return vec![Acl::open()];
    }
    let me = "me:bQmcvLpBHwXk8VgVjZQAwvjrc18=";
    let lists = [
        vec![],
        vec![Acl::readable()],
        vec![Acl::creator()],
        vec![Acl::open(), Acl::creator(), Acl::open()],
        vec![Acl::new(Permissions::ALL, "digest", me)],
        vec![Acl::new(Permissions::READ | Permissions::CREATE, "digest", me), Acl::readable()],
        vec![Acl::new(Permissions::ALL, "ip", "127.0.0.1")],
        vec![Acl::new(Permissions::ALL, "ip", "127.0.0.0/8")],
        vec![Acl::new(Permissions::ALL, "ip", "10.0.0.0/8"), Acl::readable()],
        vec![Acl::new(Permissions::ALL, "ip", "10.0.0.0/80")],
        vec![Acl::new(Permissions::ALL, "digest", "nohash")],
        vec![Acl::new(Permissions::ALL, "world", "everyone")],
        vec![Acl::new(Permissions::ALL, "foo", "bar")],
        vec![Acl::new(Permissions::WRITE | Permissions::ADMIN, "world", "anyone")],
        vec![Acl::new(Permissions::from_bits(0), "world", "anyone")],
        vec![Acl::new(Permissions::from_bits(-1), "world", "anyone")],
    ];
    random.pick(&lists)
}

fn multi_operation(random: &mut Random) -> MultiOperation {
    match random.below(12) {
        0..3 => MultiOperation::Create(create(random)),
        3 => MultiOperation::Create2(create(random)),
        4 => MultiOperation::CreateContainer(create(random)),
        5 => MultiOperation::CreateTtl {
            create: Create { mode: CreateMode::PersistentWithTtl, ..create(random) },
            ttl_ms: random.pick(&[1_000_000, 0]),
        },
        6..8 => MultiOperation::Delete { path: path(random), version: version(random) },
        8..10 => MultiOperation::SetData { path: path(random), data: data(random), version: version(random) },
        _ => MultiOperation::Check { path: path(random), version: version(random) },
    }
}

fn multi_read_operation(random: &mut Random) -> MultiReadOperation {
    let path = path(random);
    if random.percent(50) { MultiReadOperation::GetData { path } } else { MultiReadOperation::GetChildren { path } }
}

fn auth(random: &mut Random) -> Auth {
    let (scheme, credentials) = random.pick(&[
        ("digest", "me:secret"),
        ("digest", "me:secret"),
        ("digest", "you:secret"),
        ("digest", "super:admin"),
        ("digest", "super:wrong"),
        ("digest", "nobody"),
        ("ip", ""),
        ("world", "anyone"),
        ("foo", "bar"),
    ]);
    Auth { scheme: scheme.to_owned(), credentials: Bytes::from_static(credentials.as_bytes()) }
}

fn set_watches(random: &mut Random) -> SetWatches {
    let mut paths = || -> Vec<String> { (0..random.below(3)).map(|_| path(random)).collect() };
    let (data, exist, child, persistent, persistent_recursive) = (paths(), paths(), paths(), paths(), paths());
    let is_new = random.percent(50);
    SetWatches {
        // Counted from where the run began.
        relative_zxid: random.below(400) as i64,
        data,
        exist,
        child,
        persistent: if is_new { persistent } else { Vec::new() },
        persistent_recursive: if is_new { persistent_recursive } else { Vec::new() },
    }
}

fn watcher_kind(random: &mut Random) -> WatcherKind {
    random.pick(&[WatcherKind::Children, WatcherKind::Data, WatcherKind::Any])
}

/// SplitMix64: a counter, well mixed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Whether something happens that happens `percent` times of a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
