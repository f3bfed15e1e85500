//! ZooKeeper 3.4, which no package has here: a server that does in memory what that release does to a new session, and
//! to requests that came later. And one that never answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, BoxFuture, Error, ErrorKind};
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_proto::frame::{Deframer, FRAME_BYTES_DEFAULT_MAX as MAX};
use lockkeeper_zk_proto::jute::Reader;
use lockkeeper_zk_proto::message::*;
use lockkeeper_zookeeper::{Client, Config, Dial, Server, Stream, ZooKeeperBackend};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// How long a password has to be for this release to answer.
const PASSWORD_BYTES: usize = 16;

/// Opens connections to such a server, and counts those that its client has not closed.
#[derive(Clone, Debug, Default)]
struct OldDial {
    /// Whether it never answers.
    is_silent: bool,
    open: Arc<AtomicUsize>,
    dialled: Arc<AtomicUsize>,
}

impl Dial for OldDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (open, is_silent) = (self.open.clone(), self.is_silent);
        open.fetch_add(1, Ordering::SeqCst);
        self.dialled.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let _ = serve(theirs, is_silent).await;
            open.fetch_sub(1, Ordering::SeqCst);
        });
        Box::pin(std::future::ready(Ok(Box::new(ours) as Box<dyn Stream>)))
    }
}

/// Serves one connection until its client closes it, or asks for what this release does not know.
async fn serve(mut stream: DuplexStream, is_silent: bool) -> io::Result<()> {
    let mut input = Deframer::new(MAX);
    let mut is_greeted = false;
    loop {
        let mut bytes = Vec::new();
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        input.push(&bytes);
        while let Some(frame) = input.next_frame().map_err(io::Error::other)? {
            if !std::mem::replace(&mut is_greeted, true) {
                let request = ConnectRequest::decode(frame).map_err(io::Error::other)?;
                // It would fill the password in place, fails over none, and forgets the connection.
                let is_answered = request.password.is_some_and(|password| password.len() == PASSWORD_BYTES);
                if is_silent || !is_answered {
                    return drain(stream).await;
                }
                stream.write_all(&granted(request.timeout_ms)).await?;
                continue;
            }
            let header = RequestHeader::decode(&mut Reader::new(frame)).map_err(io::Error::other)?;
            let error = answer_to(header.code);
            let reply = ReplyHeader { xid: header.xid, zxid: 1, error };
            let sync = (error == ErrorCode::Ok && header.code == OpCode::Sync.code())
                .then(|| ZkResponse::Sync { path: "/".to_owned() });
            stream.write_all(&encode_reply(reply, sync.as_ref(), MAX).unwrap()).await?;
            if error == ErrorCode::Unimplemented || header.code == OpCode::CloseSession.code() {
                return Ok(());
            }
        }
    }
}

async fn drain(mut stream: DuplexStream) -> io::Result<()> {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop)
}

fn granted(timeout_ms: i32) -> Vec<u8> {
    let password = Some(vec![7; PASSWORD_BYTES].into());
    let response =
        ConnectResponse { protocol_version: 0, timeout_ms, session_id: 7, password, read_only: ReadOnlyFlag::No };
    response.to_frame(MAX).unwrap().to_vec()
}

/// The answer of a server without nodes to the request of this number.
fn answer_to(code: i32) -> ErrorCode {
    match OpCode::from_code(code) {
        Some(OpCode::Sync | OpCode::Ping | OpCode::CloseSession) => ErrorCode::Ok,
        Some(OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2) => ErrorCode::NoNode,
        // A transaction of ours has parts that it does not know.
        Some(OpCode::Multi) => ErrorCode::MarshallingError,
        _ => ErrorCode::Unimplemented,
    }
}

fn keeper(dial: &OldDial) -> Keeper {
    let clock = Arc::new(TestClock::new());
    let config = Config::from_url(&"zk://h1?connect_timeout=10s".parse().unwrap()).unwrap();
    let backend = ZooKeeperBackend::with(config, Arc::new(dial.clone()), clock.clone());
    Keeper::builder(Arc::new(backend)).clock(clock).build()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_old_for_locks_is_refused_at_once_whatever_is_asked_of_it() {
    let refused = |error: Error| {
        let text = format!("{error:#}");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent), "{text}");
        assert!(text.ends_with("locks need ZooKeeper 3.5.3 or later") && !text.contains('\n'), "{text}");
    };
    let (keeper, clock) = (keeper(&OldDial::default()), TestClock::new());
    let begun = clock.now();
    refused(keeper.mutex("door").unwrap().lock().await.unwrap_err());
    refused(keeper.semaphore("room", 2).unwrap().acquire().await.unwrap_err());
    refused(keeper.contenders("door").await.unwrap_err());
    refused(keeper.admin().queues("").await.unwrap_err());
    refused(keeper.until_vacant("door", lockkeeper_core::Wait::Forever).await.unwrap_err());
    let examined = keeper.admin().examine().await;
    let found = examined.map_or_else(|error| format!("{error:#}"), |found| format!("{found:?}"));
    assert!(found.contains("3.5.3 or later"), "{found}");
    let took = clock.now().saturating_duration_since(begun);
    // The server ends each connection, and there is a pause before the next one.
    assert!(took < Duration::from_secs(2), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn no_connection_stays_open_at_a_server_that_never_answers() {
    let dial = OldDial { is_silent: true, ..OldDial::default() };
    let config = Config::from_url(&"zk://h1?connect_timeout=3s".parse().unwrap()).unwrap();
    for attempt in 1..=5 {
        let connecting = Client::connect_over(&config, Arc::new(dial.clone()), Arc::new(TestClock::new()));
        connecting.await.expect_err("it never answers");
        lockkeeper_conformance::until("the end of the attempt", async || dial.open.load(Ordering::SeqCst) == 0).await;
        assert_eq!(dial.dialled.load(Ordering::SeqCst), attempt);
    }
}
