//! Servers that are no master with what locks need, and users without rights: one clear line each, with the address.

use std::net::SocketAddr;

use lockkeeper_core::{Advice, ErrorKind, Operation};
use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::Server;
use lockkeeper_session::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::connection::tests::support::{ask, open, open_url, soon};

/// A server that says the next of these whenever it has heard something, and then no more.
pub(super) async fn stranger(says: &'static [&'static [u8]]) -> SocketAddr {
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
          %2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
    ];
    let sentinel: &[&[u8]] =
        &[HELLO, b"+OK\r\n+OK\r\n+OK\r\n%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"];
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
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    let operator = open(address).await;
    ask(&operator, "ACL SETUSER ann on >s3cret allkeys +@all").await;
    ask(&operator, "ACL SETUSER bob on >s3cret allkeys +@all -client +client|setname").await;
    ask(&operator, "ACL SETUSER cid on nopass allkeys +@all -client +client|tracking +client|caching").await;
    ask(&operator, "ACL SETUSER default on >hidden").await;
    let ours = open_url(&format!("redis://ann:s3cret@{address}")).await.expect("ann may do all");
    assert!(["redis", "valkey"].contains(&ours.greeting.software.as_str()), "{:?}", ours.greeting);
    assert_eq!(ask(&ours, "ACL WHOAMI").await, redis::Value::BulkString(b"ann".to_vec()));
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
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    let second = open_url(&format!("redis://{address}/2")).await.expect("the second database");
    ask(&second, "SET key value").await;
    assert_eq!(ask(&open(address).await, "EXISTS key").await, redis::Value::Int(0));
    refused(&format!("redis://{address}/99"), address, ErrorKind::InvalidConfig, "database 99").await;
}
