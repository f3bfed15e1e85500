//! Clients that come and go, while something else is done to the locks of their service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_conformance::soon;
use lockkeeper_recipes::Keeper;
use tokio::task::JoinHandle;

/// How many clients come and go.
const CLIENTS: usize = 4;

/// How many locks they use, so that each is empty now and then.
const LOCKS: usize = 5;

/// After how many locks another client goes on in the place of one.
const LOCKS_A_CLIENT: usize = 7;

/// Clients that take and leave locks until they are told to stop; each fails if a lock is lost meanwhile.
#[derive(Debug)]
pub struct Passers {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

impl Passers {
    /// Has clients come and go.
    pub fn start(client: impl Fn() -> Keeper + Clone + Send + Sync + 'static) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let pass = |number| tokio::spawn(come_and_go(client.clone(), number, stop.clone()));
        let clients = (0..CLIENTS).map(pass).collect();
        Self { stop, clients }
    }

    /// Has one more client take locks, until it sees that it is to stop.
    pub fn beside<Passing: Future<Output = u64> + Send + 'static>(
        &mut self,
        passing: impl FnOnce(Arc<AtomicBool>) -> Passing,
    ) {
        self.clients.push(tokio::spawn(passing(self.stop.clone())));
    }

    /// Makes sure that none has failed.
    pub fn check(&self) {
        assert!(self.clients.iter().all(|client| !client.is_finished()), "one has failed");
    }

    /// Ends them; returns how many locks they have held.
    pub async fn end(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        let mut holds = 0;
        for client in self.clients {
            holds += soon("the end of a client", client).await.expect("no lock was lost");
        }
        holds
    }
}

async fn come_and_go(client: impl Fn() -> Keeper, number: usize, stop: Arc<AtomicBool>) -> u64 {
    let (mut keeper, mut holds) = (client(), 0);
    while !stop.load(Ordering::SeqCst) {
        let name = format!("busy-{}", (number + holds) % LOCKS);
        if holds % LOCKS_A_CLIENT == LOCKS_A_CLIENT - 1 {
            let semaphore = keeper.semaphore(&format!("{name}-permits"), 2).expect("a name");
            let permit = soon("a permit", semaphore.acquire()).await.expect("it is granted");
            assert!(permit.hold().is_held(), "{:?}", permit.hold());
            permit.release().await.expect("it was held all the time");
            std::mem::replace(&mut keeper, client()).close().await.expect("it closes");
        } else {
            let guard = soon("a lock", keeper.mutex(&name).expect("a name").lock()).await.expect("it is granted");
            assert!(guard.hold().is_held(), "{:?}", guard.hold());
            guard.release().await.expect("it was held all the time");
        }
        holds += 1;
    }
    u64::try_from(holds).expect("few")
}
