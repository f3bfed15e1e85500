//! Servers that load their data: one connection waits for each, and says why; no other server is kept waiting for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::{Advice, Backend, ErrorKind, Operation};
use lockkeeper_faults::redis::{Flush, Server, Setup};
use lockkeeper_session::{Effect, Failure, FailureKind};
use parking_lot::Mutex;
use redis::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::RedisBackend;
use crate::connection::tests::{NOTHING, clock, config, server_at, soon, words};
use crate::connection::{Batch, Connection, LoadedScript, LoadingNote, OpenedConnection};
use crate::url::Config;

/// Without end, for a test.
const EVER: u32 = u32::MAX;

/// A server that loads its data until it has refused so many questions whether it does.
struct Restarted {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    questions_left: AtomicU32,
    refused: AtomicUsize,
    /// Whether it answers no question any more.
    is_silent: AtomicBool,
    /// `cluster`, or what says nothing.
    mode: &'static str,
    connections: AtomicUsize,
    heard: Mutex<Vec<Vec<String>>>,
}

impl Restarted {
    async fn start(questions: u32, mode: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Seen { questions_left: questions.into(), mode, ..Seen::default() });
        let serving = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let serving = serving.clone();
                tokio::spawn(async move { serving.serve(stream).await });
            }
        });
        Self { address, seen }
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// How often it was sent this script.
    fn heard_script(&self, source: &str) -> usize {
        self.seen.heard.lock().iter().filter(|words| words[1..] == ["LOAD", source]).count()
    }

    fn has_loaded(&self) {
        self.seen.questions_left.store(0, Ordering::SeqCst);
    }
}

impl Seen {
    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let words = command(&mut stream).await?;
            let says = self.answer(&words);
            self.heard.lock().push(words);
            stream.write_all(says.as_bytes()).await.ok()?;
        }
    }

    fn answer(&self, words: &[String]) -> String {
        let is_question = words.last().is_some_and(|word| word == "return 0");
        let left = self.questions_left.load(Ordering::SeqCst);
        match words[0].as_str() {
            "HELLO" => format!("%2\r\n+version\r\n+7.0.15\r\n+mode\r\n+{}\r\n", self.mode),
            "CLIENT" => "+OK\r\n".to_owned(),
            _ if is_question && self.is_silent.load(Ordering::SeqCst) => String::new(),
            _ if left > 0 => {
                let less = |left: u32| left.checked_sub(u32::from(is_question));
                let _ = self.questions_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
                self.refused.fetch_add(usize::from(is_question), Ordering::SeqCst);
                "-LOADING Redis is loading the dataset in memory\r\n".to_owned()
            }
            "EVALSHA" => "*3\r\n+ok\r\n:0\r\n:0\r\n".to_owned(),
            _ => "+OK\r\n".to_owned(),
        }
    }
}

/// Reads one command; `None` at the end of the connection.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..length(stream).await? {
        let mut word = vec![0; length(stream).await? + 2];
        stream.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).expect("text"));
    }
    Some(words)
}

/// Reads `*3` or `$12`.
async fn length(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim_end().parse().ok()
}

const SOURCE: &str = "return 'ok'";

/// Opens a connection with a first batch of a script.
async fn open(config: &Config, address: SocketAddr, within: Duration) -> Result<OpenedConnection, Failure> {
    let script = LoadedScript::new("script", SOURCE);
    let first = Batch::new().load(&script).script(&script, &["key"], &NOTHING);
    let (server, clock) = (server_at(address), clock());
    let ends = clock.now().saturating_add(within);
    let opening = Connection::open_with(|| first, &server, &config.access, &clock, ends);
    soon("the end of the attempt", opening).await
}

fn alone(server: &Restarted) -> Config {
    config(&format!("redis://{}", server.address))
}

const LONG: Duration = Duration::from_secs(60);

/// Checks that a user is told that the server loads.
fn assert_loading(failure: Failure, address: SocketAddr) {
    assert_eq!(failure.kind, FailureKind::Unavailable, "{failure}");
    let error = failure.into_core(Operation::Connect, false);
    assert_eq!((error.kind(), error.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{error}");
    let told = error.to_string();
    assert!(told.contains(&format!("{address}: the server is loading its data")), "{told}");
}

#[tokio::test]
async fn one_connection_waits_for_a_server_that_loads_and_sends_the_scripts_once_more_when_it_serves() {
    let server = Restarted::start(5, "").await;
    let config = alone(&server);
    let opened = open(&config, server.address, LONG).await.expect("it serves at last");
    assert_eq!(opened.answers.expect("answers")[0], Value::Okay);
    assert_eq!((server.connections(), server.heard_script(SOURCE)), (1, 2));
    assert_eq!(server.heard_script("return 0"), 6);
    assert!(config.access.loading.trouble().is_none());
    open(&config, server.address, LONG).await.expect("it serves");
    assert_eq!(server.heard_script(SOURCE), 3, "what serves is sent them with the greeting");
}

#[tokio::test]
async fn an_attempt_that_has_waited_until_its_deadline_says_that_the_server_loads() {
    for is_silent in [false, true] {
        let server = Restarted::start(EVER, "").await;
        let config = alone(&server);
        let attempt = tokio::spawn({
            let (config, address) = (config.clone(), server.address);
            async move { open(&config, address, Duration::from_millis(700)).await.map(drop) }
        });
        let heard = async || config.access.loading.trouble();
        let trouble = lockkeeper_faults::wait::until("the trouble", LONG, heard).await.expect("it is told meanwhile");
        assert_loading(trouble, server.address);
        server.seen.is_silent.store(is_silent, Ordering::SeqCst);
        assert_loading(attempt.await.expect("a task").expect_err("it loads"), server.address);
        // The next attempt knows.
        server.seen.is_silent.store(false, Ordering::SeqCst);
        assert_eq!((server.connections(), server.heard_script(SOURCE)), (1, 1));
        open(&config, server.address, Duration::from_millis(300)).await.map(drop).expect_err("it loads");
        assert_eq!((server.connections(), server.heard_script(SOURCE)), (2, 1));
        server.has_loaded();
        open(&config, server.address, LONG).await.expect("it serves");
        assert_eq!((server.connections(), server.heard_script(SOURCE)), (3, 2));
    }
}

#[tokio::test]
async fn of_several_attempts_of_one_client_one_has_a_connection_to_a_server_that_loads() {
    let server = Restarted::start(EVER, "").await;
    let (config, address) = (alone(&server), server.address);
    let attempt = |within| {
        let config = config.clone();
        tokio::spawn(async move { open(&config, address, within).await.map(drop) })
    };
    let first = attempt(LONG);
    let heard = async || config.access.loading.trouble();
    lockkeeper_faults::wait::until("the trouble", LONG, heard).await.expect("it is told");
    let (second, late) = (attempt(LONG), attempt(Duration::from_millis(100)));
    assert_loading(late.await.expect("a task").expect_err("it loads"), address);
    assert_eq!(server.connections(), 1);
    server.has_loaded();
    for attempt in [first, second] {
        attempt.await.expect("a task").expect("it serves");
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn none_waits_for_a_server_beside_which_another_may_serve() {
    let (loading, serving) = (Restarted::start(EVER, "").await, Restarted::start(0, "").await);
    let several = config(&format!("redis://{},{}", loading.address, serving.address));
    for attempt in 1..=3 {
        let failure = open(&several, loading.address, LONG).await.map(drop).expect_err("it loads");
        assert_loading(failure, loading.address);
        assert_eq!((loading.connections(), loading.heard_script(SOURCE)), (attempt, 1), "the scripts come once");
    }
    assert!(several.access.loading.trouble().is_some());
    open(&several, serving.address, LONG).await.expect("it serves");
    assert!(several.access.loading.trouble().is_none(), "the service serves");

    let member = Restarted::start(EVER, "cluster").await;
    let failure = open(&alone(&member), member.address, LONG).await.map(drop).expect_err("it loads");
    assert_loading(failure, member.address);
}

#[tokio::test]
async fn a_session_that_waits_for_a_server_that_loads_is_told_why_and_opens_within_half_a_second() {
    let server = Restarted::start(EVER, "").await;
    let backend = Arc::new(RedisBackend::with(alone(&server), clock()));
    let opening = tokio::spawn({
        let backend = backend.clone();
        async move { backend.session().await }
    });
    let told = async || backend.trouble();
    let trouble = lockkeeper_faults::wait::until("the trouble", LONG, told).await.expect("it is told");
    assert!(trouble.to_string().contains("is loading its data"), "{trouble}");
    server.has_loaded();
    let session = soon("the session", opening).await.expect("a task").expect("it is opened");
    let refused = server.seen.refused.load(Ordering::SeqCst);
    assert_eq!(server.heard_script("return 0"), refused + 1, "the first question that was answered was the last");
    assert_eq!(server.connections(), 1);
    assert!(backend.trouble().is_none());
    drop(session);
}

/// How many commands a real server loads from its log, and the pause for each: many seconds, unless it is told to go
/// on. It serves connections once in 1,024 of them.
const LOGGED: u32 = 60_000;
const PAUSE_US: u32 = 100;

/// How many questions of each client it refuses before it is told to go on.
const REFUSED: usize = 3;

/// How many clients open a session meanwhile.
const CLIENTS: usize = 20;

/// How often a server was sent a command, and how often it refused it before it looked at it.
async fn calls(server: &Server, command: &str) -> (usize, usize) {
    let told: String = server.ask(&["INFO", "commandstats"]).await.expect("what it has done");
    let line = told.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:"))).unwrap_or_default();
    let number = |name: &str| {
        let field = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        field.map_or(0, |number| number.parse().expect("a number"))
    };
    (number("calls"), number("rejected_calls"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_that_loads_for_seconds_is_asked_over_one_connection_of_each_client() {
    if !lockkeeper_faults::redis::availability().or_skip_here() {
        return;
    }
    let setup = Setup::new().append_only(Flush::EverySecond).loads_slowly(PAUSE_US);
    let mut server = setup.start().await.expect("a server");
    let logged = (0..LOGGED).fold(Batch::new(), |batch, _| batch.command(words("INCR key")));
    soon("the writes", super::open(server.address()).await.send(logged)).await.expect("answers");
    server.stop().await;
    server.start().expect("it starts again");
    let address = server.address();
    let listens = async || TcpStream::connect(address).await.ok();
    lockkeeper_faults::wait::until("the server", LONG, listens).await.expect("it listens");
    let backends: Vec<_> = (0..CLIENTS)
        .map(|_| Arc::new(RedisBackend::with(config(&format!("redis://{address}?connect_timeout=60s")), clock())))
        .collect();
    let opening: Vec<_> = backends
        .iter()
        .map(|backend| {
            let backend = backend.clone();
            tokio::spawn(async move { backend.session().await })
        })
        .collect();
    let first_loads = config(&format!("redis://{address}")).layout().scripts().len();
    let asked = async || (calls(&server, "script|load").await.1 >= CLIENTS * (first_loads + REFUSED)).then_some(());
    lockkeeper_faults::wait::until("the questions", LONG, asked).await.expect("they are asked");
    for backend in &backends {
        let trouble = backend.trouble().expect("it is told");
        assert!(trouble.to_string().contains("is loading its data"), "{trouble}");
    }
    server.ask::<String>(&["CONFIG", "SET", "key-load-delay", "0"]).await.expect("it goes on");
    let mut sessions = Vec::new();
    for session in opening {
        sessions.push(soon("a session", session).await.expect("a task").expect("it is opened"));
    }
    // The crate `redis` greets, and so do we.
    assert_eq!(calls(&server, "hello").await.0, 2 * CLIENTS, "each has one connection");
    let (_, refused) = calls(&server, "evalsha").await;
    assert!(refused <= CLIENTS, "{refused} first batches were refused");
}

#[tokio::test]
async fn attempts_at_a_server_that_hung_up_take_turns_and_those_at_a_silent_or_another_one_need_not() {
    let (note, clock) = (LoadingNote::default(), clock());
    let [ours, other] = [1, 2].map(|port| server_at(SocketAddr::from(([127, 0, 0, 1], port))));
    let turn = async |server| {
        let ends = clock.now().saturating_add(Duration::from_millis(20));
        note.turn(server, &*clock, ends).await
    };
    assert!(turn(&ours).await.is_ok_and(|turn| turn.is_none()), "nothing is known of it");
    note.conclude::<()>(&ours, &Err(Failure::broken(Effect::None)));
    assert!(note.is_likely());
    let first = turn(&ours).await.ok().flatten().expect("a turn");
    assert_eq!(turn(&ours).await.expect_err("another one connects").kind, FailureKind::Deadline);
    assert!(turn(&other).await.is_ok_and(|turn| turn.is_none()));
    drop(first);
    assert!(turn(&ours).await.is_ok_and(|turn| turn.is_some()));
    note.conclude::<()>(&ours, &Err(Failure::late(Effect::None)));
    assert!(!note.is_likely() && turn(&ours).await.is_ok_and(|turn| turn.is_none()));
}
