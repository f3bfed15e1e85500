//! What leaves from a caller's thread, what is left to the session's task, and in which order.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::clock::SystemClock;
use lockkeeper_zk_proto::message::{
    ConnectResponse, ErrorCode, ReadOnlyFlag, ReplyHeader, Request, Response, Stat, encode_reply,
};
use tokio::io::{AsyncRead, ReadBuf};

use super::*;
use crate::config::Config;
use crate::link::{Call, OnReply, Then};

const FRAME_BYTES_MAX: usize = 1024;

/// How long what the two sides of a test do may take.
const TEST_MAX: Duration = Duration::from_secs(30);

/// What a stream has taken, and how much more it takes.
#[derive(Debug)]
struct Taken {
    bytes: Vec<u8>,
    writes: usize,
    room: usize,
    is_broken: bool,
    /// Asks for more at the next write, as another thread may.
    asks: Option<Arc<Link>>,
    asked: Vec<Call>,
}

impl Taken {
    const fn nothing() -> Self {
        Self { bytes: Vec::new(), writes: 0, room: usize::MAX, is_broken: false, asks: None, asked: Vec::new() }
    }
}

/// A stream that takes as many bytes as there is room for.
#[derive(Clone, Debug)]
struct Narrow(Arc<Mutex<Taken>>);

impl Narrow {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap()
    }

    /// Takes the whole frames from the front; returns the number of each request.
    fn take(&self) -> Vec<i32> {
        let mut taken = self.taken();
        let bytes = &mut taken.bytes;
        let mut xids = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk().map(|(first, rest)| (number(first), rest))
            && rest.len() >= length as usize
        {
            xids.extend(rest.first_chunk().map(number));
            bytes.drain(..4 + length as usize);
        }
        xids
    }
}

impl AsyncRead for Narrow {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Narrow {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut taken = self.taken();
        if taken.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = bytes.len().min(taken.room);
        if count == 0 {
            return Poll::Pending;
        }
        taken.bytes.extend_from_slice(&bytes[..count]);
        taken.writes += 1;
        taken.room -= count;
        if let Some(link) = taken.asks.take() {
            taken.asked.push(ask(&link));
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A session that is online, whose task has nothing to do, and the stream to its server.
fn online() -> (Arc<Link>, Narrow) {
    let config = Config::from_url(&"zk://h1".parse().unwrap()).unwrap();
    let link = Arc::new(Link::new(&config, Arc::new(SystemClock)));
    let stream = Narrow(Arc::new(Mutex::new(Taken::nothing())));
    let (_, writer) = tokio::io::split(Box::new(stream.clone()) as Box<dyn Stream>);
    link.attach(writer);
    link.handle_connected(TEST_MAX);
    assert!(matches!(send(&link), Poll::Ready(Ok(()))));
    let answer = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 20_000,
        session_id: 1,
        password: Some(Bytes::from_static(&[7; 16])),
        read_only: ReadOnlyFlag::No,
    };
    link.handle_bytes(&answer.to_frame(FRAME_BYTES_MAX).unwrap());
    assert!(matches!(send(&link), Poll::Ready(Ok(()))));
    *stream.taken() = Taken::nothing();
    link.note_alarm(Some(link.clock().now()));
    is_woken(&link);
    (link, stream)
}

/// What the session's task does when it was woken.
fn send(link: &Link) -> Poll<io::Result<()>> {
    link.poll_send(&mut Context::from_waker(Waker::noop()))
}

/// Whether the session's task was woken since the last call.
fn is_woken(link: &Link) -> bool {
    pin!(link.woken()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn ask(link: &Arc<Link>) -> Call {
    link.call(&Request::Exists { path: "/a".to_owned(), watch: false }, "/a")
}

fn number(bytes: &[u8; 4]) -> i32 {
    i32::from_be_bytes(*bytes)
}

/// As the server does.
fn reply(link: &Link, xid: i32) {
    let header = ReplyHeader { xid, zxid: 1, error: ErrorCode::Ok };
    link.handle_bytes(&encode_reply(header, Some(&Response::Stat(Stat::default())), FRAME_BYTES_MAX).unwrap());
}

fn batch_of_two(link: &Arc<Link>) -> [Call; 2] {
    let _batch = link.batch();
    [ask(link), ask(link)]
}

#[test]
fn a_batch_leaves_in_one_write_and_nobody_is_woken() {
    let (link, stream) = online();
    let _calls = batch_of_two(&link);
    assert_eq!((stream.take(), stream.taken().writes), (vec![1, 2], 1));
    assert!(!is_woken(&link));
}

#[test]
fn a_request_outside_a_batch_is_left_to_the_task() {
    let (link, stream) = online();
    let _call = ask(&link);
    assert!(is_woken(&link) && stream.taken().bytes.is_empty());
    // Its caller begins to wait before the task comes to it.
    link.send_unsent();
    assert_eq!(stream.take(), [1]);
}

#[test]
fn the_task_is_woken_for_a_timer_that_would_ring_too_late() {
    let (link, stream) = online();
    link.note_alarm(Some(link.clock().now().saturating_add(Duration::from_secs(3600))));
    let _calls = batch_of_two(&link);
    assert!(is_woken(&link));
    assert_eq!(stream.take(), [1, 2]);
}

#[test]
fn while_an_answer_is_awaited_what_comes_is_gathered_for_one_write_of_the_task() {
    let (link, stream) = online();
    let _first = batch_of_two(&link);
    let _others = [batch_of_two(&link), batch_of_two(&link)];
    assert_eq!(stream.take(), [1, 2]);
    assert!(is_woken(&link) && matches!(send(&link), Poll::Ready(Ok(()))));
    assert_eq!((stream.take(), stream.taken().writes), (vec![3, 4, 5, 6], 2));
}

#[test]
fn what_a_full_stream_does_not_take_goes_before_all_that_is_asked_for_later() {
    let (link, stream) = online();
    stream.taken().room = 10;
    let _first = batch_of_two(&link);
    assert!(is_woken(&link) && send(&link).is_pending());
    let _second = batch_of_two(&link);
    assert_eq!(stream.taken().bytes.len(), 10);
    stream.taken().room = usize::MAX;
    assert!(is_woken(&link) && matches!(send(&link), Poll::Ready(Ok(()))));
    assert_eq!(stream.take(), [1, 2, 3, 4]);
    assert!(stream.taken().bytes.is_empty());
}

#[test]
fn the_task_finds_the_failure_of_a_stream_that_a_caller_met() {
    let (link, stream) = online();
    stream.taken().is_broken = true;
    let _calls = batch_of_two(&link);
    assert!(is_woken(&link));
    assert!(matches!(send(&link), Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe));
}

#[test]
fn nothing_is_written_to_a_stream_that_was_given_up() {
    let (link, stream) = online();
    assert!(link.detach().is_some());
    let _calls = batch_of_two(&link);
    assert!(is_woken(&link) && matches!(send(&link), Poll::Ready(Ok(()))));
    assert!(stream.taken().bytes.is_empty());
}

#[test]
fn no_caller_is_kept_writing_for_others() {
    let (link, stream) = online();
    stream.taken().asks = Some(link.clone());
    let _calls = batch_of_two(&link);
    assert_eq!(stream.take(), [1, 2]);
    assert!(is_woken(&link) && matches!(send(&link), Poll::Ready(Ok(()))));
    assert_eq!(stream.take(), [3]);
    // They hold the link, and it the stream.
    stream.taken().asked.clear();
}

/// The task here acts as the real one does: when it was woken, and when an answer has come.
#[test]
fn requests_of_many_threads_go_out_in_one_order_and_none_is_forgotten() {
    const THREADS: usize = 4;
    const REQUESTS: usize = 500;
    let (link, stream) = online();
    let end = link.clock().now().saturating_add(TEST_MAX);
    let mut seen: Vec<i32> = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for number in 0..REQUESTS {
                    let batch = (number % 2 == 0).then(|| link.batch());
                    let mut call = pin!(ask(&link));
                    drop(batch);
                    while call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                        assert!(link.clock().now() < end, "a request was forgotten");
                        std::thread::yield_now();
                    }
                }
            });
        }
        while seen.len() < THREADS * REQUESTS && link.clock().now() < end {
            // As little as cuts every frame, or all.
            stream.taken().room = if seen.len() % 3 == 0 { usize::MAX } else { 7 };
            let arrived = stream.take();
            arrived.iter().for_each(|xid| reply(&link, *xid));
            if is_woken(&link) || !arrived.is_empty() || link.port().as_ref().is_some_and(|port| !port.is_idle()) {
                let _ = send(&link);
            }
            seen.extend(arrived);
            std::thread::yield_now();
        }
    });
    assert!(seen.is_sorted() && seen.len() == THREADS * REQUESTS, "{} of {seen:?}", seen.len());
}

#[test]
fn a_request_takes_the_place_of_another_one_only_while_that_is_unwritten_and_the_last() {
    let delete = || Request::Delete { path: "/a".to_owned(), version: -1 };
    let done = || -> OnReply { Box::new(|_| Then::Done) };
    let (link, stream) = online();
    let _first = batch_of_two(&link);
    let other = link.submit(&delete(), "/a", None, done(), None).unwrap();
    let behind = ask(&link);
    assert!(!link.submit_instead(other, &delete(), "/a", |on_reply| on_reply));
    drop(behind);
    assert!(link.submit_instead(other, &delete(), "/a", |on_reply| on_reply));
    assert!(!link.submit_instead(other, &delete(), "/a", |on_reply| on_reply));
    let written = link.submit(&delete(), "/a", None, done(), None).unwrap();
    let _ = send(&link);
    assert!(!link.submit_instead(written, &delete(), "/a", |on_reply| on_reply));
    assert_eq!(stream.take(), [1, 2, 3, 4]);
}
