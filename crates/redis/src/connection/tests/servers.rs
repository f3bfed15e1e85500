//! Servers that are no master with what locks need, and users without rights: one clear line each, with the address.
//! And the order in which servers are tried.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Value;
use lockkeeper_core::{Advice, Backend, ErrorKind, Operation};
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::{self, Sentinels, Setup};
use lockkeeper_session::{Failure, FailureKind, Names, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::RedisBackend;
use crate::connection::tests::{SOON, ask, clock, config, deadline, open, open_url, server_at, soon};
use crate::connection::until_replaced;

/// A server that says the next of these whenever it has heard something, and then no more.
async fn stranger(says: &'static [&'static [u8]]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut heard, mut says) = ([0; 4096], says.iter());
                while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {
                    if let Some(words) = says.next() {
                        let _ = stream.write_all(words).await;
                    }
                }
            });
        }
    });
    address
}

/// Checks that there is no connection, and what a user is told.
async fn refused(url: &str, address: SocketAddr, kind: ErrorKind, words: &str) -> Failure {
    let failure = soon("the failure", open_url(url)).await.map(drop).expect_err(url);
    let error = failure.clone().into_core(Operation::Connect, false);
    let told = format!("{error:#}");
    eprintln!("{told}");
    assert_eq!(error.kind(), kind, "{told}");
    assert_eq!(error.advice() == Advice::Transient, kind == ErrorKind::ConnectionLost, "{told}");
    assert!(told.contains(words) && told.contains(&address.to_string()) && !told.contains('\n'), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    failure
}

/// A greeting such as Redis 7.0's.
const HELLO: &[u8] =
    b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

#[tokio::test]
async fn what_is_no_redis_of_use_is_told_in_one_line() {
    let unused = ReservedPort::take().expect("a port");
    let introduced: &[&[u8]] = &[
        HELLO,
        b"+OK\r\n-ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.\r\n+OK\r\n\
          %2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n+OK\r\n",
    ];
    let sentinel: &[&[u8]] = &[
        HELLO,
        b"+OK\r\n+OK\r\n+OK\r\n%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n+OK\r\n",
    ];
    for (address, kind, words) in [
        (unused.address(), ErrorKind::ConnectionLost, "refused"),
        (stranger(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await, ErrorKind::Backend, "HTTP server"),
        (stranger(&[b"\x15\x03\x01\x00\x02\x02\x46"]).await, ErrorKind::Backend, "`redis+tls:`"),
        (stranger(&[b"SSH-2.0-OpenSSH_9.2\r\n"]).await, ErrorKind::Backend, "does not speak as Redis does"),
        (stranger(&[]).await, ErrorKind::ConnectionLost, "not answered"),
        (stranger(&[b"-ERR unknown command 'HELLO', with args\r\n"]).await, ErrorKind::Unsupported, "RESP3"),
        (stranger(&[b"-ERR unknown command `HELLO`, with args\r\n"]).await, ErrorKind::Unsupported, "RESP3"),
        (stranger(&[b"-NOPROTO unsupported protocol version\r\n"]).await, ErrorKind::Unsupported, "RESP3"),
        (stranger(introduced).await, ErrorKind::Unsupported, "CLIENT TRACKING"),
        (stranger(sentinel).await, ErrorKind::InvalidConfig, "redis+sentinel:"),
        (stranger(&[b"-LOADING Redis is loading\r\n"]).await, ErrorKind::ConnectionLost, "loading its data"),
        (stranger(&[b"-ERR max number of clients reached\r\n"]).await, ErrorKind::ConnectionLost, "maxclients"),
        (stranger(&[b"-DENIED Redis is running in protected mode\r\n"]).await, ErrorKind::Refused, "protected mode"),
    ] {
        refused(&format!("redis://{address}?connect_timeout=500ms"), address, kind, words).await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_may_be_no_redis_or_speak_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let url = format!("redis://{address}?connect_timeout=5s");
    refused(&url, address, ErrorKind::ConnectionLost, "if it is a Redis that speaks TLS").await;
}

#[tokio::test]
async fn users_are_told_what_they_lack() {
    let Some(server) = redis::Server::standalone_or_skip().await else { return };
    let address = server.address();
    let operator = open(address).await;
    ask(&operator, "ACL SETUSER ann on >s3cret allkeys +@all").await;
    ask(&operator, "ACL SETUSER bob on >s3cret allkeys +@all -client +client|setname").await;
    ask(&operator, "ACL SETUSER cid on nopass allkeys +@all -client +client|tracking +client|caching").await;
    ask(&operator, "ACL SETUSER default on >hidden").await;
    let ours = open_url(&format!("redis://ann:s3cret@{address}")).await.expect("ann may do all");
    assert!(["redis", "valkey"].contains(&ours.greeting.software.as_str()), "{:?}", ours.greeting);
    assert_eq!(ask(&ours, "ACL WHOAMI").await, Value::BulkString(b"ann".to_vec()));
    open_url(&format!("redis://:hidden@{address}")).await.expect("the default user");
    for (user, words) in [
        ("", "asks for a password"),
        ("ann:other@", "password is wrong"),
        ("eve:s3cret@", "password is wrong"),
        ("bob:s3cret@", "right to CLIENT TRACKING"),
        ("cid@", "right to CLIENT SETNAME"),
    ] {
        refused(&format!("redis://{user}{address}"), address, ErrorKind::Refused, words).await;
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told_and_another_one_is_used() {
    let Some(server) = redis::Server::standalone_or_skip().await else { return };
    let address = server.address();
    let second = open_url(&format!("redis://{address}/2")).await.expect("the second database");
    ask(&second, "SET key value").await;
    assert_eq!(ask(&open(address).await, "EXISTS key").await, Value::Int(0));
    refused(&format!("redis://{address}/99"), address, ErrorKind::InvalidConfig, "database 99").await;
}

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
    if !redis::availability().or_skip_here() {
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
    if !redis::availability().or_skip_here() {
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
    if !redis::availability().or_skip_here() {
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
