//! Which server is tried next.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{ErrorKind, Operation};
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::{Cluster, Sentinels};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use redis::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::connection::tests::strangers::stranger;
use crate::connection::tests::support::{SOON, can_run, clock, config, deadline, open_url, server_at, soon, words};
use crate::connection::{Connection, Finder, Flight, answer, until_replaced};

/// How often sentinels are asked.
const ROUND: Duration = Duration::from_millis(200);

fn finder(url: &str) -> Finder {
    Finder::new(Arc::new(config(url)), clock())
}

async fn next(finder: &mut Finder) -> Option<String> {
    soon("the next server", finder.next(deadline())).await.map(|(server, _)| server.to_string())
}

fn broken() -> Failure {
    Failure::broken(Effect::None)
}

/// What a server of a cluster says if it does not have the keys.
fn moved(to: &str) -> Failure {
    let refusal = redis::parse_redis_value(format!("-MOVED 7 {to}\r\n").as_bytes()).expect("an answer");
    answer(refusal, "join").expect_err("it is a refusal")
}

#[tokio::test]
async fn a_round_tries_each_server_once_in_the_order_of_the_url() {
    let mut finder = finder("redis://h1,h2,h3");
    for _ in 0..2 {
        for expected in ["h1:6379", "h2:6379", "h3:6379"] {
            assert_eq!(next(&mut finder).await.as_deref(), Some(expected));
            finder.note(broken());
        }
        assert_eq!(next(&mut finder).await, None);
        assert_eq!(finder.trouble().kind, FailureKind::Broken);
        finder.begin_round();
    }
}

#[tokio::test]
async fn what_does_not_pass_by_itself_is_what_is_told_of_a_round() {
    let mut finder = finder("redis://h1,h2");
    finder.note(Failure::new(FailureKind::Refused, Effect::None, "the password is wrong"));
    finder.note(broken());
    assert_eq!(finder.trouble().kind, FailureKind::Refused);
}

#[tokio::test]
async fn a_server_that_a_cluster_names_is_tried_next_and_not_for_ever() {
    let mut finder = finder("redis://h1,h2");
    assert_eq!(next(&mut finder).await.as_deref(), Some("h1:6379"));
    finder.note(moved("h9:7000"));
    assert_eq!(next(&mut finder).await.as_deref(), Some("h9:7000"));
    finder.note(moved(":7001"));
    assert_eq!(next(&mut finder).await.as_deref(), Some("h9:7001"), "on the same host");
    let mut sent = 2;
    while next(&mut finder).await.is_some() {
        finder.note(moved("h8:7002"));
        sent += 1;
        assert!(sent < 10, "it goes on for ever");
    }
}

/// What a sentinel says that knows the master.
const MASTER: &[u8] = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7000\r\n";

#[tokio::test]
async fn the_first_sentinel_that_answers_names_the_master() {
    let gone = ReservedPort::take().expect("a port");
    let (silent, ignorant, sentinel) = (stranger(&[]).await, stranger(&[b"*-1\r\n"]).await, stranger(&[MASTER]).await);
    let url = format!("redis+sentinel://{},{ignorant},{silent},{sentinel}/orders", gone.address());
    let mut finder = finder(&url);
    let until = clock().now().saturating_add(Duration::from_secs(8));
    let (server, _) = soon("the master", finder.next(until)).await.expect("the last one answers");
    assert_eq!(server, Server { name: "127.0.0.1".to_owned(), port: 7000 });
}

#[tokio::test]
async fn sentinels_name_the_master_they_watch_and_are_no_servers_themselves() {
    if !can_run() {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let (sentinel, master) = (service.addresses()[0], service.servers()[0].address());
    let service_of = |address| format!("redis+sentinel://{address}/{}", Sentinels::MASTER);
    let mut finder = finder(&service_of(sentinel));
    assert_eq!(next(&mut finder).await, Some(master.to_string()));
    let failure = soon("the failure", next_of(&format!("redis+sentinel://{sentinel}/other"))).await;
    assert_eq!(failure.kind, FailureKind::Settings, "{failure}");
    let failure = soon("the failure", open_url(&format!("redis://{sentinel}"))).await;
    let failure = failure.map(drop).expect_err("it has no keys");
    assert!(failure.kind == FailureKind::Settings && failure.to_string().contains("redis+sentinel:"), "{failure}");
    let failure = soon("the failure", next_of(&service_of(master))).await;
    assert!(failure.to_string().contains("no sentinel"), "{failure}");

    let (config, clock, server) = (config(&service_of(sentinel)), clock(), server_at(master));
    let replaced = tokio::spawn(async move { until_replaced(&config, &*clock, &server, ROUND).await });
    let promoted = service.failover().await.expect("a failover");
    let failure = soon("the end of the old master", replaced).await.expect("a task");
    let promoted = service.servers()[promoted].address().to_string();
    assert!(failure.needs_another() && failure.to_string().contains(&promoted), "{failure}");
}

/// Why a round finds nothing.
async fn next_of(url: &str) -> Failure {
    let mut finder = finder(url);
    assert_eq!(next(&mut finder).await, None);
    finder.trouble()
}

/// What a sentinel says that knows another master.
const OTHER: &[u8] = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7001\r\n";

#[tokio::test]
async fn a_master_is_replaced_once_more_sentinels_name_another_one_than_name_it() {
    let (same, other, silent) = (stranger(&[MASTER]).await, stranger(&[OTHER]).await, stranger(&[]).await);
    let server = Server { name: "127.0.0.1".to_owned(), port: 7000 };
    for (sentinels, is_replaced) in [
        (vec![other], true),
        (vec![same, other, other, silent], true),
        (vec![same, other], false),
        (vec![same], false),
        (vec![silent], false),
    ] {
        let named: Vec<_> = sentinels.iter().map(ToString::to_string).collect();
        let config = config(&format!("redis+sentinel://{}/orders", named.join(",")));
        let clock = clock();
        let replaced = until_replaced(&config, &*clock, &server, ROUND);
        let replaced = tokio::time::timeout(if is_replaced { SOON } else { ROUND * 4 }, replaced).await;
        assert_eq!(replaced.is_ok(), is_replaced, "{sentinels:?}");
        if let Ok(failure) = replaced {
            assert!(failure.needs_another() && failure.to_string().contains("127.0.0.1:7001"), "{failure}");
        }
    }
}

#[tokio::test]
async fn an_unknown_master_and_sentinels_that_are_none_are_told_in_one_line() {
    let gone = ReservedPort::take().expect("a port");
    let (ignorant, redis) = (stranger(&[b"*-1\r\n"]).await, stranger(&[b"-ERR unknown command 'SENTINEL'\r\n"]).await);
    for (address, kind, words) in [
        (gone.address(), ErrorKind::ConnectionLost, "sentinel: cannot be reached"),
        (ignorant, ErrorKind::InvalidConfig, "no master `orders`"),
        (redis, ErrorKind::InvalidConfig, "no sentinel"),
        (stranger(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await, ErrorKind::Backend, "does not speak as Redis"),
        (stranger(&[b"-NOAUTH Authentication required.\r\n"]).await, ErrorKind::Refused, "asks for a password"),
    ] {
        let mut finder = finder(&format!("redis+sentinel://{address}/orders"));
        assert_eq!(next(&mut finder).await, None);
        let error = finder.trouble().into_core(Operation::Connect, false);
        let told = format!("{error:#}");
        eprintln!("{told}");
        assert_eq!(error.kind(), kind, "{told}");
        assert!(told.contains(words) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}

#[tokio::test]
async fn a_sentinel_that_asks_for_a_password_is_given_that_of_the_servers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut heard, mut is_known) = ([0; 4096], false);
            while let Ok(length @ 1..) = stream.read(&mut heard).await {
                let says: &[u8] = match str::from_utf8(&heard[..length]).expect("text") {
                    text if text.contains("AUTH") => {
                        is_known = text.contains("s3cret");
                        b"+OK\r\n"
                    }
                    _ if is_known => MASTER,
                    _ => b"-NOAUTH Authentication required.\r\n",
                };
                let _ = stream.write_all(says).await;
            }
        }
    });
    let mut finder = finder(&format!("redis+sentinel://:s3cret@{address}/orders"));
    assert_eq!(next(&mut finder).await.as_deref(), Some("127.0.0.1:7000"));
}

/// Asks for a key of the default base.
async fn probe(connection: &Connection) -> Result<Value, Failure> {
    let flight = Flight::new().command(words("HGET {lockkeeper} tok"));
    let mut answers = soon("the answer", connection.flight(flight)).await?;
    answer(answers.pop().expect("one answer"), "HGET")
}

#[tokio::test]
async fn a_cluster_leads_from_any_of_its_servers_to_the_one_with_the_keys() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
    let owner = server_at(cluster.servers()[cluster.owner(slot).await.expect("it is served")].address());
    for address in cluster.addresses() {
        let url = format!("redis://{address}");
        let mut finder = finder(&url);
        loop {
            let (server, until) = finder.next(deadline()).await.expect("the way leads to the keys");
            let opened = Connection::open(&server, &config(&url).access, &clock(), until).await;
            match probe(&opened.expect("a connection")).await {
                Ok(_) => break assert_eq!(server, owner),
                Err(failure) => finder.note(failure),
            }
        }
    }
}
