//! Commands of a user with the least rights, and of users and at servers that are of no use.

use std::net::SocketAddr;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::{Server, Setup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::site::{SETTINGS, assert_refused, can_start, fifty_count};

/// The line of the guide, `docs/guide/redis.md`, for a user of the base `lockkeeper`.
pub(crate) const LEAST_RIGHTS: &str = "resetchannels ~{lockkeeper}* -@all +hello +auth +client|setname +client|tracking \
                            +client|caching +script|load +evalsha +time +get +set +del +exists +pexpire +hget +hmget \
                            +hset +hdel +zadd +zrem +zscore +zcard +zcount +zrange +zrangebyscore +zrangebylex";

async fn guarded() -> Server {
    let bob = LEAST_RIGHTS.replace(" +zadd", "");
    Setup::new()
        .user(&format!("ann on >s3cret {LEAST_RIGHTS}"))
        .user(&format!("bob on >s3cret {bob}"))
        .password("another s3cret".replace(' ', "-").as_str())
        .start()
        .await
        .expect("a server")
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one_and_use_all_of_them() {
    if !can_start("access::fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one_and_use_all_of_them")
    {
        return;
    }
    let server = guarded().await;
    fifty_count(&format!("redis://ann:s3cret@{}?{SETTINGS}", server.address()), "least rights");
    let used: String = server.ask(&["INFO", "commandstats"]).await.expect("it says what was used");
    for right in LEAST_RIGHTS.split_ascii_whitespace().filter_map(|word| word.strip_prefix('+')) {
        assert!(used.contains(&format!("cmdstat_{right}:")), "{right} is a right of no use: {used}");
    }
}

#[test]
fn the_guide_shows_the_least_rights() {
    let guide = include_str!("../../../../docs/guide/redis.md");
    for right in LEAST_RIGHTS.split_ascii_whitespace() {
        assert!(guide.split_ascii_whitespace().any(|word| word.trim_matches('\'') == right), "{right}");
    }
}

/// A server that answers each client as an HTTP server does.
async fn http_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 256]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_lock_says_why_in_one_line() {
    if !can_start("access::a_command_that_cannot_lock_says_why_in_one_line") {
        return;
    }
    let server = guarded().await;
    let replica = Setup::new().replica_of(&Server::standalone().await.expect("a server"));
    let replica = replica.start().await.expect("a replica");
    let unused = ReservedPort::take().expect("a port");
    let address = server.address();
    for (url, words) in [
        (format!("redis://ann:s3cret2@{address}"), ["password is wrong", ""]),
        (format!("redis://nemo:x@{address}"), ["does not know the user", ""]),
        (format!("redis://{address}"), ["asks for a password", ""]),
        (format!("redis://bob:s3cret@{address}"), ["lacks the right", "'zadd'"]),
        (format!("redis://ann:s3cret@{address}?base=app"), ["lacks the right", "key"]),
        (format!("redis://{}?connect_timeout=1s", replica.address()), ["replica", "takes no writes"]),
        (format!("redis://{}?connect_timeout=1s", unused.address()), ["refused", "cannot be reached"]),
        (format!("redis://{}", http_server().await), ["HTTP server", ""]),
        (format!("redis+sentinel://:another-s3cret@{address}/main"), ["no sentinel", ""]),
    ] {
        assert_refused(&url, &words);
    }
}
