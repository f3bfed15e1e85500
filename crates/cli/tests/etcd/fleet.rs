//! Many commands on a cluster of three, while its leader is killed and restarted.

use lockkeeper_faults::etcd::Cluster;
use lockkeeper_faults::{figures, wait};

use crate::machine::{COUNT, NOTE, SOON, Site};
use crate::site::{assert_nothing_left, can_start, cluster, site};
use crate::support::now;

/// Long enough for an election, and for commands that are started fifty at once; and short, since a request to a member
/// without a leader is given up after a part of it.
const SETTINGS: &str = "?session_timeout=10s";

/// How many commands count at once.
const COUNTING: u32 = 50;

/// How many have counted when the leader is killed.
const BEFORE: u32 = 5;

/// How many are served in order.
const IN_ORDER: usize = 20;

async fn until_counted(site: &Site, number: u32) {
    // Empty for a moment while it is written.
    let reached = async || site.read("counter").trim().parse().ok().filter(|&counted: &u32| counted >= number);
    wait::until(&format!("counting up to {number}"), SOON, reached).await.unwrap();
}

async fn restart(cluster: &mut Cluster, index: usize, site: &Site) {
    cluster.server_mut(index).start().unwrap();
    cluster.serving().await.unwrap();
    site.write("restarted", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_count_without_losing_one_while_the_leader_is_killed_and_restarted() {
    if !can_start("fleet::fifty_commands_count_without_losing_one_while_the_leader_is_killed_and_restarted") {
        return;
    }
    let mut cluster = cluster().await;
    let site = site(&cluster, SETTINGS);
    site.write("counter", "0\n");
    let begun = now();
    let gate = (COUNTING / 2).to_string();
    let commands = (0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, std::slice::from_ref(&gate))).collect();
    until_counted(&site, BEFORE).await;
    let leader = cluster.leader().await.unwrap();
    cluster.server_mut(leader).kill();
    until_counted(&site, COUNTING / 2).await;
    restart(&mut cluster, leader, &site).await;
    site.succeed(commands);
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    let took = begun.elapsed().as_secs_f64();
    figures::tell(&format!("etcd fleet: {COUNTING} counted in {took:.1} s, none lost; the leader was killed"));
    assert_nothing_left(&cluster, &site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_commands_are_served_in_the_order_they_joined_while_the_leader_is_killed_and_restarted() {
    if !can_start("fleet::twenty_commands_are_served_in_the_order_they_joined_while_the_leader_is_killed_and_restarted")
    {
        return;
    }
    let mut cluster = cluster().await;
    let site = site(&cluster, SETTINGS);
    let middle = (IN_ORDER / 2).to_string();
    let holder = site.place.hold("order");
    let mut commands = Vec::new();
    let mut killed = None;
    for number in 0..IN_ORDER {
        if number == IN_ORDER / 2 {
            let leader = cluster.leader().await.unwrap();
            cluster.server_mut(leader).kill();
            killed = Some(leader);
        }
        commands.push(site.join("order", number + 1, NOTE, &[number.to_string(), middle.clone()]));
    }
    holder.end();
    let half: String = (0..IN_ORDER / 2).map(|number| format!("{number}\n")).collect();
    let served =
        async || site.notes().join("served").exists().then(|| site.read("served")).filter(|served| *served == half);
    wait::until("the first half", SOON, served).await.unwrap();
    restart(&mut cluster, killed.expect("one was killed"), &site).await;
    site.succeed(commands);
    let expected: String = (0..IN_ORDER).map(|number| format!("{number}\n")).collect();
    assert_eq!(site.read("served"), expected);
    assert_nothing_left(&cluster, &site).await;
}
