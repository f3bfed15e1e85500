//! `history` beside fleets: each of their short grants is in it by its fencing token, or is one of those that it counts
//! as not seen; Curator's and kazoo's, which have no tokens of ours, by their number.

use std::collections::BTreeSet;
use std::time::Duration;

use lockkeeper_faults::peers::{Ground, Kind, Peer, curator, kazoo};
use lockkeeper_faults::{figures, long};
use lockkeeper_zk_server::EmbeddedServer;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::crossing::place_of;
use crate::monitor::Monitor;
use crate::services::{self, Service, on_each};
use crate::support::{PATIENCE, Place, can_run, eventually};

/// The lock that all take.
const LOCK: &str = "busy";

/// How many processes of ours take it, as far as the service can tell, and how often each.
const KEEPERS: usize = 4;
const ROUNDS: usize = 50;

/// How often in the long run.
const ROUNDS_LONG: usize = 225;

/// How long each holds it: so short that looks miss some.
const HOLDS_FOR: Duration = Duration::from_millis(2);

/// How many threads Curator and kazoo have each, and how often each of these takes the lock.
const PEER_TURNS: (u32, u32) = (2, 20);

/// Has a fleet of ours take the lock; returns the tokens of its grants.
async fn fleet(url: &str) -> BTreeSet<String> {
    let mut contenders = JoinSet::new();
    let rounds = if long::is_asked_for() { ROUNDS_LONG } else { ROUNDS };
    for _ in 0..KEEPERS {
        let keeper = lockkeeper::connect(url).unwrap();
        contenders.spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..rounds {
                let guard = keeper.mutex(LOCK).unwrap().lock().await.unwrap();
                tokens.push(guard.fencing_token().to_string());
                tokio::time::sleep(HOLDS_FOR).await;
                guard.release().await.unwrap();
            }
            keeper.close().await.unwrap();
            tokens
        });
    }
    contenders.join_all().await.into_iter().flatten().collect()
}

/// What a monitor has seen of the lock.
struct SeenGrants {
    tokens: BTreeSet<String>,
    /// How many grants it has, those of other clients too.
    grants: usize,
    /// How many more it says that there were.
    missed: u64,
}

impl SeenGrants {
    fn of(past: &Value) -> Self {
        let holds = past["holds"].as_array().unwrap();
        let tokens: BTreeSet<_> = holds.iter().filter_map(|hold| hold["token"].as_str()).map(str::to_owned).collect();
        Self { tokens, grants: holds.len(), missed: past["lock"]["missed"].as_u64().unwrap_or(0) }
    }

    /// How many grants it lacks of a fleet with these tokens, and of so many of other clients.
    fn lacking(&self, tokens: &BTreeSet<String>, others: usize) -> u64 {
        let of_fleet = tokens.intersection(&self.tokens).count();
        (tokens.len() - of_fleet + others.saturating_sub(self.grants - of_fleet)) as u64
    }
}

/// Starts a monitor that knows the lock: what comes before it is followed is not seen.
async fn watching(place: &Place, url: &str) -> (Monitor, BTreeSet<String>) {
    let monitor = Monitor::start(place, &[]);
    monitor.until_seen();
    let keeper = lockkeeper::connect(url).unwrap();
    let guard = keeper.mutex(LOCK).unwrap().lock().await.unwrap();
    let first = guard.fencing_token().to_string();
    monitor.until("the first hold", &path(), |past| SeenGrants::of(past).tokens.contains(&first));
    guard.release().await.unwrap();
    monitor.until("its end", &path(), |past| past["holds"][0]["ended"] == "left");
    (monitor, BTreeSet::from([first]))
}

fn path() -> String {
    format!("/api/locks/{LOCK}/history?limit=10000")
}

/// Asserts that the monitor has each grant, or counts it.
fn assert_all_known(monitor: &Monitor, who: &str, tokens: &BTreeSet<String>, others: usize) {
    let judged = |past: &Value| {
        let seen = SeenGrants::of(past);
        (seen.lacking(tokens, others), seen.missed)
    };
    eventually("each grant is seen or counted", || {
        let (lacking, missed) = judged(&monitor.json(&path()));
        println!("{lacking} grants are not in the history, and {missed} are counted");
        (lacking == missed).then_some(())
    });
    let past = monitor.json(&path());
    assert_eq!(past["gaps"].as_array().map(Vec::len), Some(0), "{past}");
    let (lacking, missed) = judged(&past);
    assert_eq!(lacking, missed, "as many are said to be missing as are");
    let all = tokens.len() + others;
    figures::tell(&format!("history, {who}: of {all} grants of {HOLDS_FOR:?} {lacking} not seen, {missed} counted"));
}

async fn every_grant_is_known(place: Place, url: &str, who: &str) -> u64 {
    let (monitor, mut tokens) = watching(&place, url).await;
    tokens.append(&mut fleet(url).await);
    assert_all_known(&monitor, who, &tokens, 0);
    SeenGrants::of(&monitor.json(&path())).missed
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grant_of_a_fleet_is_in_the_history_on_files() {
    let place = Place::new();
    let url = place.service();
    assert_eq!(every_grant_is_known(place, &url, "files").await, 0, "the kernel reports all by their names");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grant_of_a_fleet_is_in_the_history_or_counted_on_the_embedded_server() {
    let server = EmbeddedServer::start().await.unwrap();
    let url = format!("zk://{}?session_timeout=40s", server.address().unwrap());
    every_grant_is_known(Place::of(&url), &url, "the embedded server").await;
}

async fn on_a_service(service: Service, server: services::Server) {
    let place = place_of(&server.url());
    let url = format!("{}?session_timeout=40s", server.url());
    let missed = every_grant_is_known(place, &url, service.name()).await;
    assert!(missed == 0 || service != Service::Etcd, "etcd tells of each");
}

on_each! { on_a_service:
    ZooKeeper "monitor" every_grant_of_a_fleet_is_in_the_history_or_counted_on_zookeeper;
    Etcd "etcd" every_grant_of_a_fleet_is_in_the_history_on_etcd;
    Redis "redis" every_grant_of_a_fleet_is_in_the_history_or_counted_on_redis;
    PostgreSql "postgres" every_grant_of_a_fleet_is_in_the_history_or_counted_on_postgresql;
    MariaDb "mysql" every_grant_of_a_fleet_is_in_the_history_or_counted_on_mariadb;
}

/// Has a peer take the lock again and again; returns how often it did.
async fn turns(mut peer: Peer, kind: Kind, ground: Ground) -> usize {
    let path = format!("/lockkeeper/{LOCK}");
    let most = peer.take_turns(kind, &path, &ground, PEER_TURNS, PATIENCE).await.unwrap();
    assert_eq!(most, 1, "it was alone");
    (PEER_TURNS.0 * PEER_TURNS.1) as usize
}

#[tokio::test(flavor = "multi_thread")]
async fn every_grant_of_a_fleet_with_curator_and_kazoo_is_in_the_history_or_counted() {
    if !can_run(curator::availability()) || !can_run(kazoo::availability()) {
        return;
    }
    let Some(server) = Service::ZooKeeper.start().await else { return };
    let place = place_of(&server.url());
    let url = format!("{}?session_timeout=40s", server.url());
    let (address, timeout) = (server.address().to_string(), Duration::from_secs(40));
    let curator = curator::start(&address, timeout).await.unwrap();
    let kazoo = kazoo::start(&address, timeout).await.unwrap();
    let (monitor, mut tokens) = watching(&place, &url).await;
    let ground = Ground::new().unwrap();
    let (ours, of_curator, of_kazoo) = tokio::join!(
        fleet(&url),
        turns(curator, Kind::Mutex, ground.clone()),
        turns(kazoo, Kind::CuratorNamedMutex, ground.clone())
    );
    tokens.extend(ours);
    assert_eq!(ground.faults().unwrap(), [""; 0]);
    assert_all_known(&monitor, "ZooKeeper, with Curator and kazoo", &tokens, of_curator + of_kazoo);
}
