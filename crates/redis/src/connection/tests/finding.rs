//! Tests of the order in which servers are tried.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Backend, ErrorKind, Operation};
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::{Sentinels, Setup};
use lockkeeper_session::{Failure, FailureKind, Names, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::RedisBackend;
use crate::connection::tests::strangers::stranger;
use crate::connection::tests::support::{SOON, clock, config, deadline, open_url, server_at, soon};
use crate::connection::until_replaced;

const ROUND: Duration = Duration::from_millis(200);

/// The server that is tried first, or why there is none.
async fn first(url: &str) -> Result<Server, Failure> {
    let mut finder = Arc::new(config(url)).finder(&clock());
    soon("the first server", finder.round(deadline(), |server, _| std::future::ready(Ok(server)))).await
}

/// What a sentinel says that knows the master.
const MASTER: &[u8] = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7000\r\n";

#[tokio::test]
async fn the_first_sentinel_that_answers_names_the_master() {
    let gone = ReservedPort::take().expect("a port");
    let (silent, ignorant, sentinel) = (stranger(&[]).await, stranger(&[b"*-1\r\n"]).await, stranger(&[MASTER]).await);
    let url = format!("redis+sentinel://{},{ignorant},{silent},{sentinel}/orders", gone.address());
    let mut finder = Arc::new(config(&url)).finder(&clock());
    let until = clock().now().saturating_add(Duration::from_secs(8));
    let found = soon("the master", finder.round(until, |server, _| std::future::ready(Ok(server)))).await;
    assert_eq!(found.expect("the last one answers").to_string(), "127.0.0.1:7000");
}

#[tokio::test]
async fn sentinels_name_the_master_they_watch_and_are_no_servers_themselves() {
    if !lockkeeper_faults::redis::availability().or_skip_here() {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let (sentinel, master) = (service.addresses()[0], service.servers()[0].address());
    let service_of = |address| format!("redis+sentinel://{address}/{}", Sentinels::MASTER);
    assert_eq!(first(&service_of(sentinel)).await.expect("a master").to_string(), master.to_string());
    let failure = first(&format!("redis+sentinel://{sentinel}/other")).await.expect_err("there is none");
    assert_eq!(failure.kind, FailureKind::Settings, "{failure}");
    let failure = soon("the failure", open_url(&format!("redis://{sentinel}"))).await;
    let failure = failure.map(drop).expect_err("it has no keys");
    assert!(failure.kind == FailureKind::Settings && failure.to_string().contains("redis+sentinel:"), "{failure}");
    let failure = first(&service_of(master)).await.expect_err("it is none");
    assert!(failure.to_string().contains("no sentinel"), "{failure}");

    let (config, clock, server) = (config(&service_of(sentinel)), clock(), server_at(master));
    let replaced = tokio::spawn(async move { until_replaced(&config, &clock, &server, ROUND).await });
    let promoted = service.failover().await.expect("a failover");
    let failure = soon("the end of the old master", replaced).await.expect("a task");
    let promoted = service.servers()[promoted].address().to_string();
    assert!(failure.needs_another() && failure.to_string().contains(&promoted), "{failure}");
}

#[tokio::test]
async fn of_a_name_with_several_addresses_the_master_is_found_past_a_silent_one_and_a_replica() {
    if !lockkeeper_faults::redis::availability().or_skip_here() {
        return;
    }
    let master = Setup::new().start().await.expect("a master");
    let replica = Setup::new().replica_of(&master).start().await.expect("a replica");
    replica.replicating().await.expect("it follows");
    let (silent, gone) = (stranger(&[]).await, ReservedPort::take().expect("a port"));
    let mut config = config("redis://many?connect_timeout=8s");
    config.names = Names::at(vec![silent, gone.address(), replica.address(), master.address()]);
    let backend = RedisBackend::with(config, clock());
    soon("a session", backend.session()).await.expect("the master serves");
    soon("a look", backend.admin().queues("")).await.expect("the master shows");
}

#[tokio::test]
async fn a_server_is_reached_by_its_unix_socket() {
    if !lockkeeper_faults::redis::availability().or_skip_here() {
        return;
    }
    let server = Setup::new().start().await.expect("a server");
    let socket = server.socket().display().to_string().replace('/', "%2F");
    let backend = RedisBackend::open(&format!("redis://{socket}/1").parse().expect("a URL")).expect("a good URL");
    soon("a session", backend.session()).await.expect("it serves");
    soon("a look", backend.admin().queues("")).await.expect("it shows");
}

#[tokio::test]
async fn a_sentinel_is_asked_at_the_first_of_its_addresses_that_answers() {
    let (silent, sentinel) = (stranger(&[]).await, stranger(&[OTHER]).await);
    let mut config = config("redis+sentinel://many/orders");
    config.names = Names::at(vec![silent, sentinel]);
    let server = Server::new("127.0.0.1", 7000);
    soon("the new master", until_replaced(&config, &clock(), &server, ROUND)).await;
}

/// What a sentinel says that knows another master.
const OTHER: &[u8] = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n7001\r\n";

#[tokio::test]
async fn a_master_is_replaced_once_more_sentinels_name_another_one_than_name_it() {
    let (same, other, silent) = (stranger(&[MASTER]).await, stranger(&[OTHER]).await, stranger(&[]).await);
    let server = Server::new("127.0.0.1", 7000);
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
        let replaced = until_replaced(&config, &clock, &server, ROUND);
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
        (stranger(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await, ErrorKind::Backend, "an HTTP server"),
        (stranger(&[b"-NOAUTH Authentication required.\r\n"]).await, ErrorKind::Refused, "asks for a password"),
    ] {
        let failure = first(&format!("redis+sentinel://{address}/orders")).await.expect_err("no master");
        let error = failure.into_core(Operation::Connect, false);
        let told = format!("{error:#}");
        eprintln!("{told}");
        assert_eq!(error.kind(), kind, "{told}");
        assert!(told.contains(words) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    }
}

#[tokio::test]
async fn a_sentinel_that_asks_for_a_password_is_given_that_of_the_servers_and_may_refuse_it_for_good() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut heard, mut is_known) = ([0; 4096], false);
            while let Ok(length @ 1..) = stream.read(&mut heard).await {
                let says: &[u8] = match str::from_utf8(&heard[..length]).expect("text") {
                    text if text.contains("AUTH") => {
                        is_known = text.contains("s3cret");
                        if is_known { b"+OK\r\n" } else { b"-WRONGPASS invalid username-password pair\r\n" }
                    }
                    _ if is_known => MASTER,
                    _ => b"-NOAUTH Authentication required.\r\n",
                };
                let _ = stream.write_all(says).await;
            }
        }
    });
    let named = first(&format!("redis+sentinel://:s3cret@{address}/orders")).await.expect("a master");
    assert_eq!(named.to_string(), "127.0.0.1:7000");
    let refused = first(&format!("redis+sentinel://:wrong@{address}/orders")).await.expect_err("it is refused");
    assert!(refused.kind == FailureKind::Refused && refused.to_string().contains("password is wrong"), "{refused}");
}
