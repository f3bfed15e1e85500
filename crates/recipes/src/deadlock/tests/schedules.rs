//! Random schedules of keys and plain flows, in a table and through a keeper, each beside the plain simulation.

use std::collections::BTreeMap;

use lockkeeper_conformance::{Random, seed};
use lockkeeper_core::{ErrorKind, Result, Wait};
use tokio::task::JoinHandle;

use crate::deadlock::Want;
use crate::deadlock::search::circle;
use crate::deadlock::table::KeyTable;
use crate::deadlock::tests::plain::{PERMITS, Plain};
use crate::deadlock::tests::tables::{holds, waits};
use crate::tests::{service, yield_often};
use crate::{Keeper, OwnerKey};

const FLOWS: usize = 6;
const LOCKS: usize = 4;
const STEPS: usize = 60;
const TABLES: usize = 2_000;
const KEEPERS: usize = 60;

/// What one flow does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask(Want),
    GiveUp,
    GiveBack,
}

/// The locks with an odd number are semaphores.
fn step(random: &mut Random, plain: &Plain) -> Option<(usize, usize, Step)> {
    let (flow, lock) = (random.below(FLOWS as u64) as usize, random.below(LOCKS as u64) as usize);
    if plain.waits(flow) {
        let is_here = plain.locks[lock].waits(flow) && random.below(8) == 0;
        return is_here.then_some((flow, lock, Step::GiveUp));
    }
    let is_semaphore = lock % 2 == 1;
    if plain.has(flow, lock) && (!is_semaphore || random.below(3) > 0) {
        return (random.below(4) == 0).then_some((flow, lock, Step::GiveBack));
    }
    let want = match (is_semaphore, random.below(2)) {
        (true, some) => Want::Permits { wanted: 1 + some as u32, of: Some(PERMITS as u32) },
        (false, 0) => Want::Alone,
        (false, _) => Want::Share,
    };
    Some((flow, lock, Step::Ask(want)))
}

fn lock_name(lock: usize) -> String {
    format!("lock-{lock}")
}

fn flows(random: &mut Random) -> Vec<bool> {
    (0..FLOWS).map(|_| random.below(4) > 0).collect()
}

/// Keeps a table as keepers do: an entry for what each key waits for, and one for each hold.
#[derive(Default)]
struct Noted {
    table: KeyTable,
    waits: BTreeMap<usize, (usize, usize, Want)>,
    holds: BTreeMap<(usize, usize), Vec<usize>>,
}

impl Noted {
    fn hold(&mut self, flow: usize, lock: usize, want: Want) {
        let (count, want) = match want {
            Want::Permits { wanted, of } => (wanted, Want::Permits { wanted: 1, of }),
            want => (1, want),
        };
        for _ in 0..count {
            let number = holds(&mut self.table, flow as u64, &lock_name(lock), want);
            self.holds.entry((flow, lock)).or_default().push(number);
        }
    }

    fn forget_wait(&mut self, flow: usize) -> Option<(usize, Want)> {
        let (number, lock, want) = self.waits.remove(&flow)?;
        drop(self.table.remove(number));
        Some((lock, want))
    }
}

/// Plays one schedule in a table; returns how many were refused.
fn play(random: &mut Random) -> usize {
    let mut plain = Plain::new(LOCKS, flows(random));
    let (mut noted, mut refused) = (Noted::default(), 0);
    for place in 0..STEPS {
        let Some((flow, lock, step)) = step(random, &plain) else { continue };
        let is_key = plain.is_key(flow);
        match step {
            Step::Ask(want) => {
                plain.ask(flow, lock, want);
                if is_key && !plain.waits(flow) {
                    noted.hold(flow, lock, want);
                } else if is_key {
                    let number = waits(&mut noted.table, flow as u64, &lock_name(lock), want, place as u64);
                    noted.waits.insert(flow, (number, lock, want));
                    let found = circle(&noted.table, number);
                    assert_eq!(found.is_some(), plain.is_stuck(flow), "{flow} at {lock}: {found:#?} {plain:#?}");
                    if let Some(found) = found {
                        let ends = (found[0].waiter.number, found[found.len() - 1].ahead.number);
                        assert_eq!(ends, (flow as u64, flow as u64), "{found:#?}");
                        assert!(found.windows(2).all(|pair| pair[0].ahead == pair[1].waiter), "{found:#?}");
                        refused += 1;
                        plain.give_up(flow, lock);
                        noted.forget_wait(flow);
                    }
                }
            }
            Step::GiveUp => {
                plain.give_up(flow, lock);
                noted.forget_wait(flow);
            }
            Step::GiveBack => {
                plain.give_back(flow, lock);
                for number in noted.holds.remove(&(flow, lock)).unwrap_or_default() {
                    drop(noted.table.remove(number));
                }
            }
        }
        for granted in (0..FLOWS).filter(|&flow| !plain.waits(flow)) {
            if let Some((lock, want)) = noted.forget_wait(granted) {
                noted.hold(granted, lock, want);
            }
        }
    }
    refused
}

#[test]
fn a_table_refuses_what_a_plain_simulation_finds_stuck_and_nothing_else() {
    let seed = seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-recipes plain_simulation");
    let mut random = Random::new(seed);
    let refused: usize = (0..TABLES).map(|_| play(&mut random)).sum();
    assert!(refused > TABLES / 10, "{refused} of {TABLES} schedules are no test");
}

type Guards = Vec<Box<dyn Send>>;

/// Asks as a key, or as a plain task.
fn ask(keeper: &Keeper, key: Option<OwnerKey>, lock: usize, want: Want) -> JoinHandle<Result<Guards>> {
    let (keeper, lock) = (keeper.clone(), lock_name(lock));
    tokio::spawn(async move {
        let guards: Guards = match (key, want) {
            (Some(key), Want::Share) => vec![Box::new(key.read(&keeper.rw_lock(&lock)?).await?)],
            (Some(key), Want::Alone) => vec![Box::new(key.write(&keeper.rw_lock(&lock)?).await?)],
            (None, Want::Share) => vec![Box::new(keeper.rw_lock(&lock)?.read().await?)],
            (None, Want::Alone) => vec![Box::new(keeper.rw_lock(&lock)?.write().await?)],
            (key, Want::Permits { wanted, .. }) => {
                let semaphore = keeper.semaphore(&lock, PERMITS as u32)?;
                let permits = match key {
                    Some(key) => key.acquire_many_within(&semaphore, wanted, Wait::Forever).await?,
                    None => Some(semaphore.acquire_many(wanted).await?),
                };
                permits.into_iter().flatten().map(|permit| Box::new(permit) as Box<dyn Send>).collect()
            }
        };
        Ok(guards)
    })
}

/// Plays one schedule through a keeper; returns how many were refused.
async fn play_through_a_keeper(random: &mut Random) -> usize {
    let keeper = service().keeper();
    let mut plain = Plain::new(LOCKS, flows(random));
    let keys: Vec<_> = (0..FLOWS).map(|flow| plain.is_key(flow).then(OwnerKey::new)).collect();
    let mut asked: BTreeMap<usize, (usize, JoinHandle<Result<Guards>>)> = BTreeMap::new();
    let mut held: BTreeMap<(usize, usize), Guards> = BTreeMap::new();
    let mut refused = 0;
    for _ in 0..STEPS {
        let Some((flow, lock, step)) = step(random, &plain) else { continue };
        match step {
            Step::Ask(want) => {
                plain.ask(flow, lock, want);
                asked.insert(flow, (lock, ask(&keeper, keys[flow].clone(), lock, want)));
                yield_often().await;
                if plain.is_key(flow) && plain.waits(flow) && plain.is_stuck(flow) {
                    let (_, asked) = asked.remove(&flow).unwrap();
                    assert!(asked.is_finished(), "{flow} waits at {lock}: {plain:#?}");
                    let error = asked.await.unwrap().err().expect("it cannot have been granted");
                    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
                    plain.give_up(flow, lock);
                    refused += 1;
                }
            }
            Step::GiveUp => {
                let (_, asked) = asked.remove(&flow).unwrap();
                asked.abort();
                assert!(asked.await.is_err());
                plain.give_up(flow, lock);
            }
            Step::GiveBack => {
                held.remove(&(flow, lock));
                plain.give_back(flow, lock);
            }
        }
        yield_often().await;
        for (flow, (lock, call)) in std::mem::take(&mut asked) {
            assert_eq!(call.is_finished(), !plain.waits(flow), "{flow} at {lock}: {plain:#?}");
            if plain.waits(flow) {
                asked.insert(flow, (lock, call));
            } else {
                held.entry((flow, lock)).or_default().extend(call.await.unwrap().unwrap());
            }
        }
    }
    asked.values().for_each(|(_, call)| call.abort());
    for (_, call) in asked.into_values() {
        // One that is given up may let another one in, whose end comes too late then.
        drop(call.await);
    }
    drop(held);
    assert!(keeper.shared.keys.lock().is_empty(), "an entry was left");
    refused
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_keeper_are_refused_as_a_plain_simulation_says_and_no_call_else() {
    let seed = seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-recipes plain_simulation");
    let mut random = Random::new(seed);
    let mut refused = 0;
    for _ in 0..KEEPERS {
        refused += play_through_a_keeper(&mut random).await;
    }
    assert!(refused > KEEPERS / 10, "{refused} of {KEEPERS} schedules are no test");
}
