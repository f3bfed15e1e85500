//! A holder and the rival behind it, from the first grant to the second.

use std::net::SocketAddr;

use lockkeeper_core::clock::BootInstant;

use crate::{Holder, Outcome, Rival, Service};

/// How often a contest is started at most: on a busy machine a short session may end before both stand in the queue.
const STARTS_MAX: u32 = 20;

/// How a hold is to end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// With its process.
    Killed,
    /// The holder finds out.
    ByItself,
    /// The holder is asked to give the lock back, if it still has it.
    WhenGivenBack,
}

/// A holder, and the rival behind it.
#[derive(Debug)]
pub struct Contest {
    lock: String,
    /// The first one.
    pub holder: Holder,
    rival: Rival,
}

impl Contest {
    /// Has a holder take a lock, and a rival queue up behind it, with the same servers.
    pub async fn start(service: &Service, servers: &[SocketAddr], settings: &str, lock: &str) -> Self {
        Self::between(service, (servers, settings), (servers, settings), lock).await
    }

    /// The same where the rival knows other servers, or has other settings: first those of the holder.
    pub async fn between(
        service: &Service,
        (servers, settings): (&[SocketAddr], &str),
        (rivals_servers, rivals_settings): (&[SocketAddr], &str),
        lock: &str,
    ) -> Self {
        for _ in 0..STARTS_MAX {
            let holder = Holder::start(service, servers, settings, lock).await;
            let rival = Rival::queue_up(service, rivals_servers, rivals_settings, lock).await;
            if rival.contenders(lock).await == 2 {
                return Self { lock: lock.to_owned(), holder, rival };
            }
            drop(holder);
            rival.give_up().await;
        }
        panic!("{lock}: in none of {STARTS_MAX} starts a holder, and a rival behind it, stood in the queue")
    }

    /// Waits for the rival's grant, and compares.
    pub async fn end(mut self, what: &str, struck_at: BootInstant, ends: Ends) -> Outcome {
        if ends == Ends::WhenGivenBack {
            self.holder.ask_back();
        }
        let granted = self.rival.granted().await;
        let end = match ends {
            Ends::Killed => None,
            Ends::ByItself | Ends::WhenGivenBack => {
                // It may have been stopped.
                self.holder.resume();
                Some(self.holder.ended().await)
            }
        };
        let outcome = Outcome {
            what: format!("{}: {what}", self.lock),
            struck_at,
            token: self.holder.token,
            last_held: end.map(|end| end.last_held),
            ended_by: end.and_then(|end| end.reason),
            next_token: granted.token(),
            granted_at: granted.at,
        };
        self.rival.end(granted).await;
        outcome
    }
}
