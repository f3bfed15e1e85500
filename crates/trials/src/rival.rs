//! A client that waits for a lock that another one holds.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_conformance::{Party, Waiting, soon};
use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_recipes::retry::RetryPolicy;

use crate::prize::Prize;
use crate::{Service, now};

/// A client that waits for a lock that another one holds.
#[derive(Debug)]
pub struct Rival {
    party: Party,
    waiting: Waiting<Granted>,
}

/// A grant to a rival.
#[derive(Debug)]
pub struct Granted {
    prize: Prize,
    /// When it came.
    pub at: BootInstant,
}

impl Granted {
    /// Its token.
    pub fn token(&self) -> FencingToken {
        self.prize.token()
    }
}

impl Rival {
    /// Asks for the lock; comes back once the rival has joined the queue.
    pub async fn queue_up(service: &Service, servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        let retry = RetryPolicy::forever(Duration::from_millis(50), Duration::from_millis(500));
        let party = Party::over(service.backend(servers, settings), retry);
        let winning = Prize::win(party.keeper.clone(), lock.to_owned());
        let asking = async move { winning.await.map(|prize| Granted { prize, at: now() }) };
        let waiting = party.queue_up_for(asking).await;
        Self { party, waiting }
    }

    /// How many contenders it sees.
    pub async fn contenders(&self, lock: &str) -> usize {
        self.party.contenders(lock).await
    }

    /// Waits for the grant.
    pub async fn granted(&mut self) -> Granted {
        let granted = soon("the rival's grant", &mut self.waiting).await;
        granted.expect("no panic").expect("the server serves")
    }

    /// Stops waiting, and ends.
    pub(crate) async fn give_up(self) {
        self.waiting.abort();
        // It may have been granted the lock, or have failed.
        let _ = self.waiting.await;
        let _ = soon("closing", self.party.keeper.close()).await;
    }

    /// Gives the lock back, and ends.
    pub async fn end(self, granted: Granted) {
        soon("the release", granted.prize.give_back()).await.expect("the server serves");
        soon("closing", self.party.keeper.close()).await.expect("the server serves");
    }
}
