//! Data that is lost at once: by `FLUSHALL`, and by a restart without any. Who held is told, and tokens grow over it.

use lockkeeper_conformance::Random;
use lockkeeper_core::LossReason;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long};
use lockkeeper_trials::{Holder, Outcome, none_of, now, rounds, span};

use crate::service::REDIS;

const ROUNDS: u32 = 20;

/// So long that no hold ends by time.
const SETTINGS: &str = "session_timeout=20s";

const AT_ONCE: u32 = 2;

/// How long a holder may believe itself after a flush, which is told to it. It counts in the long run, beside which
/// nothing else runs.
const TOLD_WITHIN_S: f64 = 1.0;

const LOCK: &str = "door";

pub(crate) fn play(random: Random) -> Result<(), String> {
    let tally = rounds::play(ROUNDS, AT_ONCE, random, async |_, _| play_round().await);
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
    if told(FLUSHED) > TOLD_WITHIN_S && long::is_asked_for() {
        return Err(format!("a holder believed itself for {:.2} s after a flush", told(FLUSHED)));
    }
    tally.check_tokens()
}

const FLUSHED: &str = "all data flushed";
const WIPED: &str = "the server started without data";

async fn play_round() -> Vec<Outcome> {
    let mut server = Server::standalone().await.expect("a server");
    let mut first = Holder::start(&REDIS, &[server.address()], SETTINGS, LOCK).await;
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
    let next = Holder::start(&REDIS, &[server.address()], SETTINGS, LOCK).await;
    let granted_at = now();
    let outcome = holder.outcome(what.to_owned(), struck_at, next.token, granted_at).await;
    (next, outcome)
}
