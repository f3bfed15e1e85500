//! No waiter is woken in vain: each is watched by the one behind it alone, by the server's own count.

use std::collections::BTreeMap;

use lockkeeper_conformance::{is_joined, until};
use lockkeeper_faults::zookeeper::{Server, Setup};

use super::SERVER;
use crate::support::way;
use crate::turn;

const LOCK: &str = "herd";

/// Long enough that a measurement has hardly a ping or a proof in it.
const SETTINGS: &str = "?session_timeout=40s";

#[tokio::test(flavor = "multi_thread")]
async fn every_contender_is_watched_only_by_the_one_behind_it() {
    if !SERVER.can_start() {
        return;
    }
    let _turn = turn().await;
    const WAITERS: usize = 12;
    let server = Server::standalone(Setup::new()).await.unwrap();
    let holder = way::party(server.address(), SETTINGS);
    let guard = holder.keeper.mutex(LOCK).unwrap().lock().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..WAITERS {
        let party = way::party(server.address(), SETTINGS);
        let mutex = party.keeper.mutex(LOCK).unwrap();
        let task = tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
        party.journal.until_count("a join", 1, is_joined).await;
        waiting.push((party, task));
    }
    until("all watches are set", async || server.watches().await.unwrap() >= 2 * WAITERS as u64).await;
    let owners: BTreeMap<String, u64> =
        server.ephemerals().await.unwrap().into_iter().map(|(session, path)| (path, session)).collect();
    let mut others: BTreeMap<String, usize> = owners.keys().map(|path| (path.clone(), 0)).collect();
    for (path, session) in server.watched().await.unwrap() {
        if owners.get(&path).is_some_and(|&owner| owner != session) {
            *others.get_mut(&path).unwrap() += 1;
        }
    }
    let mut counts: Vec<usize> = others.into_values().collect();
    counts.sort_unstable();
    let mut expected = vec![1; WAITERS];
    expected.insert(0, 0);
    assert_eq!(counts, expected, "watchers of each contender's node, its own session aside");
    drop(guard);
    for (_, task) in waiting {
        task.await.unwrap();
    }
    until("no watch is left", async || server.watches().await.unwrap() == 0).await;
}
