//! The client over ways to its servers other than TCP, under time that the test controls.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, Backend, BoxFuture, ErrorKind, Scrutiny};
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::{
    Client, ClientError, ClientErrorKind, Config, Dial, NewNode, Server, Stream, ZooKeeperBackend,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufStream, ReadBuf};

/// Streams that send nothing until they are flushed.
#[derive(Debug)]
struct BufferedDial(EmbeddedServer);

impl Dial for BufferedDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let stream: Box<dyn Stream> = Box::new(BufStream::new(self.0.connect_duplex()));
        Box::pin(std::future::ready(Ok(stream)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_holds_back_what_is_not_flushed_carries_a_session() {
    let server = EmbeddedServer::builder().without_listener().start().await.unwrap();
    let config = Config::from_url(&"zk://h1".parse().unwrap()).unwrap();
    let client =
        Client::connect_over(&config, Arc::new(BufferedDial(server)), Arc::new(TestClock::new())).await.unwrap();
    // More than the stream's buffer holds, then less.
    for length in [100_000, 10] {
        let path = format!("/a{length}");
        client.create(NewNode::persistent(&path).with_data(vec![7; length])).await.unwrap();
        assert_eq!(client.get_data(&path).await.unwrap().0.len(), length);
    }
}

/// Fails as the name of the server says, at once or on a stream that was opened, or never answers.
#[derive(Debug)]
struct FailingDial;

impl Dial for FailingDial {
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let dialled: io::Result<Box<dyn Stream>> = match server.name.as_str() {
            "silent" => return Box::pin(std::future::pending()),
            "lasting" => Err(io::Error::new(io::ErrorKind::InvalidData, "a lasting failure")),
            "passing" => Err(io::Error::new(io::ErrorKind::ConnectionReset, "a passing failure")),
            _ => Ok(Box::new(broken_stream())),
        };
        Box::pin(std::future::ready(dialled))
    }
}

/// A stream that takes what is written, and whose first read fails for good.
fn broken_stream() -> impl Stream {
    let (ours, mut theirs) = tokio::io::duplex(1024);
    tokio::spawn(async move {
        let _ = theirs.write_all(b"x").await;
        tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await
    });
    let (reader, writer) = tokio::io::split(ours);
    tokio::io::join(Failing(reader), writer)
}

struct Failing<R>(R);

impl<R: AsyncRead + Unpin> AsyncRead for Failing<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.0).poll_read(context, buffer))?;
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "a lasting failure of the stream")))
    }
}

fn config(hosts: &str) -> Config {
    Config::from_url(&format!("zk://{hosts}?connect_timeout=3s").parse().unwrap()).unwrap()
}

/// The error of an attempt that failed, and the time it took.
async fn failed_attempt(hosts: &str) -> (ClientError, Duration) {
    let clock = Arc::new(TestClock::new());
    let begun = clock.now();
    let error = Client::connect_over(&config(hosts), Arc::new(FailingDial), clock.clone()).await.expect_err(hosts);
    (error, clock.now().saturating_duration_since(begun))
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_all_servers_refuse_ends_at_once_and_is_hopeless_only_where_every_failure_lasts() {
    const PASSING: (ClientErrorKind, Advice) = (ClientErrorKind::ConnectionLost, Advice::Transient);
    const LASTING: (ClientErrorKind, Advice) = (ClientErrorKind::Untrusted, Advice::Permanent);
    for (hosts, waited_secs, expected, words) in [
        ("passing:1", 0, PASSING, &["no session from passing:1: a passing failure"][..]),
        ("lasting:1,passing:2", 0, PASSING, &["no session from ", "a passing failure"]),
        ("stream:1,passing:2", 0, PASSING, &["no session from ", "a passing failure"]),
        ("passing:1,lasting:2,stream:3", 0, PASSING, &["no session from ", "a passing failure"]),
        // A silent server is waited for.
        (
            "passing:1,silent:2",
            3,
            PASSING,
            &["no session within 3s from ", "passing:1 (a passing failure)", "silent:2 (no connection within 1.5s)"],
        ),
        ("stream:1", 0, LASTING, &["no session from "]),
        ("lasting:1", 0, LASTING, &["no session from lasting:1: a lasting failure"]),
        ("lasting:1,lasting:2", 0, LASTING, &["no session from lasting:1, lasting:2: a lasting failure"]),
        (
            "stream:1,lasting:2",
            0,
            LASTING,
            &["stream:1 (a lasting failure of the stream)", "lasting:2 (a lasting failure)"],
        ),
    ] {
        let (error, took) = failed_attempt(hosts).await;
        assert_eq!((took.as_secs(), took.subsec_nanos()), (waited_secs, 0), "{error}");
        assert_eq!((error.kind(), error.advice()), expected, "{error}");
        for word in words {
            assert!(format!("{error:#}").contains(word), "{error:#}");
        }
    }
}

/// One name with these addresses, of which those that end in 1 swallow what is sent to them, those that end in 2
/// refuse, and the others lead to a server until they go silent.
#[derive(Clone, Debug)]
struct ManyAddresses {
    server: Arc<EmbeddedServer>,
    addresses: Vec<IpAddr>,
    dialled: Arc<Mutex<Vec<u8>>>,
    silent: Arc<Mutex<BTreeSet<u8>>>,
}

impl ManyAddresses {
    async fn new(last_bytes: &[u8]) -> Self {
        let server = Arc::new(EmbeddedServer::builder().without_listener().start().await.unwrap());
        let addresses = last_bytes.iter().map(|&last| IpAddr::from([10, 0, 0, last])).collect();
        Self { server, addresses, dialled: Arc::default(), silent: Arc::default() }
    }

    fn dialled(&self) -> Vec<u8> {
        std::mem::take(&mut *self.dialled.lock().unwrap())
    }

    /// From now on this address opens no connection; those that stand go on.
    fn silence(&self, last_byte: u8) {
        self.silent.lock().unwrap().insert(last_byte);
    }
}

impl Dial for ManyAddresses {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        let way = |&address: &IpAddr| server.at(SocketAddr::new(address, server.port));
        let ways = self.addresses.iter().map(way).collect();
        Box::pin(std::future::ready(Ok(ways)))
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let Some(IpAddr::V4(address)) = server.address.map(|address| address.ip()) else { panic!("{server}") };
        let last_byte = address.octets()[3];
        self.dialled.lock().unwrap().push(last_byte);
        let is_silent = last_byte % 10 == 1 || self.silent.lock().unwrap().contains(&last_byte);
        let dialled: io::Result<Box<dyn Stream>> = match last_byte % 10 {
            _ if is_silent => return Box::pin(std::future::pending()),
            2 => Err(io::ErrorKind::ConnectionRefused.into()),
            _ => Ok(Box::new(self.server.connect_duplex())),
        };
        Box::pin(std::future::ready(dialled))
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_shorter_than_one_address_takes_leaves_the_next_address_to_the_next_caller() {
    let dial = ManyAddresses::new(&[1, 11, 21, 3]).await;
    let clock = Arc::new(TestClock::new());
    let config = Config::from_url(&"zk://many".parse().unwrap()).unwrap();
    let backend = ZooKeeperBackend::with(config, Arc::new(dial.clone()), clock.clone());
    for _ in 0..3 {
        let opening = tokio::time::timeout(Duration::from_millis(100), backend.session());
        assert!(opening.await.is_err());
    }
    let session = backend.session().await.unwrap();
    assert_eq!(dial.dialled(), [1, 11, 21, 3]);
    // The next caller is not sent back to the silent ones.
    let another = backend.session().await.unwrap();
    assert_eq!(dial.dialled(), [3]);
    drop((session, another));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_went_silent_when_a_connection_to_it_is_renewed_is_dialled_once_and_then_the_next_one() {
    let dial = ManyAddresses::new(&[3, 4]).await;
    let clock = Arc::new(TestClock::new());
    let backend = Arc::new(ZooKeeperBackend::with(config("many"), Arc::new(dial.clone()), clock.clone()));
    let mutex = Keeper::builder(backend.clone()).clock(clock).build().mutex("door").unwrap();
    mutex.lock().await.unwrap().release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(dial.dialled(), [3]);
    dial.silence(3);
    // The process stands still, and needs a new connection to be believed soon.
    tokio::time::advance(Duration::from_secs(12)).await;
    mutex.lock().await.unwrap().release().await.unwrap();
    assert_eq!(dial.dialled(), [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_examination_asks_a_server_at_the_first_of_its_addresses_that_answers() {
    let dial = ManyAddresses::new(&[1, 2, 3]).await;
    let backend = ZooKeeperBackend::with(config("many"), Arc::new(dial), Arc::new(TestClock::new()));
    let found = backend.admin().examine(Scrutiny::Full).await.unwrap();
    assert!(found.iter().all(|finding| !finding.what.contains("cannot be reached")), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_all_servers_share_is_the_source_of_the_error_and_not_its_text() {
    let (error, _) = failed_attempt("passing:1,passing:2").await;
    assert_eq!(error.to_string(), "no session from passing:1, passing:2");
    assert_eq!(error.source().expect("it has one").to_string(), "a passing failure");
    let (error, _) = failed_attempt("passing:1,stream:2").await;
    assert!(error.source().is_none(), "{error}");
}

/// Names that are resolved after as many milliseconds as they say, behind which `refuses` in the name says what is.
#[derive(Debug)]
struct SlowNames(EmbeddedServer);

impl Dial for SlowNames {
    fn resolve(&self, server: &Server) -> BoxFuture<io::Result<Vec<Server>>> {
        let server = server.clone();
        let takes = server.name.split('-').next().and_then(|millis| millis.parse().ok()).expect("milliseconds");
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            Ok(vec![server])
        })
    }

    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let dialled: io::Result<Box<dyn Stream>> = match server.name.contains("refuses") {
            true => Err(io::ErrorKind::ConnectionRefused.into()),
            false => Ok(Box::new(self.0.connect_duplex())),
        };
        Box::pin(std::future::ready(dialled))
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_slow_to_resolve_keeps_no_other_server_waiting_and_is_tried_when_they_have_failed() {
    for (hosts, most) in [
        ("1000-slow,0-quick", 100),
        ("1000-slow,0-quick,0-refuses", 100),
        ("1000-slow,0-refuses", 1_000),
        ("600-refuses,1000-slow,0-refuses", 1_000),
    ] {
        let server = EmbeddedServer::builder().without_listener().start().await.unwrap();
        let clock = Arc::new(TestClock::new());
        let begun = clock.now();
        let client = Client::connect_over(&config(hosts), Arc::new(SlowNames(server)), clock.clone()).await;
        let took = clock.now().saturating_duration_since(begun);
        assert!(client.is_ok() && took <= Duration::from_millis(most), "{hosts}: {took:?} {client:?}");
    }
}

/// Connects to a server, and says who we are by another scheme, which it does not know.
#[derive(Debug)]
struct Disguised(EmbeddedServer);

impl Dial for Disguised {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (reader, writer) = tokio::io::split(self.0.connect_duplex());
        let stream: Box<dyn Stream> = Box::new(tokio::io::join(reader, Disguise(writer)));
        Box::pin(std::future::ready(Ok(stream)))
    }
}

struct Disguise<W>(W);

impl<W: AsyncWrite + Unpin> AsyncWrite for Disguise<W> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut disguised = bytes.to_vec();
        if let Some(at) = bytes.windows(6).position(|word| word == b"digest") {
            disguised[at..at + 6].copy_from_slice(b"masked");
        }
        Pin::new(&mut self.0).poll_write(context, &disguised)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_that_the_service_refuses_end_a_wait_for_good() {
    let server = EmbeddedServer::builder().without_listener().start().await.unwrap();
    let clock = Arc::new(TestClock::new());
    let config = Config::from_url(&"zk://ann:secret@h1".parse().unwrap()).unwrap();
    let backend = ZooKeeperBackend::with(config, Arc::new(Disguised(server)), clock.clone());
    let mutex = Keeper::builder(Arc::new(backend)).clock(clock).build().mutex("door").unwrap();
    let locking = tokio::time::timeout(Duration::from_secs(600), mutex.lock());
    let error = locking.await.expect("it does not wait").expect_err("no lock");
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{told}");
    assert!(error.source().is_some() && told.contains("door") && told.contains("user and password"), "{told}");
    assert!(!told.contains("secret") && !told.contains('\n'), "{told}");
}
