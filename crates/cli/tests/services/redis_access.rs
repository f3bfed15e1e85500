//! Redis: commands of a user with the least rights, and of users and at servers that are of no use.

use std::net::SocketAddr;

use lockkeeper_faults::ports::ReservedPort;
use lockkeeper_faults::redis::{Cluster, Sentinels, Server, Setup, sentinel_availability};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::services::Service;
use crate::site::{BRIEFLY, SETTINGS, Site, assert_refused};
use crate::support::can_run;

/// The line of the guide, `docs/guide/redis.md`, for a user of the base `lockkeeper`.
pub(crate) const LEAST_RIGHTS: &str = "\
    resetchannels ~{lockkeeper}* -@all +hello +auth +client|setname +client|tracking +client|caching \
    +script|load +evalsha +time +get +set +del +exists +pexpire +hget +hmget +hset +hdel +zadd +zrem \
    +zscore +zcard +zcount +zrange +zrangebyscore +zrangebylex";

async fn guarded() -> Option<Server> {
    if !Service::Redis.can_start() {
        return None;
    }
    let bob = LEAST_RIGHTS.replace(" +zadd", "");
    let [ann, bob] = [format!("ann on >s3cret {LEAST_RIGHTS}"), format!("bob on >s3cret {bob}")];
    let setup = Setup::new().user(&ann).user(&bob).password("another-s3cret");
    Some(setup.start().await.expect("a server"))
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one_and_use_all_of_them() {
    let Some(server) = guarded().await else { return };
    let site = Site::of(&format!("redis://ann:s3cret@{}?{SETTINGS}", server.address()));
    site.fifty_count("Redis, least rights");
    break_a_holder(&site);
    let used: String = server.ask(&["INFO", "commandstats"]).await.expect("it says what was used");
    for right in LEAST_RIGHTS.split_ascii_whitespace().filter_map(|word| word.strip_prefix('+')) {
        assert!(used.contains(&format!("cmdstat_{right}:")), "{right} is a right of no use: {used}");
    }
}

/// Breaks a holder, whose command is ended then.
fn break_a_holder(site: &Site) {
    let holder = site.start(&["-q"], "job", "echo $LOCKKEEPER_TOKEN > token; echo $$ > child; exec sleep 600", &[]);
    site.note("child");
    site.printed(&["break", "job", "--token", site.read("token").trim()]);
    let ended = holder.end();
    assert_eq!(ended.code, Some(123), "{ended:?}");
    site.assert_nothing_left();
}

#[test]
fn the_guide_shows_the_least_rights() {
    let guide = include_str!("../../../../docs/guide/redis.md");
    for right in LEAST_RIGHTS.split_ascii_whitespace() {
        assert!(guide.split_ascii_whitespace().any(|word| word.trim_matches('\'') == right), "{right}");
    }
}

/// A server that says the next of these whenever a client has said something, and then no more.
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

/// A greeting such as Redis 7.0's, and that of a proxy that has no tracking, when it is asked for that.
const WITHOUT_TRACKING: &[&[u8]] = &[
    b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
    b"+OK\r\n-ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.\r\n+OK\r\n\
      %2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_lock_says_why_in_one_line() {
    let Some(server) = guarded().await else { return };
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
        (format!("redis://{}?{BRIEFLY}", replica.address()), ["replica", "takes no writes"]),
        (format!("redis://{}?{BRIEFLY}", unused.address()), ["refused", "cannot be reached"]),
        (format!("redis://{}", stranger(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]).await), ["HTTP server", ""]),
        (format!("redis://{}", stranger(&[b"-ERR unknown command 'HELLO'\r\n"]).await), ["RESP3", "proxy"]),
        (format!("redis://{}", stranger(WITHOUT_TRACKING).await), ["CLIENT TRACKING", "locks need"]),
        (
            format!("redis://{}?{BRIEFLY}", stranger(&[b"-LOADING Redis is loading\r\n"]).await),
            ["loading its data", ""],
        ),
    ] {
        assert_refused(&url, &words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_cluster_is_down_says_so_in_one_line() {
    if !Service::Redis.can_start() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
    let owner = &cluster.servers()[cluster.owner(slot).await.expect("it is served")];
    owner.ask::<()>(&["CLUSTER", "DELSLOTS", &slot.to_string()]).await.expect("none serves it");
    // It is refused as soon as the server answers, which may wait for its disk.
    assert_refused(&format!("redis://{}", owner.address()), &["the cluster is down"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_finds_no_master_by_sentinels_says_why_in_one_line() {
    if !can_run(sentinel_availability()) {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let (sentinel, master) = (service.addresses()[0], service.servers()[0].address());
    let unused = ReservedPort::take().expect("a port");
    for (url, words) in [
        (format!("redis+sentinel://{sentinel}/orders"), ["knows no master `orders`", ""]),
        (format!("redis+sentinel://{}/main?{BRIEFLY}", unused.address()), ["sentinel", "cannot be reached"]),
        (format!("redis+sentinel://{master}/main"), ["no sentinel", ""]),
        (format!("redis://{sentinel}"), ["this is a sentinel", "redis+sentinel:"]),
    ] {
        assert_refused(&url, &words);
    }
    // What is wrong in the URL itself is told by the file that has it.
    let ended = Site::of(&format!("redis+sentinel://{sentinel}")).run(&["run", "-n", "count", "--", "true"]);
    ended.assert_refused(125, &["names the master, as in redis+sentinel://"]);
}
