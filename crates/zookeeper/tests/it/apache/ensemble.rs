//! Many clients on an ensemble that loses its servers one after another.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use lockkeeper_recipes::Keeper;

use crate::support::way;

use super::SERVER;

const CLIENTS: usize = 8;

/// How often each takes the lock at least; they go on until the servers are back.
const ROUNDS: u32 = 20;

fn read(file: &PathBuf) -> u64 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Counts the file up under the lock until told to stop, and returns how often; a count under a lost hold is left out.
async fn count(keeper: Keeper, file: PathBuf, mut stop: tokio::sync::watch::Receiver<bool>) -> u64 {
    let mutex = keeper.mutex("counter").unwrap();
    let (mut counted, mut rounds) = (0, 0);
    while rounds < ROUNDS || !*stop.borrow_and_update() {
        rounds += 1;
        let guard = mutex.lock().await.unwrap();
        let before = read(&file);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if guard.hold().is_held() {
            fs::write(&file, (before + 1).to_string()).unwrap();
            counted += 1;
        }
        // A lost hold reports an error; what was counted was counted under the lock.
        let _ = guard.release().await;
    }
    counted
}

#[tokio::test]
async fn nothing_is_counted_twice_while_follower_and_leader_are_killed_and_restarted() {
    if !SERVER.can_start() {
        return;
    }
    let mut ensemble = Ensemble::start(3, Setup::new().tick(Duration::from_millis(500))).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "0").unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let parties: Vec<_> =
        (0..CLIENTS).map(|_| way::party(ensemble.connect_string(), "?session_timeout=10s&tick=500ms")).collect();
    let counting: Vec<_> = parties
        .iter()
        .map(|party| tokio::spawn(count(party.keeper.clone(), file.path().to_owned(), stopped.clone())))
        .collect();
    for kill_leader in [false, true, false] {
        let victim = if kill_leader { ensemble.leader().await.unwrap() } else { ensemble.follower().await.unwrap() };
        ensemble.server_mut(victim).kill();
        let so_far = read(&file.path().to_owned());
        let goes_on = async || (read(&file.path().to_owned()) > so_far + 5).then_some(());
        lockkeeper_faults::wait::until("counting with two servers", SOON, goes_on).await.unwrap();
        ensemble.server_mut(victim).start().unwrap();
        ensemble.serving().await.unwrap();
    }
    stop.send_replace(true);
    let mut counted = 0;
    for task in counting {
        counted += soon("the end of the counting", task).await.unwrap();
    }
    assert_eq!(read(&file.path().to_owned()), counted);
    assert!(counted >= u64::from(ROUNDS) * CLIENTS as u64);
    let rejoined: usize = parties
        .iter()
        .map(|party| party.journal.count(|event| matches!(event, lockkeeper_recipes::Event::Rejoining { .. })))
        .sum();
    eprintln!("counted {counted} by {CLIENTS} clients over three kills; {rejoined} joined again");
}
