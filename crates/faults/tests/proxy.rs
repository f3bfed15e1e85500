//! The proxy in front of a server of a few lines, which answers every request with success and remembers it.
//!
//! It is a separate binary: beside it, no Java starts.

mod raw;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_faults::proxy::{AfterDrop, Direction, Fate, Flow, Operation, Proxy};
use lockkeeper_faults::wait::{self, PATIENCE};
use raw::RawClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{self, Instant};

/// Long enough for something to arrive on loopback that should not arrive.
const A_WHILE: Duration = Duration::from_millis(100);

/// The session that the server gives to every client.
const SESSION: u64 = 0x1234_5678_9abc_def0;

/// The numbers of the requests that reached the server.
type Reached = Arc<Mutex<Vec<i32>>>;

async fn server() -> (SocketAddr, Reached) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let reached = Reached::default();
    let remembered = Arc::clone(&reached);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&remembered)));
        }
    });
    (address, reached)
}

/// Answers until the client ends its stream or the connection breaks.
async fn serve(mut stream: TcpStream, reached: Reached) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connected = false;
    while let Ok(length) = stream.read_i32().await {
        let mut frame = vec![0; usize::try_from(length).expect("a client of ours")];
        stream.read_exact(&mut frame).await?;
        let mut reply = vec![0; if connected { 16 } else { 36 }];
        if connected {
            let xid = i32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
            reached.lock().expect("no panic").push(xid);
            reply[..4].copy_from_slice(&frame[..4]);
        } else {
            reply[8..16].copy_from_slice(&SESSION.to_be_bytes());
        }
        connected = true;
        stream.write_i32(i32::try_from(reply.len()).expect("short")).await?;
        stream.write_all(&reply).await?;
    }
    Ok(())
}

async fn connected() -> (Proxy, RawClient, Reached) {
    let (address, reached) = server().await;
    let proxy = Proxy::start(address).await.expect("a proxy");
    let client = RawClient::connect(proxy.address()).await.expect("a session");
    assert_eq!(client.session, SESSION, "bytes pass unchanged");
    (proxy, client, reached)
}

async fn reaches(reached: &Reached, xids: &[i32]) {
    wait::until("the server hearing of it", PATIENCE, async || {
        (*reached.lock().expect("no panic") == xids).then_some(())
    })
    .await
    .expect("in time");
}

#[tokio::test]
async fn a_delay_applies_to_both_ways_and_leaves_the_stream_a_pipeline() {
    const ONE_WAY: Duration = Duration::from_millis(50);
    const REQUESTS: i32 = 100;
    let (proxy, mut client, _) = connected().await;
    proxy.set_delay(ONE_WAY);
    let start = Instant::now();
    for xid in 1..=REQUESTS {
        client.send(xid, Operation::EXISTS, &[]).await.expect("sent");
    }
    for xid in 1..=REQUESTS {
        assert_eq!(client.reply().await.expect("a reply"), (xid, 0));
    }
    let took = start.elapsed();
    assert!(took >= 2 * ONE_WAY, "{took:?}");
    // Were each delayed after the one before it, none would come in before that has gone out.
    let requests = proxy.log().into_iter().filter(|frame| frame.direction == Direction::ToServer);
    let times: Vec<_> = requests.map(|frame| (frame.seen, frame.fate)).collect();
    let overlaps = times.windows(2).filter(|pair| matches!(pair[0].1, Fate::Delivered(at) if pair[1].0 < at)).count();
    // A machine that stands still may keep a few of them apart.
    assert!(overlaps > times.len() / 2, "{overlaps} of {times:?}");
}

#[tokio::test]
async fn requests_that_are_sent_at_once_share_a_round_trip_and_those_that_wait_for_an_answer_do_not() {
    const ONE_WAY: Duration = Duration::from_millis(50);
    let (proxy, mut client, _) = connected().await;
    let session = 1;
    assert_eq!(proxy.bursts().last().map(|burst| burst.round_trips), Some(session));
    proxy.set_delay(ONE_WAY);
    for xids in [[1, 2], [3, 4]] {
        for xid in xids {
            client.send(xid, Operation::EXISTS, &[]).await.expect("sent");
        }
        for xid in xids {
            assert_eq!(client.reply().await.expect("a reply"), (xid, 0));
        }
    }
    let round_trips = |direction| {
        let log = proxy.log().into_iter().filter(move |frame| frame.direction == direction);
        log.map(|frame| frame.round_trips).collect::<Vec<_>>()
    };
    assert_eq!(round_trips(Direction::ToServer), [0, 1, 1, 2, 2]);
    assert_eq!(round_trips(Direction::ToClient), [1, 2, 2, 3, 3]);
    assert!(proxy.since_first_connection() >= 4 * ONE_WAY);
    proxy.forget();
    assert!(proxy.bursts().is_empty());
}

#[tokio::test]
async fn frames_are_counted_by_operation_and_direction_and_logged_with_their_times() {
    let (proxy, mut client, _) = connected().await;
    for (xid, operation) in [(1, Operation::CREATE2), (2, Operation::GET_CHILDREN2), (3, Operation::CREATE2)] {
        client.send(xid, operation, &raw::create("/node", 0)).await.expect("sent");
        client.reply().await.expect("a reply");
    }
    for direction in [Direction::ToServer, Direction::ToClient] {
        let counts: Vec<_> = proxy.counts(direction).into_iter().collect();
        let expected = [(Operation::CONNECT, 1), (Operation::GET_CHILDREN2, 1), (Operation::CREATE2, 2)];
        assert_eq!(counts, expected);
    }
    let log = proxy.log();
    assert_eq!(log.len(), 8);
    assert!(log.iter().all(|frame| matches!(frame.fate, Fate::Delivered(at) if at >= frame.seen)));
    proxy.forget();
    assert_eq!(proxy.count(Direction::ToServer, Operation::CREATE2), 0);
}

#[tokio::test]
async fn a_lost_reply_was_to_a_request_that_took_effect() {
    let (proxy, mut client, reached) = connected().await;
    let lost = proxy.drop_next_reply(Operation::DELETE, AfterDrop::Close);
    client.send(1, Operation::CREATE2, &[]).await.expect("sent");
    assert_eq!(client.reply().await.expect("not the one"), (1, 0));
    client.send(2, Operation::DELETE, &[]).await.expect("sent");
    assert_eq!(client.reply().await.expect_err("closed").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(lost.happened(PATIENCE).await.expect("lost").xid, Some(2));
    reaches(&reached, &[1, 2]).await;
    // The next connection is as good as any.
    let mut client = RawClient::connect(proxy.address()).await.expect("a session");
    client.send(3, Operation::DELETE, &[]).await.expect("sent");
    assert_eq!(client.reply().await.expect("a reply"), (3, 0));
}

#[tokio::test]
async fn after_a_silent_loss_the_connection_stays_open_and_carries_nothing() {
    let (proxy, mut client, reached) = connected().await;
    let lost = proxy.drop_next_reply(Operation::CREATE2, AfterDrop::Silence);
    client.send(1, Operation::CREATE2, &[]).await.expect("sent");
    lost.happened(PATIENCE).await.expect("lost");
    client.send(2, Operation::PING, &[]).await.expect("sent");
    assert!(time::timeout(A_WHILE, client.reply()).await.is_err());
    proxy.set_delay(Duration::ZERO);
    assert!(time::timeout(A_WHILE, client.reply()).await.is_err(), "no change of plan wakes it");
    reaches(&reached, &[1]).await;
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn what_is_held_back_arrives_in_order_later() {
    let (proxy, mut client, reached) = connected().await;
    proxy.set_flow(Direction::ToClient, Flow::Hold);
    for xid in 1..=3 {
        client.send(xid, Operation::PING, &[]).await.expect("sent");
    }
    reaches(&reached, &[1, 2, 3]).await;
    assert!(time::timeout(A_WHILE, client.reply()).await.is_err());
    proxy.heal();
    for xid in 1..=3 {
        assert_eq!(client.reply().await.expect("held, not lost"), (xid, 0));
    }
}

#[tokio::test]
async fn a_black_hole_accepts_and_answers_nothing_and_healing_resets_what_was_torn() {
    let (proxy, mut client, reached) = connected().await;
    proxy.blackhole();
    client.send(1, Operation::PING, &[]).await.expect("accepted");
    let newcomer = tokio::spawn(RawClient::connect(proxy.address()));
    assert!(time::timeout(A_WHILE, client.reply()).await.is_err());
    assert!(!newcomer.is_finished());
    proxy.heal();
    assert_eq!(client.reply().await.expect_err("torn").kind(), ErrorKind::ConnectionReset);
    let newcomer = newcomer.await.expect("no panic");
    assert_eq!(newcomer.err().map(|error| error.kind()), Some(ErrorKind::ConnectionReset));
    assert!(reached.lock().expect("no panic").is_empty());
    RawClient::connect(proxy.address()).await.expect("healed");
}

#[tokio::test]
async fn half_closing_ends_one_direction_and_leaves_the_other() {
    let (proxy, mut client, reached) = connected().await;
    proxy.half_close(Direction::ToClient);
    assert_eq!(client.reply().await.expect_err("ended").kind(), ErrorKind::UnexpectedEof);
    client.send(1, Operation::CREATE2, &[]).await.expect("the other direction");
    reaches(&reached, &[1]).await;
}

#[tokio::test]
async fn a_reset_and_a_cut_look_like_what_they_are() {
    let (proxy, mut client, _) = connected().await;
    proxy.reset();
    assert_eq!(client.reply().await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    let mut client = RawClient::connect(proxy.address()).await.expect("open for new ones");
    proxy.cut();
    assert_eq!(client.reply().await.expect_err("cut").kind(), ErrorKind::UnexpectedEof);
    wait::until("both gone", PATIENCE, async || (proxy.connections() == 0).then_some(())).await.expect("in time");
}

#[tokio::test]
async fn a_closed_port_refuses_until_it_is_opened_again() {
    let (proxy, mut client, _) = connected().await;
    proxy.cut_and_refuse().await.expect("closed");
    assert_eq!(client.reply().await.expect_err("cut").kind(), ErrorKind::UnexpectedEof);
    let refused = TcpStream::connect(proxy.address()).await.expect_err("closed");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.accept_again().await.expect("open");
    RawClient::connect(proxy.address()).await.expect("open");
}

#[tokio::test]
async fn a_server_that_is_down_resets_the_client() {
    let port = lockkeeper_faults::ports::ReservedPort::take().expect("a port");
    let proxy = Proxy::start(port.address()).await.expect("a proxy");
    let kind = RawClient::connect(proxy.address()).await.err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn what_is_not_framed_passes_as_it_is() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let proxy = Proxy::start(listener.local_addr().expect("bound")).await.expect("a proxy");
    let mut client = TcpStream::connect(proxy.address()).await.expect("open");
    client.write_all(b"ruok").await.expect("sent");
    let (mut server, _) = listener.accept().await.expect("connected");
    let mut word = [0; 4];
    server.read_exact(&mut word).await.expect("the word");
    server.write_all(b"imok").await.expect("sent");
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.expect("the answer and its end");
    assert_eq!((&word, answer.as_str()), (b"ruok", "imok"));
}
