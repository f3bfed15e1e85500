//! Holders that die, stand still or are cut off while the service goes on.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_core::Mode;
use lockkeeper_faults::long;

use crate::service::ELECTION;
use crate::{Contest, Ends, Outcome, Service, now};

/// How long after the rival has joined the fault comes at most.
const STRUCK_AFTER_MAX_MS: u64 = 400;

/// One round in so many is about the lead of an election, the others about a mutex.
const ROUNDS_A_LEAD: u64 = 3;

/// What becomes of the holder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Death {
    /// Its process is killed.
    Killed,
    /// Its process stands still until the rival has the lock.
    Stopped,
    /// Nothing of it reaches its servers any more.
    CutOff,
}

impl Death {
    /// How many rounds the long run has of each.
    pub const fn rounds(self) -> u32 {
        match self {
            Self::Killed => 200,
            Self::Stopped | Self::CutOff => 50,
        }
    }

    /// How many rounds are to be played now.
    pub fn asked_for(self) -> u32 {
        long::rounds(self.rounds())
    }

    /// Plays one round: a holder of a lock meets its end, and a rival waits behind it.
    pub async fn play(
        self,
        service: &Service,
        servers: &[SocketAddr],
        settings: &str,
        lock: &str,
        random: &mut Random,
    ) -> Outcome {
        let carries_leads = service.backend(servers, settings).capabilities().modes.has(Mode::Candidate);
        let of_lead = if random.below(ROUNDS_A_LEAD) == 0 && carries_leads { ELECTION } else { "" };
        let mut contest = Contest::start(service, servers, settings, &format!("{lock}{of_lead}")).await;
        tokio::time::sleep(Duration::from_millis(random.below(STRUCK_AFTER_MAX_MS))).await;
        let struck_at = now();
        let ends = match self {
            Self::Killed => {
                contest.holder.kill();
                Ends::Killed
            }
            Self::Stopped => {
                contest.holder.pause();
                Ends::ByItself
            }
            Self::CutOff => {
                contest.holder.cut_off();
                Ends::ByItself
            }
        };
        contest.end(&format!("the holder {self:?}"), struck_at, ends).await
    }
}
