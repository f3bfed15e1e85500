//! Holders that die, stand still or are cut off while the server goes on.

use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::Server;

use crate::contest::{Contest, Ends};
use crate::stage::{now, play_rounds, runtime};
use crate::tally::Span;

/// The least session timeout: a round takes little more.
pub(crate) const SETTINGS: &str = "session_timeout=2s";

/// The same where the holder has a plain lock too.
pub(crate) const PLAIN: &str = "session_timeout=2s&layout=setnx";

const TIMEOUT_S: Span = 2.0;

/// How long after its holder's death a lock is handed on at the latest, in seconds: the timeout, the time until the
/// rival's next renewal, and half a second for a busy machine.
const HANDED_ON_WITHIN_S: Span = TIMEOUT_S + TIMEOUT_S / 6.0 + 0.5;

/// How many rounds are played on one server at the same time.
const AT_ONCE: u32 = 6;

/// How long after the rival has joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 400;

/// What becomes of the holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Death {
    Killed,
    Stopped,
    CutOff,
}

impl Death {
    const fn rounds(self) -> u32 {
        match self {
            Self::Killed => 200,
            Self::Stopped | Self::CutOff => 50,
        }
    }
}

pub(crate) fn play(death: Death, settings: &'static str, random: Random) -> Result<(), String> {
    let server = runtime().block_on(Server::standalone()).expect("a server");
    let servers = [server.address()];
    let tally = play_rounds(death.rounds(), AT_ONCE, random, async |round, mut random| {
        let mut contest = Contest::start(&servers, settings, &format!("{death:?}-{}", round % AT_ONCE)).await;
        tokio::time::sleep(Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS))).await;
        let struck_at = now();
        let ends = match death {
            Death::Killed => {
                contest.holder.kill();
                Ends::Killed
            }
            Death::Stopped => {
                contest.holder.pause();
                Ends::ByItself
            }
            Death::CutOff => {
                contest.holder.cut_off();
                Ends::ByItself
            }
        };
        vec![contest.end(&format!("the holder {death:?}"), struck_at, ends).await]
    });
    tally.tell(&format!("faults: holders {death:?}"), "");
    if death == Death::Killed {
        tally.check_handed_on(HANDED_ON_WITHIN_S)?;
    }
    tally.check(long::rounds(death.rounds()))
}
