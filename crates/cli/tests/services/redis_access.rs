//! Redis: commands of a user with the least rights, and of a cluster that is down.

use lockkeeper_faults::redis::{Cluster, Setup};

use crate::services::Service;
use crate::site::{SETTINGS, Site};

/// The line of the guide, `docs/guide/redis.md`, for a user of the base `lockkeeper`.
const LEAST_RIGHTS: &str = "\
    resetchannels ~{lockkeeper}* -@all +hello +auth +client|setname +client|tracking +client|caching \
    +script|load +evalsha +time +get +set +del +exists +pexpire +hget +hmget +hset +hdel +zadd +zrem \
    +zscore +zcard +zcount +zrange +zrangebyscore +zrangebylex";

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one_and_use_all_of_them() {
    if !Service::Redis.can_start() {
        return;
    }
    let setup = Setup::new().user(&format!("ann on >s3cret {LEAST_RIGHTS}")).password("another-s3cret");
    let server = setup.start().await.expect("a server");
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
    let ended = Site::of(&format!("redis://{}", owner.address())).run(&["run", "-n", "count", "--", "true"]);
    ended.assert_refused(125, &["lockkeeper: count: ", "the cluster is down"]);
}
