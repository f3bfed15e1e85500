//! Holders that die, stand still or are cut off while the server goes on.

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Span, rounds};

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
