//! What the client makes of other ways to its servers than TCP, under time that the test governs.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, BoxFuture};
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::{Client, ClientError, ClientErrorKind, Config, Dial, NewNode, Server, Stream};
use tokio::io::{AsyncRead, AsyncWriteExt, BufStream, ReadBuf};

/// Streams that let go of nothing until they are flushed.
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

/// Fails as the name of the server says, at once or on a stream that was opened.
#[derive(Debug)]
struct FailingDial;

impl Dial for FailingDial {
    fn dial(&self, server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let dialled: io::Result<Box<dyn Stream>> = match server.name.as_str() {
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

async fn refusal(hosts: &str) -> ClientError {
    let config = Config::from_url(&format!("zk://{hosts}?connect_timeout=3s").parse().unwrap()).unwrap();
    let clock = Arc::new(TestClock::new());
    let begun = clock.now();
    let error = Client::connect_over(&config, Arc::new(FailingDial), clock.clone()).await.expect_err(hosts);
    assert!(clock.now().saturating_duration_since(begun) <= Duration::from_millis(3_100), "{hosts}");
    error
}

#[tokio::test(start_paused = true)]
async fn failures_that_last_at_every_server_are_permanent_and_named() {
    for (hosts, words) in [
        ("lasting:1", &["lasting:1 (a lasting failure)"][..]),
        ("lasting:1,lasting:2", &["lasting:1 (a lasting failure)", "lasting:2 (a lasting failure)"]),
        ("stream:1,lasting:2", &["stream:1 (a lasting failure of the stream)", "lasting:2 (a lasting failure)"]),
    ] {
        let error = refusal(hosts).await;
        assert_eq!((error.kind(), error.advice()), (ClientErrorKind::Untrusted, Advice::Permanent), "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_failure_that_may_pass_is_reason_to_try_again() {
    for hosts in ["passing:1", "lasting:1,passing:2", "stream:1,passing:2"] {
        let error = refusal(hosts).await;
        assert_eq!((error.kind(), error.advice()), (ClientErrorKind::ConnectionLost, Advice::Transient), "{error}");
        assert!(error.to_string().contains("a passing failure"), "{error}");
    }
}
