//! Holders that die, stand still or are cut off while the server goes on.

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::Server;
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Span, rounds};

use crate::service::REDIS;

/// The least session timeout: a round takes little more.
pub(crate) const SETTINGS: &str = "session_timeout=2s";

/// The same where the holder has a plain lock too.
pub(crate) const PLAIN: &str = "session_timeout=2s&layout=setnx";

const TIMEOUT_S: Span = 2.0;

/// How long after its holder's death a lock is handed on at the latest, in seconds: the timeout, the time until the
/// rival's next renewal, and half a second. It counts in the long run, beside which nothing else runs.
const HANDED_ON_WITHIN_S: Span = TIMEOUT_S + TIMEOUT_S / 6.0 + 0.5;

/// How many rounds are played on one server at the same time.
const AT_ONCE: u32 = 6;

pub(crate) fn play(death: Death, settings: &'static str, random: Random) -> Result<(), String> {
    let server = rounds::runtime().block_on(Server::standalone()).expect("a server");
    let servers = [server.address()];
    let tally = rounds::play(death.rounds(), AT_ONCE, random, async |round, mut random| {
        let lock = format!("{death:?}-{}", round % AT_ONCE);
        vec![death.play(&REDIS, &servers, settings, &lock, &mut random).await]
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    if death == Death::Killed && long::is_asked_for() {
        tally.check_handed_on(HANDED_ON_WITHIN_S)?;
    }
    tally.check(death.asked_for())
}
