//! One peer that would take the server's memory, connections or time, and what other clients notice of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::clock::{Clock as _, SystemClock};
use lockkeeper_faults::long;
use lockkeeper_zk_proto::message::{Acl, ConnectRequest, Create, CreateMode, ReadOnlyFlag, Request, encode_request};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::server::Server;
use crate::support::{PATIENCE, Place, eventually};

/// Where the attacks come from.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How many connections one address may have by default.
const CONNECTIONS_PER_IP: usize = 60;
/// How many children the node has whose list is asked for.
const CHILDREN: usize = 20_000;
/// How many watches there are while a report of them is asked for.
const WATCHES: usize = 100_000;
/// How much memory the server may take while clients do not read, in KiB: its share for answers, and the nodes.
const RESIDENT_KIB_MAX: u64 = 256 << 10;
/// How many requests are timed.
const TIMED: usize = 4_000;
/// How much worse the 99th percentile may be under an attack than on a quiet server; judged in the long run.
const WORSE_MAX: u32 = 10;
/// How often a measurement is made again before it counts as missed: others use the machine too.
const TRIES: usize = 3;
/// How long an attack rests after each blow: it shares the processors with the server and with those that are timed.
const REST: Duration = Duration::from_micros(500);
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Sessions that nothing is heard of live as long as any test, where the server grants it.
const SESSION_TIMEOUT_MS: i32 = 600_000;

/// A session over a plain socket.
struct Session {
    stream: TcpStream,
    xid: i32,
}

impl Session {
    fn open(server: &Server, from: Ipv4Addr) -> Option<Self> {
        let stream = dial(server, from);
        let mut session = Self { stream, xid: 0 };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: 0,
            password: None,
            read_only: ReadOnlyFlag::No,
        };
        session.stream.write_all(&request.to_frame(FRAME_BYTES_MAX).unwrap()).ok()?;
        session.frame().map(|_| session)
    }

    fn send(&mut self, request: &Request) {
        self.xid += 1;
        self.stream.write_all(&encode_request(self.xid, request, FRAME_BYTES_MAX).unwrap()).unwrap();
    }

    /// The next frame; `None` when the connection has ended.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut frame).ok()?;
        Some(frame)
    }

    fn ask(&mut self, request: &Request) {
        self.send(request);
        self.frame().unwrap();
    }

    /// The 99th percentile of what a request takes.
    fn percentile_99(&mut self) -> Duration {
        let exists = Request::Exists { path: "/".to_owned(), watch: false };
        let mut took: Vec<Duration> = (0..TIMED)
            .map(|_| {
                let start = SystemClock.now();
                self.ask(&exists);
                SystemClock.now().saturating_duration_since(start)
            })
            .collect();
        took.sort();
        took[TIMED * 99 / 100]
    }
}

/// Connects from one of this machine's addresses.
fn dial(server: &Server, from: Ipv4Addr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    let to: SocketAddr = server.address().parse().unwrap();
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn node(path: String) -> Request {
    Request::Create(Create { path, data: None, acl: vec![Acl::open()], mode: CreateMode::Persistent })
}

fn resident_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Measures a client while `attack` goes on, and compares it with the quiet server.
fn assert_hardly_slower(server: &Server, what: &str, attack: impl Fn() + Sync) {
    let mut honest = Session::open(server, Ipv4Addr::LOCALHOST).unwrap();
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let quiet = honest.percentile_99();
        let is_over = AtomicBool::new(false);
        let attacked = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    attack();
                    std::thread::park_timeout(REST);
                }
            });
            let attacked = honest.percentile_99();
            is_over.store(true, Ordering::Relaxed);
            attacked
        });
        println!("{what}: 99th percentile {attacked:?}, quiet {quiet:?}");
        if !long::is_asked_for() || attacked <= quiet * WORSE_MAX {
            return;
        }
        seen.push((quiet, attacked));
    }
    panic!("{what}: the 99th percentile, quiet and attacked: {seen:?}");
}

#[test]
fn clients_that_never_read_take_a_share_of_the_memory_and_are_served_when_they_do() {
    let place = Place::new();
    let server = Server::start(&place, &["--session-timeout-max", "10m"]);
    let mut honest = Session::open(&server, Ipv4Addr::LOCALHOST).unwrap();
    honest.ask(&node("/wide".to_owned()));
    for number in 0..CHILDREN {
        honest.send(&node(format!("/wide/child-{number:08}")));
    }
    (0..CHILDREN).for_each(|_| drop(honest.frame().unwrap()));
    let list = Request::GetChildren { path: "/wide".to_owned(), watch: false };
    let requests = 100;
    let mut greedy: Vec<Session> = (0..CONNECTIONS_PER_IP).map(|_| Session::open(&server, ATTACKER).unwrap()).collect();
    for session in &mut greedy {
        (0..requests).for_each(|_| session.send(&list));
    }
    assert_hardly_slower(&server, "60 clients that do not read", || ());
    let resident = resident_kib(&server);
    println!("60 clients that do not read: {resident} KiB resident");
    assert!(resident < RESIDENT_KIB_MAX, "{resident} KiB");
    // They were not forgotten: one that reads has all its answers.
    let mut last = greedy.pop().unwrap();
    for number in 0..requests {
        let frame = last.frame().unwrap_or_else(|| panic!("answer {number} is missing"));
        assert!(frame.len() > CHILDREN * "child-00000000".len());
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn one_address_cannot_take_all_connections_and_others_hardly_notice_that_it_tries() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let kept: Vec<Session> = (0..CONNECTIONS_PER_IP).map(|_| Session::open(&server, ATTACKER).unwrap()).collect();
    assert!(Session::open(&server, ATTACKER).is_none(), "one more is refused");
    let told = server.line("lockkeeper: 127.0.0.2 has as many connections");
    assert!(told.contains("--max-connections-per-ip"), "{told}");
    assert_hardly_slower(&server, "connections over and over", || drop(dial(&server, ATTACKER)));
    drop(kept);
    let place_is_free = || Session::open(&server, ATTACKER).is_some();
    eventually("an ended connection gives its place back", || place_is_free().then_some(()));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn reports_that_take_long_or_tell_of_paths_are_not_given_unless_the_operator_says_so() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let mut watcher = Session::open(&server, Ipv4Addr::LOCALHOST).unwrap();
    for number in 0..WATCHES {
        let path = format!("/watched-{number:08}");
        watcher.send(&Request::Exists { path, watch: true });
    }
    (0..WATCHES).for_each(|_| drop(watcher.frame().unwrap()));
    let word = |word: &str| {
        let mut stream = dial(&server, ATTACKER);
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for refused in ["wchp", "wchs", "dump", "cons", "envi"] {
        assert_eq!(word(refused), format!("{refused} is not executed because it is not in the whitelist.\n"));
    }
    for (given, part) in [("ruok", "imok"), ("mntr", "zk_watch_count\t100000"), ("stat", "Clients:"), ("isro", "rw")] {
        let answer = word(given);
        assert!(answer.contains(part), "{answer}");
    }
    assert_hardly_slower(&server, "a report over and over", || drop(word("wchp")));
    assert_eq!(server.stop(), Some(0));
}
