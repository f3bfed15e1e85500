//! A member of a cluster of three that stands still with a release unread, and goes on when the client has left by
//! another member and stands in the queue again.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::Enqueued;
use lockkeeper_faults::etcd::{Cluster, Release, availability_of};
use lockkeeper_faults::{figures, long};
use lockkeeper_trials::late::{Client, harm, join};
use lockkeeper_trials::waist::{door, session, ticket};

use crate::open;
use crate::service::ETCD;

/// How many releases are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 40;

/// How often it is tried at most until a release that must do harm was late.
const TRIES_MAX: u32 = 40;

/// A release goes to the next member after two seconds if renewals may take no longer.
const SETTINGS: &str = "session_timeout=8s";

/// Time for the release to reach the socket of the member.
const ON_LOOPBACK: Duration = Duration::from_millis(20);

/// Where it was seen first.
const RELEASE: Release = Release::Distro;

/// Plays a round; says what harm the late release did.
async fn play(cluster: &mut Cluster, is_planted: bool) -> Option<String> {
    let members = cluster.addresses();
    let leader = cluster.leader().await.expect("a leader");
    let mut servers = members.clone();
    let (client, stopped) = loop {
        let client = Client::open(&servers, |servers| open(servers, SETTINGS, is_planted)).await;
        let first = members.iter().position(|member| *member == servers[client.first]).expect("it is one of them");
        if first != leader {
            break (client, first);
        }
        soon("the end", client.session.close()).await.expect("the end");
        // A process begins at the same place of each list.
        servers.rotate_left(1);
    };
    // Who stands behind is a client of another member.
    let behind = (0..servers.len()).find(|&at| at != client.first).expect("there are three");
    let next = session(&*ETCD.backend(&[servers[behind]], SETTINGS)).await;
    let left = ticket();
    join(&*client.session, left).await;
    cluster.server_mut(stopped).pause().expect("it runs");
    let leaving = tokio::spawn(client.session.withdraw(&door(), left));
    tokio::time::sleep(ON_LOOPBACK).await;
    soon("the release", leaving).await.expect("no panic").expect("it was held");
    let go_on = |_: &Enqueued| cluster.server_mut(stopped).resume().expect("it runs");
    harm(&*client.session, &*next, None, go_on).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_goes_on_takes_no_release_from_a_later_contender() {
    if !availability_of(RELEASE).or_skip_here() {
        return;
    }
    let mut cluster = Cluster::start(RELEASE, 3).await.expect("a cluster");
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        assert_eq!(play(&mut cluster, false).await, None, "round {round}");
        cluster.serving().await.expect("all serve");
    }
    figures::tell(&format!("late_writes, members that stood still: 0 of {rounds} releases reached what came after"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_condition_a_member_that_goes_on_takes_the_next_contender() {
    if !availability_of(RELEASE).or_skip_here() {
        return;
    }
    let mut cluster = Cluster::start(RELEASE, 3).await.expect("a cluster");
    for tried in 1..=TRIES_MAX {
        if let Some(harm) = play(&mut cluster, true).await {
            println!("found in round {tried}: {harm}");
            return;
        }
        cluster.serving().await.expect("all serve");
    }
    panic!("none of {TRIES_MAX} came late enough to tell anything");
}
