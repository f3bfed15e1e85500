//! Holders that die, stand still or are cut off while the server goes on.

use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Holder, Span, now, rounds};

use crate::harm::Need;
use crate::operator::Kind;

/// A short session timeout, since a round takes little more; but a statement may take a sixth of it, and must not be
/// given up again and again on a busy machine.
const SETTINGS: &str = "session_timeout=4s";

const TIMEOUT_S: Span = 4.0;

/// How long after its holder's death a lock is handed on at the latest, in seconds: the timeout, a quarter of it until
/// the rival's next beat, and a second. It counts in the long run, beside which nothing else runs.
const HANDED_ON_WITHIN_S: Span = 1.25 * TIMEOUT_S + 1.0;

/// How many rounds are played on one server at the same time.
const AT_ONCE: u32 = 6;

pub(crate) fn play(kind: Kind, death: Death, random: Random) -> Result<(), String> {
    let runtime = rounds::runtime();
    let server = runtime.block_on(kind.start(Need::Nothing));
    let servers = [server.address()];
    let tally = rounds::play(death.rounds(), AT_ONCE, random, async |round, mut random| {
        let lock = format!("{death:?}-{}", round % AT_ONCE);
        vec![death.play(kind.service(), &servers, SETTINGS, &lock, &mut random).await]
    });
    tally.tell(&format!("faults: {kind:?}, holders {death:?}"), "");
    if death == Death::Killed && long::is_asked_for() {
        tally.check_handed_on(HANDED_ON_WITHIN_S)?;
    }
    tally.check(death.asked_for())
}

/// How long a call that does not wait takes at most where the holder lives: far less than its death takes to prove.
const BUSY_WITHIN: Duration = Duration::from_secs(2);

/// How long after its holder's death a lock goes to clients that do not wait, at most: until its silence shows, and as
/// long again until one has observed it.
const FOUND_DEAD_WITHIN: Duration = Duration::from_secs(14);

/// No client stays to observe a holder that was killed: each is a fresh one, asks once and leaves, as a command that
/// cron starts.
pub(crate) fn try_behind_the_dead(kind: Kind, _: Random) -> Result<(), String> {
    rounds::runtime().block_on(async {
        let server = kind.start(Need::Nothing).await;
        let servers = [server.address()];
        let mut holder = Holder::start(kind.service(), &servers, SETTINGS, "cron").await;
        let try_once = async || {
            let keeper = kind.service().keeper(&servers, SETTINGS);
            let begun = now();
            let guard = keeper.mutex("cron")?.try_lock().await?;
            let (token, took) = (guard.map(|guard| guard.fencing_token()), now().saturating_duration_since(begun));
            keeper.close().await?;
            Ok::<_, lockkeeper_core::Error>((token, took))
        };
        for age in [Duration::ZERO, Duration::from_secs_f64(1.5 * TIMEOUT_S)] {
            // A hold that is older than its timeout shows its life by beats alone.
            tokio::time::sleep(age).await;
            let (token, took) = try_once().await.map_err(|error| error.to_string())?;
            if token.is_some() || took > BUSY_WITHIN {
                return Err(format!("beside a holder that lives, {age:?} old: {token:?} after {took:?}"));
            }
        }
        holder.kill();
        let killed_at = now();
        loop {
            let (token, _) = try_once().await.map_err(|error| error.to_string())?;
            let took = now().saturating_duration_since(killed_at);
            println!("faults: {kind:?}, a call that does not wait, {took:?} after the death: {token:?}");
            match token {
                Some(token) if token > holder.token && took < FOUND_DEAD_WITHIN => return Ok(()),
                None if took < FOUND_DEAD_WITHIN => tokio::time::sleep(Duration::from_millis(500)).await,
                token => return Err(format!("{token:?} {took:?} after the death of {:?}", holder.token)),
            }
        }
    })
}
