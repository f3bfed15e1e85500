//! Holders that die, stand still or are cut off while the ensemble goes on.

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use lockkeeper_trials::deaths::Death;
use lockkeeper_trials::{Span, rounds};

use crate::TICK;
use crate::service::ZOOKEEPER;

/// A short session timeout, since a round takes little more.
const SETTINGS: &str = "session_timeout=3s&tick=500ms";

/// How long after its holder's last sign of life a lock is handed on at the latest, in seconds: the promised session
/// timeout, 1.5 ticks and a second. It counts in the long run, beside which nothing else runs.
const HANDED_ON_WITHIN_S: Span = 3.0 + 1.5 * 0.5 + 1.0;

/// How many rounds are played on one ensemble at the same time.
const AT_ONCE: u32 = 6;

pub(crate) fn play(death: Death, random: Random) -> Result<(), String> {
    let runtime = rounds::runtime();
    let ensemble = runtime.block_on(Ensemble::start(3, Setup::new().tick(TICK))).map_err(|error| error.to_string())?;
    let servers = ensemble.addresses();
    let tally = rounds::play(death.rounds(), AT_ONCE, random, async |round, mut random| {
        let lock = format!("{death:?}-{}", round % AT_ONCE);
        vec![death.play(&ZOOKEEPER, &servers, SETTINGS, &lock, &mut random).await]
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    if long::is_asked_for() {
        tally.check_handed_on(HANDED_ON_WITHIN_S)?;
    }
    tally.check(death.asked_for())
}
