//! The first holder: the library, in a separate thread and runtime, so that it can be stopped as a whole.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_recipes::{Hold, Keeper, Mutex};
use lockkeeper_zookeeper::{Config, ZooKeeperBackend};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::ledger::{Ledger, now};
use crate::plan::{Round, SESSION_TIMEOUT, Traffic, part};
use crate::tap::TappedDial;

/// How long a thread may take to end what was under way when it was told to stop.
const ENDED_WITHIN: Duration = Duration::from_secs(2);

/// A client of one server that holds the lock.
pub(crate) struct Holder {
    pub(crate) hold: Hold,
    /// What went over its session.
    pub(crate) ledger: Ledger,
    begin: oneshot::Sender<BootInstant>,
    rest: Running,
}

/// The thread, which ends when this is dropped.
pub(crate) struct Running {
    _stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Takes the lock through `server` alone.
    pub(crate) async fn start(server: SocketAddr, queue: &str, round: &Round) -> Self {
        let (ledger, round) = (Ledger::new(), round.clone());
        let (held, holding) = oneshot::channel();
        let (begin, begun) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let (queue, account) = (queue.to_owned(), ledger.clone());
        let live = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let keeper = keeper(&server.to_string(), account);
                let guard = keeper.mutex(&queue).expect("a name").lock().await.expect("no other client is there");
                // The test may have given up.
                let _ = held.send(guard.hold().clone());
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    () = keep_busy(&keeper, &queue, round, begun) => {}
                }
                drop(guard);
                // Its server may still be out of service; then the session ends by itself.
                let _ = timeout(ENDED_WITHIN, keeper.close()).await;
            });
            runtime.shutdown_timeout(ENDED_WITHIN);
        };
        let thread = std::thread::spawn(live);
        let hold = soon("the first grant", holding).await.expect("the holder lives");
        Self { hold, ledger, begin, rest: Running { _stop: stop, thread } }
    }

    /// Has the traffic begin, whose last write is due at `moment`.
    pub(crate) fn begin(self, moment: BootInstant) -> Running {
        self.begin.send(moment).expect("the holder lives");
        self.rest
    }
}

impl Running {
    /// Ends the thread and waits until it has ended.
    pub(crate) async fn end(self) {
        let Self { _stop: stop, thread } = self;
        drop(stop);
        let joining = tokio::task::spawn_blocking(move || thread.join());
        let joined = soon("the end of the holder", joining).await.expect("the joining is not cancelled");
        joined.expect("the holder does not panic");
    }
}

fn keeper(servers: &str, ledger: Ledger) -> Keeper {
    let url = crate::rival::url(servers).parse().expect("a URL");
    let config = Config::from_url(&url).expect("good settings");
    Keeper::new(Arc::new(ZooKeeperBackend::with(config, Arc::new(TappedDial(ledger)), Arc::new(SystemClock))))
}

/// Makes the traffic of the round, without end.
async fn keep_busy(keeper: &Keeper, queue: &str, round: Round, begun: oneshot::Receiver<BootInstant>) {
    let Ok(moment) = begun.await else {
        return;
    };
    let beside = keeper.mutex(&format!("{queue}-beside")).expect("a name");
    let own = keeper.mutex(queue).expect("a name");
    match round.traffic {
        Traffic::Idle => {}
        Traffic::Stalled => {
            SystemClock.sleep_until(moment.saturating_sub(round.stall)).await;
            stand_still_until(moment);
        }
        Traffic::Steady => steady(&beside, round.random).await,
        Traffic::Mixed => mixed(&own, &beside, round.random).await,
    }
    std::future::pending::<()>().await;
}

async fn steady(beside: &Mutex, mut random: Random) {
    loop {
        write(beside).await;
        sleep(Duration::from_millis(20 + random.below(60))).await;
    }
}

async fn mixed(own: &Mutex, beside: &Mutex, mut random: Random) {
    loop {
        match random.below(6) {
            0 | 1 => write(beside).await,
            // A look at a lock that is taken reads and does not write.
            2 => drop(own.try_lock().await),
            3 => {
                stand_still_until(now().saturating_add(part(&mut random, SESSION_TIMEOUT, 5, 25)));
                // One stall after another would end the hold before the cut.
                sleep(SESSION_TIMEOUT / 5).await;
            }
            _ => sleep(part(&mut random, SESSION_TIMEOUT, 1, 12)).await,
        }
    }
}

/// Takes a lock and releases it; a failure because of the cut is expected.
async fn write(beside: &Mutex) {
    if let Ok(guard) = beside.lock().await {
        let _ = guard.release().await;
    }
}

/// Stops everything in this thread: the traffic, the library's tasks, the socket.
#[expect(clippy::disallowed_methods, reason = "a process that stands still is what is played")]
fn stand_still_until(moment: BootInstant) {
    std::thread::sleep(moment.saturating_duration_since(now()));
}
