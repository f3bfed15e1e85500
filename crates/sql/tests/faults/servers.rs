//! A server that is killed, or one of its processes, that stands still, or whose clock jumps, under three holders: one
//! that goes on, one that is cut off at the same moment, and one that is killed then.

use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_faults::long;
use lockkeeper_trials::{Contest, Ends, Outcome, now, rounds};

use crate::database::Server;
use crate::harm::Need;
use crate::operator::Kind;

/// Short, so that many rounds can be played; a holder has more than two seconds to find the server again.
const SETTINGS: &str = "session_timeout=4s";

const TIMEOUT: Duration = Duration::from_secs(4);

/// Longer than the session timeout.
const STANDSTILL: Duration = Duration::from_secs(5);

const JUMP_S: i64 = 3_600;

/// How many rounds are played at the same time, each on another server.
const AT_ONCE: u32 = 2;

/// How long after the rivals have joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 600;

/// How long the server is down at most.
const DOWN_MAX_MS: u64 = 300;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Harm {
    Restarted,
    /// One of its processes was killed, and it recovered in place: PostgreSQL alone does that.
    Recovered,
    StoodStill,
    Forward,
    Back,
}

impl Harm {
    const fn rounds(self) -> u32 {
        match self {
            Self::Restarted | Self::Recovered => 20,
            Self::StoodStill | Self::Forward | Self::Back => 10,
        }
    }

    const fn need(self) -> Need {
        match self {
            Self::Restarted | Self::Recovered => Need::Durability,
            Self::StoodStill => Need::Nothing,
            Self::Forward | Self::Back => Need::Clock,
        }
    }

    async fn inflict(self, server: &mut Server, random: &mut Random) {
        match self {
            Self::Restarted => {
                server.kill();
                tokio::time::sleep(Duration::from_millis(random.below(DOWN_MAX_MS))).await;
                server.start_again().await;
            }
            Self::Recovered => server.lose_process().await,
            Self::StoodStill => {
                server.pause().expect("it runs");
                tokio::time::sleep(STANDSTILL).await;
                server.resume().expect("it runs");
            }
            Self::Forward => server.move_clock(JUMP_S).await,
            Self::Back => server.move_clock(-JUMP_S).await,
        }
    }
}

pub(crate) fn play(kind: Kind, harm: Harm, random: Random) -> Result<(), String> {
    let tally = rounds::play(harm.rounds(), AT_ONCE, random, |_, random| play_round(kind, harm, random));
    let kept = tally.outcomes.iter().filter(|outcome| outcome.was_given_back()).count();
    tally.tell(&format!("faults: {kind:?}, server {harm:?}"), &format!("; {kept} held on"));
    tally.check(3 * long::rounds(harm.rounds()))
}

async fn play_round(kind: Kind, harm: Harm, mut random: Random) -> Vec<Outcome> {
    let mut server = kind.start(harm.need()).await;
    let servers = [server.address()];
    let operator = kind.service().keeper(&servers, SETTINGS);
    soon("the schema", operator.admin().set_up()).await.expect("it is made");
    soon("a limit", operator.admin().limit_session_timeout(TIMEOUT)).await.expect("no session is open");
    let contest = |lock| Contest::start(kind.service(), &servers, SETTINGS, lock);
    let (steady, lonely, mut dead) = tokio::join!(contest("steady"), contest("lonely"), contest("dead"));
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
