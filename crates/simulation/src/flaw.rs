//! Faults that no rule allows, to prove that the checker finds them: of clocks, of the server, of a backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_conformance::planted::{Bug, BuggyBackend};
use lockkeeper_core::Backend;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::service::SimulatedService;

/// What is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Flaw {
    /// The clocks of all clients go a third slower than the server's.
    SlowClocks,
    /// The clocks of all clients stand still while their machine does.
    ClocksStopWithMachines,
    /// The server ends sessions before their time.
    EarlyExpiry,
    /// The server goes on serving a session's former connection.
    FormerConnections,
    /// A backend with a bug.
    Backend(Bug),
}

impl Flaw {
    /// What one history of hundreds or thousands shows.
    pub const RARE: &[Self] =
        &[Self::SlowClocks, Self::ClocksStopWithMachines, Self::Backend(Bug::TellsLossesLate), Self::FormerConnections];

    /// What histories show more often.
    pub const COMMON: &[Self] = &[
        Self::EarlyExpiry,
        Self::Backend(Bug::SeesOnlyItself),
        Self::Backend(Bug::LastComesFirst),
        Self::Backend(Bug::TellsOfDeparturesTooSoon),
        Self::Backend(Bug::NeverTellsOfDepartures),
        Self::Backend(Bug::MissesDepartedAhead),
        Self::Backend(Bug::ForgetsWithdrawals),
        Self::Backend(Bug::ForgetsUnansweredJoins),
        Self::Backend(Bug::WithdrawsWhenPolled),
        Self::Backend(Bug::WithdrawsBehindTheNextJoin),
        Self::Backend(Bug::TokensStandStill),
        Self::Backend(Bug::TokensOfTheSession),
        Self::Backend(Bug::HoldsOutliveSessions),
        Self::Backend(Bug::HoldsOutliveDeadlines),
        Self::Backend(Bug::WritersLookLikeReaders),
        Self::Backend(Bug::HidesAPermit),
    ];

    pub(crate) const fn drift_ppm(self, drift_ppm: i64) -> i64 {
        match self {
            Self::SlowClocks => drift_ppm - 333_333,
            _ => drift_ppm,
        }
    }

    /// Whether the clocks of machines stand still with them.
    pub(crate) fn stops_clocks(self) -> bool {
        self == Self::ClocksStopWithMachines
    }

    /// Puts it over the backend of one client; the clients of a run share the count of withdrawals.
    pub(crate) fn over(self, backend: Arc<dyn Backend>, withdrawals: Arc<watch::Sender<u64>>) -> Arc<dyn Backend> {
        match self {
            Self::Backend(bug) => Arc::new(BuggyBackend::over(backend, bug, withdrawals)),
            _ => backend,
        }
    }

    /// Does what the server does wrong, as long as the run lasts.
    pub(crate) async fn act(self, service: SimulatedService, timeout: Duration, mut chance: Random) {
        match self {
            Self::EarlyExpiry => loop {
                sleep(timeout / 3).await;
                let server = service.now().server;
                let sessions = server.session_ids().await;
                if !sessions.is_empty() {
                    server.expire_session(sessions[chance.below(sessions.len() as u64) as usize]).await;
                }
            },
            Self::FormerConnections => service.now().server.keep_former_connections(),
            _ => {}
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(bug) => write!(formatter, "{bug:?}"),
            flaw => write!(formatter, "{flaw:?}"),
        }
    }
}
