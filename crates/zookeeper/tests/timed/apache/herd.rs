//! No waiter is woken in vain: a release wakes the one whose turn it is, by the server's own count.

use std::collections::BTreeMap;

use lockkeeper_conformance::{Party, is_joined, until};
use lockkeeper_faults::zookeeper::words::Packets;
use lockkeeper_faults::zookeeper::{Server, Setup};

use super::SERVER;
use crate::support::way;
use crate::turn;

const LOCK: &str = "herd";

/// Long enough that a measurement has hardly a ping or a proof in it.
const SETTINGS: &str = "?session_timeout=40s";

/// The packets of a keeper's session between two looks, without those of the looks.
async fn packets_between(before: Packets, server: &Server) -> Packets {
    let now = server.packets().await.unwrap();
    let again = server.packets().await.unwrap();
    let less = |now: u64, again: u64, before: u64| now - before - (again - now);
    Packets {
        received: less(now.received, again.received, before.received),
        sent: less(now.sent, again.sent, before.sent),
    }
}

/// Waits until this many contenders have joined and have set their watches: then they send nothing more.
async fn settled(server: &Server, party: &Party, joined: usize, watches: u64) {
    party.journal.until_count("the joins", joined, is_joined).await;
    until("all watches are set", async || server.watches().await.unwrap() >= watches).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_tasks_on_one_mutex_hand_it_on_with_hardly_more_than_a_packet_each() {
    if !SERVER.can_start() {
        return;
    }
    let _turn = turn().await;
    const TASKS: usize = 64;
    let server = Server::standalone(Setup::new()).await.unwrap();
    let party = way::party(server.address(), SETTINGS);
    let mutex = party.keeper.mutex(LOCK).unwrap();
    let first = mutex.lock().await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
        })
        .collect();
    settled(&server, &party, 1 + TASKS, TASKS as u64).await;
    let before = server.packets().await.unwrap();
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let packets = packets_between(before, &server).await;
    let each = packets.received as f64 / (TASKS + 1) as f64;
    println!("{} packets for {} hand-offs: {each:.2} each", packets.received, TASKS + 1);
    assert!(each <= 2.2, "{each:.2} packets a hand-off");
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_writers_and_then_sixteen_readers_are_drained_in_55_packets() {
    if !SERVER.can_start() {
        return;
    }
    let _turn = turn().await;
    const WRITERS: usize = 8;
    const READERS: usize = 16;
    let server = Server::standalone(Setup::new()).await.unwrap();
    let party = way::party(server.address(), SETTINGS);
    let lock = party.keeper.rw_lock(LOCK).unwrap();
    let first = lock.write().await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move { lock.write().await.unwrap().release().await.unwrap() }));
    }
    party.journal.until_count("the joins", 1 + WRITERS, is_joined).await;
    for _ in 0..READERS {
        let lock = lock.clone();
        tasks.push(tokio::spawn(async move { lock.read().await.unwrap().release().await.unwrap() }));
    }
    // Each waiter watches itself, each writer the one ahead of it, and all readers the last writer.
    settled(&server, &party, 1 + WRITERS + READERS, (WRITERS + READERS) as u64).await;
    let before = server.packets().await.unwrap();
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let packets = packets_between(before, &server).await;
    println!("{} packets for 9 writers and 16 readers", packets.received);
    assert!(packets.received <= 55, "{} packets", packets.received);
}

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
