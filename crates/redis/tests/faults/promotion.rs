//! A replica that is promoted and has not heard of the last grant: for a while two hold the lock. The tokens order
//! them, and the first is told that its session has ended as soon as it comes to the new master.
//!
//! In each round another hold had reached the replica before: it goes on, and its rival waits.
//!
//! A replica that has not heard of a release keeps the lock taken until the session of its last holder is over.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::{Random, SOON, soon};
use lockkeeper_core::LossReason;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::redis::{Server, Setup};
use lockkeeper_faults::{long, wait};
use lockkeeper_trials::{Contest, Ends, Holder, Outcome, Span, none_of, now, rounds};

use crate::service::REDIS;

const ROUNDS: u32 = 20;

/// In seconds. Long enough for a holder on a busy machine to come to the new master before it lapses.
const TIMEOUT: Span = 10.0;

const SETTINGS: &str = "session_timeout=10s";

const AT_ONCE: u32 = 3;

const LOST: &str = "lost";

/// How long after the promotion the old master goes on at most.
const GOES_ON_MAX_MS: u64 = 1_500;

pub(crate) fn play(random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, async |round, random| play_round(round, random).await);
    let (lost, kept): (Vec<_>, Vec<_>) = tally.outcomes.iter().partition(|outcome| outcome.what.starts_with(LOST));
    let worst = lost.iter().filter_map(|outcome| outcome.margin()).fold(0.0, |worst: Span, margin| worst.max(-margin));
    let shared = lost.iter().filter(|outcome| outcome.is_shared()).count();
    let went_on = kept.iter().filter(|outcome| outcome.was_given_back()).count();
    tally.tell(
        "faults: promotions without a grant",
        &format!(
            "; {shared} of {} lost grants were doubled, for {worst:.2} s at most; {went_on} of {} others went on",
            lost.len(),
            kept.len(),
        ),
    );
    if lost.len() < long::rounds(ROUNDS) as usize {
        return Err(format!("only {} promotions were played", lost.len()));
    }
    if shared == 0 {
        return Err("no lost grant was doubled: the test shows nothing".to_owned());
    }
    let is_too_long = |outcome: &&&Outcome| outcome.margin().is_none_or(|margin| -margin > TIMEOUT);
    none_of(lost.iter().filter(is_too_long).copied(), "two held for longer than the session timeout")?;
    let is_untold = |outcome: &&&Outcome| outcome.ended_by != Some(LossReason::Expired);
    none_of(lost.iter().filter(is_untold).copied(), "the first was not told")?;
    none_of(kept.iter().filter(|outcome| outcome.is_shared()).copied(), "two held a lock whose grant was not lost")?;
    tally.check_tokens()
}

/// A master, its replica, and what is between them.
struct Pair {
    master: Server,
    replica: Server,
    between: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let master = Server::standalone().await.expect("a master");
        let between = Proxy::of_bytes(master.address()).await.expect("a proxy");
        let replica = Setup::new().replica_of(&master).start().await.expect("a replica");
        follow(&replica, between.address()).await;
        replica.replicating().await.expect("it follows its master");
        Self { master, replica, between }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [self.master.address(), self.replica.address()]
    }

    /// Waits until the replica has what the master has now.
    async fn until_caught_up(&self) {
        let offset = async |server: &Server| server.info("master_repl_offset").await.ok()?.parse::<u64>().ok();
        let wanted = offset(&self.master).await.expect("an offset");
        let looking = wait::until("the replica catching up", SOON, async || {
            (offset(&self.replica).await? >= wanted).then_some(())
        });
        looking.await.expect("it catches up");
    }
}

async fn follow(server: &Server, master: SocketAddr) {
    let (host, port) = (master.ip().to_string(), master.port().to_string());
    server.ask::<()>(&["REPLICAOF", &host, &port]).await.expect("it is told");
}

async fn play_round(round: u32, mut random: Random) -> Vec<Outcome> {
    let mut pair = Pair::start().await;
    let addresses = pair.addresses();
    let kept = Contest::start(&REDIS, &addresses, SETTINGS, "kept").await;
    pair.until_caught_up().await;
    pair.between.blackhole();
    let mut first = Holder::start(&REDIS, &addresses, SETTINGS, LOST).await;
    let struck_at = now();
    pair.replica.promote().await.expect("it is promoted");
    let newcomer = REDIS.keeper(&addresses[1..], SETTINGS);
    let second = soon("the second grant", newcomer.mutex(LOST).expect("a name").lock()).await.expect("it is granted");
    let granted_at = now();
    tokio::time::sleep(Duration::from_millis(random.below(GOES_ON_MAX_MS))).await;
    let is_demoted = round.is_multiple_of(2);
    if is_demoted {
        follow(&pair.master, pair.replica.address()).await;
    } else {
        pair.master.kill();
    }
    let what = if is_demoted { "the old master was demoted" } else { "the old master was killed" };
    let shown = format!("{LOST}: {what}");
    let lost = first.outcome(shown, struck_at, second.fencing_token(), granted_at).await;
    soon("the release", second.release()).await.expect("the new master serves");
    soon("closing", newcomer.close()).await.expect("the new master serves");
    let kept = kept.end(what, struck_at, Ends::WhenGivenBack).await;
    vec![lost, kept]
}

pub(crate) fn play_releases(random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, async |_, _| {
        let (closed, living) = tokio::join!(play_release(false), play_release(true));
        vec![closed, living]
    });
    tally.tell("faults: promotions without a release", "");
    tally.check_tokens()
}

/// Has a release be lost; returns the hold that was given back, and the next one.
///
/// A last holder that has closed its keeper cannot renew its session at the new master. One that lives on does, and has
/// forgotten its contender there: only the end of its session takes that away.
async fn play_release(lives_on: bool) -> Outcome {
    let mut pair = Pair::start().await;
    let addresses = pair.addresses();
    let last = REDIS.keeper(&addresses, SETTINGS);
    let guard = soon("the grant", last.mutex(LOST).expect("a name").lock()).await.expect("it is granted");
    let token = guard.fencing_token();
    pair.until_caught_up().await;
    pair.between.blackhole();
    soon("the release", guard.release()).await.expect("the master serves");
    let given_back_at = now();
    if !lives_on {
        soon("closing", last.close()).await.expect("the master serves");
    }
    pair.master.kill();
    pair.replica.promote().await.expect("it is promoted");
    let next = REDIS.keeper(&addresses[1..], SETTINGS);
    let door = next.mutex(LOST).expect("a name");
    let tried = soon("an answer", door.try_lock()).await.expect("the new master serves");
    assert!(tried.is_none(), "the release was not lost: the test shows nothing");
    if lives_on {
        let elsewhere =
            soon("another lock", last.mutex("elsewhere").expect("a name").lock()).await.expect("it is free");
        soon("the release", elsewhere.release()).await.expect("the new master serves");
        assert!(
            soon("an answer", door.try_lock()).await.expect("the new master serves").is_none(),
            "its session lives"
        );
        soon("closing", last.close()).await.expect("the new master serves");
    }
    let granted = soon("the next grant", door.lock()).await.expect("it is granted");
    let outcome = Outcome {
        what: format!("a lost release, lives on: {lives_on}"),
        struck_at: given_back_at,
        token,
        last_held: Some(given_back_at),
        ended_by: Some(LossReason::Released),
        next_token: granted.fencing_token(),
        granted_at: now(),
    };
    soon("the release", granted.release()).await.expect("the new master serves");
    outcome
}
