//! Clients on an ensemble that loses its servers one by one, or its quorum, or whose leaders use up their numbers.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::LossReason;
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

#[tokio::test]
async fn without_a_quorum_a_call_ends_in_time_and_a_hold_lapses_and_locks_are_granted_once_it_is_back() {
    if !SERVER.can_start() {
        return;
    }
    let mut ensemble = Ensemble::start(3, Setup::new().tick(Duration::from_millis(500))).await.unwrap();
    let party = way::party(ensemble.connect_string(), "?session_timeout=4s&tick=500ms");
    let lock = |name| party.keeper.mutex(name).unwrap();
    let held = soon("the grant", lock("reports").lock()).await.unwrap();
    for index in 0..2 {
        ensemble.server_mut(index).pause().unwrap();
    }
    match soon("the end of the wait", lock("backups").lock_timeout(Duration::from_secs(2))).await {
        Ok(granted) => assert!(granted.is_none(), "no quorum can have heard of it"),
        Err(error) => assert!(error.is_transient(), "{error}"),
    }
    assert_eq!(soon("the loss", held.hold().lost()).await, LossReason::Lapsed);
    for index in 0..2 {
        ensemble.server_mut(index).resume().unwrap();
    }
    let next = soon("the next grant", lock("reports").lock()).await.unwrap();
    assert!(next.fencing_token() > held.fencing_token());
    assert!(!held.hold().is_held());
    soon("the release", next.release()).await.unwrap();
}

/// How many transactions a leader has before it gives up: a lock that is taken and given back is two of them.
const NUMBERS_LEFT: u32 = 30;

/// How many leaders are to use up their numbers, and how many grants that may take.
const LEADERS: usize = 3;
const GRANTS_MAX: usize = 500;

/// The lower half of a transaction's number counts those of one leader, the upper half leaders. A leader whose half is
/// used up has another one elected.
#[tokio::test]
async fn tokens_grow_and_a_hold_stands_while_leaders_use_up_their_numbers() {
    if !SERVER.can_start() {
        return;
    }
    let tick = Duration::from_millis(500);
    let first = (u32::MAX - NUMBERS_LEFT).to_string();
    let setup = Setup::new().tick(tick).entry("maxSessionTimeout", "60000");
    let setup = setup.property("zookeeper.testingonly.initialZxid", &first);
    let ensemble = Ensemble::start(3, setup).await.unwrap();
    let [ann, bob] = [(); 2].map(|()| way::party(ensemble.connect_string(), "?session_timeout=40s&tick=500ms"));
    let steady = soon("the first grant", ann.keeper.mutex("steady").unwrap().lock()).await.unwrap();
    let mutex = bob.keeper.mutex("reports").unwrap();
    let (mut tokens, mut epochs) = (vec![steady.fencing_token()], BTreeSet::new());
    while epochs.len() <= LEADERS {
        let guard = soon("a grant", mutex.lock()).await.unwrap();
        tokens.push(guard.fencing_token());
        epochs.insert(guard.fencing_token().as_u64() >> 32);
        soon("a release", guard.release()).await.unwrap();
        assert!(tokens.len() < GRANTS_MAX, "the leaders {epochs:?} go on");
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert!(steady.hold().is_held());
    soon("the last release", steady.release()).await.unwrap();
}
