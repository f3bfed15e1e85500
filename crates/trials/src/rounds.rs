//! Rounds: the same play again and again, with other random numbers.

use std::thread;

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;

use crate::{Outcome, Tally, now};

/// Plays a number of rounds in all, on so many threads at the same time; returns what they show. The plain run plays
/// a tenth.
pub fn play<Playing: Future<Output = Vec<Outcome>>>(
    rounds: u32,
    at_once: u32,
    mut random: Random,
    play: impl Fn(u32, Random) -> Playing + Sync,
) -> Tally {
    let rounds = long::rounds(rounds);
    let begun = now();
    let play = &play;
    let outcomes = thread::scope(|scope| {
        let played: Vec<_> = (0..at_once.min(rounds))
            .map(|first| {
                let mut random = random.split();
                scope.spawn(move || {
                    let mut outcomes = Vec::new();
                    for round in (first..rounds).step_by(at_once as usize) {
                        let played = runtime().block_on(play(round, random.split()));
                        played.iter().for_each(|outcome| println!("{outcome}"));
                        outcomes.extend(played);
                    }
                    outcomes
                })
            })
            .collect();
        played
            .into_iter()
            .flat_map(|played| played.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    Tally { outcomes, took: now().saturating_duration_since(begun) }
}

/// A runtime for one round.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}
