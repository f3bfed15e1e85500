//! Data that is lost at once, by `FLUSHALL` and by a restart without any, and a server whose memory is full.
//!
//! Holders are told of a loss, and tokens grow over it. Where a full server evicts no key of ours, holders renew and
//! release, waiters are granted the lock, and joins are refused for as long as that lasts. Where it may evict any key,
//! the owner of an evicted contender is told.

use std::thread;
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_core::{Advice, ErrorKind, LossReason, Session};
use lockkeeper_faults::redis::{Server, Setup};
use lockkeeper_faults::{figures, long};
use lockkeeper_trials::waist::{door, entry, ticket};
use lockkeeper_trials::{Contest, Ends, Holder, Outcome, Tally, none_of, now, rounds, span};

use crate::service::REDIS;

const ROUNDS: u32 = 20;

/// So long that no hold ends by time.
const LASTING: &str = "session_timeout=20s";

const AT_ONCE: u32 = 2;

/// How long a holder may believe itself after a flush, which is told to it. It counts in the long run, beside which
/// nothing else runs.
const LOSS_TOLD_WITHIN_S: f64 = 1.0;

const LOCK: &str = "door";

pub(crate) fn play_lost(random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, async |_, _| play_loss().await);
    let told = |what: &str| {
        let of_kind = tally.outcomes.iter().filter(|outcome| outcome.what == what);
        let after = of_kind.filter_map(|outcome| Some(span(outcome.struck_at, outcome.last_held?)));
        after.fold(0.0, f64::max)
    };
    figures::tell(&format!(
        "faults: data lost: {} times, tokens grew; believed for {:.3} s at most after a flush, {:.3} s after the start \
         of a server without data",
        tally.outcomes.len(),
        told(FLUSHED),
        told(WIPED),
    ));
    if tally.outcomes.len() < 2 * long::rounds(ROUNDS) as usize {
        return Err(format!("only {} losses were played", tally.outcomes.len()));
    }
    let is_untold = |outcome: &&Outcome| outcome.ended_by != Some(LossReason::Expired);
    none_of(tally.outcomes.iter().filter(is_untold), "the holder was not told")?;
    if told(FLUSHED) > LOSS_TOLD_WITHIN_S && long::is_asked_for() {
        return Err(format!("a holder believed itself for {:.2} s after a flush", told(FLUSHED)));
    }
    tally.check_tokens()
}

const FLUSHED: &str = "all data flushed";
const WIPED: &str = "the server started without data";

async fn play_loss() -> Vec<Outcome> {
    let mut server = Server::standalone().await.expect("a server");
    let mut first = Holder::start(&REDIS, &[server.address()], LASTING, LOCK).await;
    let struck_at = now();
    server.ask::<()>(&["FLUSHALL"]).await.expect("it is flushed");
    let (second, flushed) = next(&server, &mut first, FLUSHED, struck_at).await;
    server.wipe().await.expect("it serves again");
    let mut holder = second;
    let (_, wiped) = next(&server, &mut holder, WIPED, now()).await;
    vec![flushed, wiped]
}

/// Grants the lock to another one, which meets no queue, and waits until the holder is told.
async fn next(
    server: &Server,
    holder: &mut Holder,
    what: &str,
    struck_at: lockkeeper_core::clock::BootInstant,
) -> (Holder, Outcome) {
    let next = Holder::start(&REDIS, &[server.address()], LASTING, LOCK).await;
    let granted_at = now();
    let outcome = holder.outcome(what.to_owned(), struck_at, next.token, granted_at).await;
    (next, outcome)
}

/// The memory that a server may use: more than it takes by itself.
const MEMORY_BYTES: u64 = 8 << 20;

/// A key of another program that takes more than all of it.
const BALLAST_BYTES: u64 = 12 << 20;

/// Long enough for a holder on a busy machine to renew its session.
const TIMEOUT: Duration = Duration::from_secs(5);

const SETTINGS: &str = "session_timeout=5s";

/// Policies by which keys without an end of their own stay.
const KEEPING: [&str; 5] = ["noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"];

/// Policies by which any key may go.
const EVICTING: [&str; 3] = ["allkeys-lru", "allkeys-lfu", "allkeys-random"];

const EVICTING_ROUNDS: u32 = 10;

/// How long a holder may believe itself after its contender was evicted, which is told to it, in seconds. It counts in
/// the long run, beside which nothing else runs.
const TOLD_WITHIN_S: f64 = 0.5;

/// Uses a small key of another program so often that it is the last one that a server would evict.
const USE_OFTEN: &str = "redis.call('SETRANGE', KEYS[1], 0, 'x') for _ = 1, 2000 do redis.call('STRLEN', KEYS[1]) end";

/// How often memory is filled until a holder's key is evicted.
const FILLED_MAX: usize = 200;

async fn fill(server: &Server) {
    // A server that evicts removes it again before the next command.
    let last = (BALLAST_BYTES - 1).to_string();
    server.ask::<u64>(&["SETRANGE", "ballast", &last, "x"]).await.expect("the last command that fits");
}

async fn join(session: &dyn Session) -> lockkeeper_core::Result<()> {
    session.enqueue_one(&door(), entry(ticket())).await.map(|_| ())
}

async fn is_refused(policy: &str, session: &dyn Session) -> Result<(), String> {
    match soon("the answer to a join", join(session)).await {
        Err(error) if error.kind() == ErrorKind::LimitReached && error.advice() == Advice::Transient => Ok(()),
        answer => Err(format!("{policy}: a join into a full memory was answered {answer:?}")),
    }
}

pub(crate) fn play_full() -> Result<(), String> {
    let begun = now();
    let outcomes: Result<Vec<_>, String> = thread::scope(|scope| {
        let play = |policy| scope.spawn(move || rounds::runtime().block_on(play_policy(policy)));
        let played = KEEPING.map(play);
        played.into_iter().map(|played| played.join().expect("the play of a policy")).collect()
    });
    let outcomes = outcomes?.into_iter().flatten().collect();
    let tally = Tally { outcomes, took: now().saturating_duration_since(begun) };
    tally.tell("faults: memory full", &format!("; joins refused under each of {} policies", KEEPING.len()));
    let lost: Vec<_> = tally.outcomes.iter().filter(|outcome| !outcome.was_given_back()).collect();
    if lost.len() != KEEPING.len() {
        return Err(format!("only those that were killed lose the lock: {lost:?}"));
    }
    tally.check(2 * KEEPING.len() as u32)
}

/// Under a full memory one holder goes on for more than the timeout and gives the lock back, and one is killed.
async fn play_policy(policy: &str) -> Result<Vec<Outcome>, String> {
    let server = Setup::new().memory(MEMORY_BYTES, policy).start().await.expect("a server");
    let servers = [server.address()];
    let session = soon("a session", REDIS.backend(&servers, SETTINGS).session()).await.expect("a session");
    let (steady, mut dead) = tokio::join!(
        Contest::start(&REDIS, &servers, SETTINGS, "steady"),
        Contest::start(&REDIS, &servers, SETTINGS, "dead")
    );
    fill(&server).await;
    let struck_at = now();
    dead.holder.kill();
    is_refused(policy, &*session).await?;
    tokio::time::sleep(TIMEOUT + TIMEOUT / 2).await;
    is_refused(policy, &*session).await?;
    let what = format!("{policy}, memory full");
    let dead = dead.end(&what, struck_at, Ends::Killed).await;
    let steady = steady.end(&what, struck_at, Ends::WhenGivenBack).await;
    match REDIS.backend(&servers, SETTINGS).session().await {
        Err(error) if error.kind() == ErrorKind::LimitReached => {}
        opened => return Err(format!("{policy}: a session was opened in a full memory: {opened:?}")),
    }
    server.ask::<u64>(&["DEL", "ballast"]).await.expect("it is deleted");
    soon("a place", join(&*session)).await.map_err(|error| format!("{policy}: there is room again: {error}"))?;
    soon("the end", session.close()).await.map_err(|error| format!("{policy}: {error}"))?;
    Ok(vec![dead, steady])
}

pub(crate) fn play_evicted(mut random: Random) -> Result<(), String> {
    let mut worst = 0.0_f64;
    let rounds = long::rounds(EVICTING_ROUNDS);
    for policy in EVICTING {
        for _ in 0..rounds {
            let pause = Duration::from_millis(random.below(300));
            worst = worst.max(rounds::runtime().block_on(evict(policy, pause))?);
        }
    }
    figures::tell(&format!(
        "faults: contenders evicted: {} under {} policies, their holders told after {worst:.3} s at most",
        rounds * EVICTING.len() as u32,
        EVICTING.len(),
    ));
    Ok(())
}

/// Fills memory until the holder's record is evicted; returns for how long the holder believed itself afterwards.
async fn evict(policy: &str, pause: Duration) -> Result<f64, String> {
    let server = Setup::new().memory(MEMORY_BYTES, policy).start().await.expect("a server");
    let mut holder = Holder::start(&REDIS, &[server.address()], "session_timeout=20s", "door").await;
    tokio::time::sleep(pause).await;
    for _ in 0..FILLED_MAX {
        server.ask::<()>(&["EVAL", USE_OFTEN, "1", "ballast"]).await.expect("it is used");
        let filled_at = now();
        fill(&server).await;
        let records: Vec<String> = server.ask(&["KEYS", "{lockkeeper}:c:*"]).await.expect("the keys");
        if !records.is_empty() {
            continue;
        }
        let end = soon("the end of the hold", holder.ended()).await;
        if end.reason.is_none() {
            return Err(format!("{policy}: the hold ended by itself"));
        }
        let told_after = span(filled_at, end.last_held).max(0.0);
        if told_after > TOLD_WITHIN_S && long::is_asked_for() {
            return Err(format!("{policy}: the holder believed itself for {told_after:.3} s after the eviction"));
        }
        return Ok(told_after);
    }
    Err(format!("{policy}: no record was evicted"))
}
