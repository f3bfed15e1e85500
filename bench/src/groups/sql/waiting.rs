//! One waiter: how soon after a release it has the lock, beside a lock that asks every 100 ms.

use std::time::Duration;

use super::super::bench::Bench;
use super::super::ours;
use super::server::Server;
use crate::load::{Stopwatch, median};
use crate::report::Group;
use crate::{Failed, Outcome};

/// How many hand-offs from one to another are measured in one round.
const HAND_OFFS: usize = 8;

const NAME: &str = "waiting";

/// Measures; answers the median hand-off of ours, in seconds.
pub(super) async fn measure(server: &Server, bench: &mut Bench) -> Outcome<f64> {
    let mut ours_s = Vec::new();
    for round in 0..bench.effort.rounds() {
        let numbers = round * HAND_OFFS..round * HAND_OFFS + bench.effort.turns(HAND_OFFS);
        let times = bench.turns.each(async |number| match number {
            0 => ours_between_two(server, numbers.clone()).await,
            _ => theirs_between_two(server, numbers.clone()).await,
        });
        let [ours, theirs] = times.await?;
        bench.shelf(Group::Sql, server.name()).beside("one-waiter", ours, theirs);
        ours_s.push(ours);
    }
    Ok(median(ours_s))
}

/// Hand-offs between two clients, each in its turn a holder and a waiter.
async fn ours_between_two(server: &Server, numbers: impl Iterator<Item = usize>) -> Outcome<f64> {
    let keepers = [server.keeper()?, server.keeper()?];
    let mutexes = [keepers[0].mutex(NAME)?, keepers[1].mutex(NAME)?];
    // Opens the session of the other one.
    ours::lock_and_release(&mutexes[1]).await?;
    let mut held = mutexes[0].lock().await?;
    let mut times = Vec::new();
    for (turn, number) in numbers.enumerate() {
        let waiter = mutexes[(turn + 1) % 2].clone();
        let waiting = tokio::spawn(async move { waiter.lock().await });
        tokio::time::sleep(pause(number)).await;
        let watch = Stopwatch::start();
        held.release().await?;
        held = waiting.await??;
        times.push(watch.elapsed().as_secs_f64());
    }
    held.release().await?;
    for keeper in keepers {
        keeper.close().await?;
    }
    Ok(median(times))
}

async fn theirs_between_two(server: &Server, numbers: impl Iterator<Item = usize>) -> Outcome<f64> {
    let mut ann = server.shedlock(NAME, "ann").await?;
    let mut bob = server.shedlock(NAME, "bob").await?;
    ann.lock(NAME).await?;
    let mut times = Vec::new();
    for number in numbers {
        let waiting = tokio::spawn(async move {
            bob.lock(NAME).await?;
            Ok::<_, Failed>(bob)
        });
        tokio::time::sleep(pause(number)).await;
        let watch = Stopwatch::start();
        ann.release(NAME).await?;
        let next = waiting.await??;
        times.push(watch.elapsed().as_secs_f64());
        (ann, bob) = (next, ann);
    }
    ann.release(NAME).await?;
    Ok(median(times))
}

/// How long the waiter has waited when the lock is given back: a tenth of a second and another part of one each time.
fn pause(number: usize) -> Duration {
    let part = u64::try_from(number * 37 % 100).unwrap_or_default();
    Duration::from_millis(100 + part)
}
