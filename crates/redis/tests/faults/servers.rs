//! A server that is killed, stands still, or whose clock jumps, under three holders: one that goes on, one that is cut
//! off at the same moment, and one that is killed then.

use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_faults::long;
use lockkeeper_faults::redis::{Flush, Server, Setup};
use lockkeeper_trials::{Contest, Ends, Outcome, now, rounds};

use crate::service::REDIS;

/// Short, so that many rounds can be played; a holder has more than a second to find the server again.
const SETTINGS: &str = "session_timeout=3s";

/// Long enough for a server that is killed to serve again, on a busy machine too, while a holder still believes itself.
const PLANTED: &str = "session_timeout=10s";

/// The rule that is left out: no jump of the clock ends a session.
const TRUSTING: &str = "session_timeout=10s&clock=trust";

/// Longer than the session timeout.
const STANDSTILL: Duration = Duration::from_secs(4);

const JUMP_S: i64 = 3_600;

const AT_ONCE: u32 = 3;

/// How long after the rivals have joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 600;

/// How long the server is down at most.
const DOWN_MAX_MS: u64 = 300;

/// How many rounds are played without the rule.
const PLANTED_ROUNDS: u32 = 20;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Harm {
    /// It is started again, with what it has on the disk.
    Killed,
    StoodStill,
    Forward,
    Back,
}

impl Harm {
    const fn rounds(self) -> u32 {
        match self {
            Self::Killed | Self::StoodStill => 20,
            Self::Forward | Self::Back => 10,
        }
    }

    fn setup(self) -> Setup {
        match self {
            Self::Killed => Setup::new().append_only(Flush::Always),
            Self::StoodStill => Setup::new(),
            Self::Forward | Self::Back => Setup::new().movable_clock(),
        }
    }

    /// A server and clients that lack what keeps the locks exclusive.
    fn planted(self) -> (Setup, &'static str) {
        match self {
            Self::Killed => (Setup::new(), PLANTED),
            _ => (self.setup(), TRUSTING),
        }
    }

    async fn inflict(self, server: &mut Server, random: &mut Random) {
        match self {
            Self::Killed => {
                server.kill();
                tokio::time::sleep(Duration::from_millis(random.below(DOWN_MAX_MS))).await;
                server.start().expect("it starts");
                server.serving().await.expect("it serves again");
            }
            Self::StoodStill => {
                server.pause().expect("it runs");
                tokio::time::sleep(STANDSTILL).await;
                server.resume().expect("it runs");
            }
            Self::Forward => server.move_clock(JUMP_S).await.expect("its clock is moved"),
            Self::Back => server.move_clock(-JUMP_S).await.expect("its clock is moved"),
        }
    }
}

pub(crate) fn play(harm: Harm, random: Random) -> Result<(), String> {
    let tally =
        rounds::play(harm.rounds(), AT_ONCE, random, |_, random| play_round(harm, harm.setup(), SETTINGS, random));
    let kept = tally.outcomes.iter().filter(|outcome| outcome.was_given_back()).count();
    tally.tell(&format!("faults: server {harm:?}"), &format!("; {kept} held on"));
    tally.check(3 * long::rounds(harm.rounds()))
}

/// Without the rule two hold at once, and the judge of the other rounds sees it.
pub(crate) fn play_planted(harm: Harm, random: Random) -> Result<(), String> {
    let tally = rounds::play(PLANTED_ROUNDS, AT_ONCE, random, |_, random| {
        let (setup, settings) = harm.planted();
        play_round(harm, setup, settings, random)
    });
    tally.tell(&format!("faults: server {harm:?}, the rule left out"), "");
    tally.check_tokens()?;
    match tally.check(0) {
        Err(seen) if seen.starts_with("two held at once") => Ok(()),
        judged => Err(format!("no double hold was seen: {judged:?}")),
    }
}

async fn play_round(harm: Harm, setup: Setup, settings: &str, mut random: Random) -> Vec<Outcome> {
    let mut server = setup.start().await.expect("a server");
    let servers = [server.address()];
    let [steady, lonely, dead] =
        ["steady", "lonely", "dead"].map(|lock| Contest::start(&REDIS, &servers, settings, lock));
    let (steady, lonely, mut dead) = tokio::join!(steady, lonely, dead);
    tokio::time::sleep(Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS))).await;
    let struck_at = now();
    lonely.holder.cut_off();
    dead.holder.kill();
    harm.inflict(&mut server, &mut random).await;
    let what = format!("the server {harm:?}");
    let (dead, lonely) =
        tokio::join!(dead.end(&what, struck_at, Ends::Killed), lonely.end(&what, struck_at, Ends::ByItself));
    // Its session would have ended by now too.
    let steady = steady.end(&what, struck_at, Ends::WhenGivenBack).await;
    vec![dead, lonely, steady]
}
