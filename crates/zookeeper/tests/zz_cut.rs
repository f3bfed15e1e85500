//! A server cut off from its peers, while its clients still reach it: does a holder on it stop believing in time?
//!
//! The same rounds are judged by two rules that look as good and are wrong, to show that such a test can tell.

mod support;

use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::Keeper;
use lockkeeper_faults::namespaces::{self, Network};
use lockkeeper_faults::proxy::{Direction, Flow, Operation, Proxy};
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use support::{Party, can_start, is_joined, soon};

const TICK: Duration = Duration::from_millis(500);

const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How many rounds are run, if not by default.
const ROUNDS_VARIABLE: &str = "LOCKKEEPER_CUT_OFF_ROUNDS";

/// Each kind of traffic on a follower and on the leader.
const ROUNDS_DEFAULT: usize = 8;

/// Which server is cut off.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Follower,
    Leader,
}

/// What the holder's session does before the cut; each kind ends with an acknowledged write just before it.
#[derive(Clone, Copy, Debug)]
enum Traffic {
    /// A write every few milliseconds.
    Steady,
    /// Nothing gets through for a while, then all of it at once.
    Stalled,
    /// Nothing but what keeps the session alive.
    Idle,
    /// Writes at unequal distances.
    Mixed,
}

impl Traffic {
    async fn run(self, keeper: &Keeper, proxy: &Proxy, round: usize) {
        let mutex = keeper.mutex("traffic").unwrap();
        let write = async || mutex.lock().await.unwrap().release().await.unwrap();
        match self {
            Self::Steady => {
                for _ in 0..60 {
                    write().await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Self::Stalled => {
                write().await;
                proxy.set_flow(Direction::ToServer, Flow::Hold);
                tokio::time::sleep(SESSION_TIMEOUT / 4).await;
                proxy.set_flow(Direction::ToServer, Flow::Pass);
            }
            Self::Idle => tokio::time::sleep(SESSION_TIMEOUT * 3 / 4).await,
            Self::Mixed => {
                for step in 0..6_u64 {
                    write().await;
                    let millis = (round as u64 * 7_919 + step * 104_729) % 600;
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
            }
        }
        write().await;
    }
}

/// What one round showed, in seconds from the end of the belief to the next grant; negative is a double hold.
#[derive(Debug)]
struct Round {
    margin: f64,
    by_pings: f64,
    by_writes: f64,
}

fn seconds(from: BootInstant, to: BootInstant) -> f64 {
    (i128::from(to.as_nanos()) - i128::from(from.as_nanos())) as f64 / 1e9
}

async fn round(network: &Network, ensemble: &Ensemble, cut: Cut, traffic: Traffic, number: usize) -> Round {
    let index = match cut {
        Cut::Follower => ensemble.follower().await.unwrap(),
        Cut::Leader => ensemble.leader().await.unwrap(),
    };
    let others: Vec<_> =
        (0..3).filter(|&other| other != index).map(|other| ensemble.servers()[other].address().to_string()).collect();
    let proxy = Proxy::start(ensemble.servers()[index].address()).await.unwrap();
    let started = SystemClock.now();
    let settings = format!("?session_timeout={}ms&tick={}ms", SESSION_TIMEOUT.as_millis(), TICK.as_millis());
    let holder = Party::new(proxy.address(), &settings);
    let waiter = Party::of_servers(&others.join(","), &settings);
    let lock = format!("door-{number}");
    let guard = soon("the first grant", holder.keeper.mutex(&lock).unwrap().lock()).await.unwrap();
    let hold = guard.hold().clone();
    let mutex = waiter.keeper.mutex(&lock).unwrap();
    let waiting = tokio::spawn(async move {
        let next = mutex.lock().await;
        (next, SystemClock.now(), hold.liveness().safe_until())
    });
    waiter.journal.until(1, is_joined).await;
    traffic.run(&holder.keeper, &proxy, number).await;
    network.isolate(index).unwrap();
    let hold = guard.hold().clone();
    let believed_until = async {
        loop {
            let lost = tokio::time::timeout(Duration::from_millis(5), hold.lost()).await;
            if lost.is_ok() {
                return SystemClock.now();
            }
        }
    };
    let (ended, waited) = tokio::join!(believed_until, soon("the next grant", waiting));
    let (next, granted_at, still) = waited.unwrap();
    assert_eq!(still, None, "{cut:?} {traffic:?}: held until {still:?} when the next was granted");
    drop(next.unwrap());
    // Both wrong rules, by the frames that the proxy saw.
    let log = proxy.log();
    let at = |seen: Duration| started.saturating_add(seen);
    let is_write = |operation| {
        [Operation::CREATE2, Operation::DELETE, Operation::MULTI, Operation::CREATE_CONTAINER].contains(&operation)
    };
    let last_reply = log.iter().filter(|frame| frame.direction == Direction::ToClient).map(|frame| frame.seen).max();
    let acknowledged = log.iter().filter(|frame| frame.direction == Direction::ToClient && is_write(frame.operation));
    let last_write = acknowledged
        .filter_map(|reply| {
            let is_asked = |frame: &&lockkeeper_faults::proxy::FrameRecord| {
                frame.direction == Direction::ToServer && frame.xid == reply.xid && frame.operation == reply.operation
            };
            log.iter().find(is_asked).map(|frame| frame.seen)
        })
        .max();
    let between_proofs = (SESSION_TIMEOUT / 6).min(Duration::from_secs(3));
    let by_pings = at(last_reply.unwrap()).saturating_add(SESSION_TIMEOUT);
    let by_writes =
        at(last_write.unwrap()).saturating_add(SESSION_TIMEOUT).saturating_sub(between_proofs + TICK / 2);
    network.heal(index).unwrap();
    Round {
        margin: seconds(ended, granted_at),
        by_pings: seconds(by_pings, granted_at),
        by_writes: seconds(by_writes, granted_at),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_on_a_server_that_is_cut_off_stops_believing_before_the_next_is_granted() {
    let test = "a_holder_on_a_server_that_is_cut_off_stops_believing_before_the_next_is_granted";
    if !can_start(test) || !namespaces::availability().or_skip(test) {
        return;
    }
    let rounds = std::env::var(ROUNDS_VARIABLE).ok().map_or(ROUNDS_DEFAULT, |text| text.parse().expect("a number"));
    let network = Network::new(3).unwrap();
    let mut ensemble = Ensemble::start_in(&network, Setup::new().tick(TICK)).await.unwrap();
    let mut all = Vec::new();
    for number in 0..rounds {
        let cut = if number % 2 == 0 { Cut::Follower } else { Cut::Leader };
        let traffic = [Traffic::Steady, Traffic::Stalled, Traffic::Idle, Traffic::Mixed][number / 2 % 4];
        let round = round(&network, &ensemble, cut, traffic, number).await;
        eprintln!(
            "{cut:?}, {traffic:?}: margin {:.2} s; by ping replies {:.2} s; by t_w + T - h - tick/2 {:.2} s",
            round.margin, round.by_pings, round.by_writes
        );
        assert!(round.margin > 0.0, "two holders for {:.2} s", -round.margin);
        all.push(round);
        ensemble.serving().await.unwrap();
    }
    let least = |of: fn(&Round) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    let (margin, by_pings, by_writes) =
        (least(|round| round.margin), least(|round| round.by_pings), least(|round| round.by_writes));
    eprintln!(
        "least of {rounds} rounds: margin {margin:.2} s; by ping replies {by_pings:.2} s; by t_w + T - h - tick/2 {by_writes:.2} s"
    );
    assert!(by_pings < 0.0, "the test can see a double hold");
}
