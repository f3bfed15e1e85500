//! The turns of this process at opening and ending sessions: so many are opened, or ended, on one service at a time.

use std::collections::BTreeMap;
use std::process;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Server;

/// The most sessions that are opened at a time, or ended over new connections. A service that comes back to hundreds of
/// them would answer each late: some after it, or its client, has given the request up, and begun anew. In turns all
/// are opened in less time.
pub(crate) const AT_ONCE_MAX: usize = 16;

/// What a turn is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Errand {
    Open,
    /// A former session is ended that could not be while its connection stood.
    End,
}

/// The servers of a service, what it is asked for, and a process that uses it: a fork begins anew.
type UsedService = (Vec<Server>, Errand, u32);

/// Those that have a turn or wait for one.
static TURNS: Mutex<BTreeMap<UsedService, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// Waits for a turn on the service that these servers are, in any order; it lasts until what this returns is dropped.
pub(crate) async fn turn(errand: Errand, servers: &[Server]) -> OwnedSemaphorePermit {
    let mut servers = servers.to_vec();
    servers.sort_unstable();
    let turns = {
        let mut services = TURNS.lock();
        services.retain(|_, turns| Arc::strong_count(turns) > 1);
        let of_service = services.entry((servers, errand, process::id()));
        of_service.or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_MAX))).clone()
    };
    turns.acquire_owned().await.expect("no semaphore is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a turn, if it need not be waited for.
    async fn free_turn(errand: Errand, servers: &[Server]) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            turn = turn(errand, servers) => Some(turn),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn so_many_sessions_are_opened_at_a_time_on_each_service_and_so_many_ended() {
        let names = [["h1", "h2"], ["h2", "h1"], ["h1", "h3"]];
        let [one, same, other] = names.map(|names| names.map(|name| Server::new(name, 1)));
        let mut taken = Vec::new();
        for _ in 0..AT_ONCE_MAX {
            taken.push(free_turn(Errand::Open, &one).await.expect("there are so many"));
        }
        assert!(free_turn(Errand::Open, &same).await.is_none());
        assert!(free_turn(Errand::Open, &other).await.is_some());
        assert!(free_turn(Errand::End, &same).await.is_some());
        taken.pop();
        assert!(free_turn(Errand::Open, &same).await.is_some());
    }
}
