//! A storm of sessions: thousands of programs lose their service together, and all come back when it does.
//!
//! Each lock has a contender in each of the processes, all of different sessions. The service goes away for longer than
//! a session lasts. Measured is how soon all have a session and a place in the queue again, how soon each lock is
//! granted, and what that costs the service. Then all give their locks back, so each waiter is granted its lock in
//! turn: none was forgotten. The history of each lock is judged by the checker of `lockkeeper-history`.

mod member;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_conformance::soon;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_faults::server::{Kind, Server};
use lockkeeper_faults::{figures, long};
use lockkeeper_history::{HistoryRecord, Limits, Violation, What, check};
use tokio::runtime::Runtime;

use crate::members::Members;
use crate::records::{self, Histories};
use crate::rounds::span;
use crate::service::{Service, now};

pub(crate) use self::member::play;

/// How many sessions there are where the service serves as many, in the long run; the plain one has a tenth.
pub const SESSIONS: u32 = 10_000;

/// How many processes the sessions belong to.
const PROCESSES: u32 = 20;

/// How long the service is away in the long run.
const AWAY: Duration = Duration::from_secs(5 * 60);

/// How long a session lasts, in seconds; the plain run waits for two of them.
const TIMEOUT_S: u64 = 30;

/// How many session timeouts after the return all are back at the latest.
const BACK_WITHIN_TIMEOUTS: f64 = 2.0;

/// How many requests beside its proofs a client makes until all are back, at most: it ends the former session, opens
/// one, joins, looks and waits, which are 7 to 15. In a herd there are hundreds.
const REQUESTS_MAX: f64 = 30.0;

/// After this time all that a join asks for behind it has come, and a proof, before which PostgreSQL does not count it.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

/// How long the requests of those that rest are counted.
const RESTING: Duration = Duration::from_secs(10);

/// How many faults are printed.
const SHOWN_MAX: usize = 10;

/// A service that can go away and come back with its data.
pub trait StormServer {
    /// Where its clients find it.
    fn address(&self) -> SocketAddr;

    /// Ends it, and all connections with it.
    ///
    /// # Errors
    ///
    /// It does not end.
    fn stop(&mut self) -> Result<(), Failed>;

    /// Starts it where it was, with its data, and waits until it serves.
    ///
    /// # Errors
    ///
    /// It does not serve.
    fn start(&mut self) -> Result<(), Failed>;

    /// How many requests it has taken, by its count.
    ///
    /// # Errors
    ///
    /// It does not say so.
    fn requests(&self) -> Result<u64, Failed>;

    /// How much processor time it has used since it was started.
    ///
    /// # Errors
    ///
    /// The system does not say so.
    fn processor_time(&self) -> Result<Duration, Failed>;
}

/// A real server, and how its requests are counted.
#[expect(missing_debug_implementations, reason = "it has a closure")]
pub struct RealServer<K: Kind, Count> {
    runtime: Runtime,
    server: Server<K>,
    /// Where clients find it.
    address: SocketAddr,
    count: Count,
}

impl<K: Kind, Count: AsyncFn(&Server<K>) -> Result<u64, Failed>> RealServer<K, Count> {
    /// Takes one that serves.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(
        starting: impl Future<Output = lockkeeper_faults::Result<Server<K>>>,
        count: Count,
    ) -> Result<Self, Failed> {
        let runtime = Runtime::new()?;
        let server = runtime.block_on(starting)?;
        Ok(Self { runtime, address: server.address(), server, count })
    }

    /// Has clients come through something before it, which stays when it goes away.
    ///
    /// # Errors
    ///
    /// That does not start.
    pub fn behind<Front>(
        &mut self,
        start: impl AsyncFnOnce(&Server<K>) -> lockkeeper_faults::Result<Front>,
        address: fn(&Front) -> SocketAddr,
    ) -> Result<Front, Failed> {
        let front = self.runtime.block_on(start(&self.server))?;
        self.address = address(&front);
        Ok(front)
    }
}

impl<K: Kind, Count: AsyncFn(&Server<K>) -> Result<u64, Failed>> StormServer for RealServer<K, Count> {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn stop(&mut self) -> Result<(), Failed> {
        self.runtime.block_on(self.server.stop());
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failed> {
        self.server.start()?;
        Ok(self.runtime.block_on(self.server.serving())?)
    }

    fn requests(&self) -> Result<u64, Failed> {
        self.runtime.block_on((self.count)(&self.server))
    }

    fn processor_time(&self) -> Result<Duration, Failed> {
        Ok(self.server.processor_time())
    }
}

/// Has so many sessions live through an outage in the long run; the plain one has a tenth. The service's clients have
/// these settings beside the session timeout.
///
/// # Errors
///
/// A promise was broken, or something does not serve.
pub fn live_through(
    kind: &str,
    service: &Service,
    server: &mut dyn StormServer,
    sessions: u32,
    settings: &str,
) -> Result<(), Failed> {
    let servers = [server.address()];
    let locks = long::rounds(sessions).div_ceil(PROCESSES);
    let url = (service.url)(&servers, &format!("session_timeout={TIMEOUT_S}s{settings}"));
    let mut members = Members::none()?;
    let begun = now();
    for process in 0..PROCESSES {
        let asked = format!("{url} {process} {locks} {}", members.file(&format!("records-{process}")).display());
        members.start(member::ASKED, &asked)?;
    }
    members.say("joined")?;
    let joined = now();
    let storm = Storm::rage(server, &mut members, locks * PROCESSES)?;
    members.tell("drain")?;
    let retries: usize = members.say("done")?.into_iter().sum();
    let drained = now();
    let left = left(service, &servers, locks)?;
    let histories = records::read(members.folder(), "records")?;
    let told = storm.told(&histories);
    let broken = judge(histories, left);
    figures::tell(&format!(
        "storm: {kind}: {told}; all joined within {:.1} s at first, and were served in turn within {:.1} s at last; \
         {retries} calls tried again; {} broken promises",
        span(begun, joined),
        span(storm.all_back, drained),
        broken.len(),
    ));
    if !broken.is_empty() {
        return Err(format!("{:#?}", &broken[..broken.len().min(SHOWN_MAX)]).into());
    }
    storm.check()
}

/// How long the service is away.
fn away() -> Duration {
    long::time(AWAY).max(Duration::from_secs(2 * TIMEOUT_S))
}

/// How many contenders are left in the queues.
fn left(service: &Service, servers: &[SocketAddr], locks: u32) -> Result<usize, Failed> {
    Runtime::new()?.block_on(async {
        let (keeper, mut left) = (service.keeper(servers, ""), 0);
        for lock in 0..locks {
            left += soon("a look", keeper.contenders(&member::name(lock))).await?.len();
        }
        soon("closing", keeper.close()).await?;
        Ok(left)
    })
}

/// The rules that the histories break, each with its lock.
fn judge(histories: Histories, left: usize) -> Vec<(u32, Violation)> {
    let judge = |(lock, mut records): (u32, Vec<HistoryRecord>)| {
        records.push(HistoryRecord { at: now(), what: What::Drained { left: 0 } });
        check(&records, Limits::default()).into_iter().map(move |broken| (lock, broken))
    };
    let mut broken: Vec<_> = histories.into_iter().flat_map(judge).collect();
    broken.extend((left > 0).then_some((u32::MAX, Violation::Orphans { left })));
    broken
}

/// What was measured.
#[derive(Debug)]
struct Storm {
    sessions: u32,
    returned: BootInstant,
    all_back: BootInstant,
    /// The requests from the return until all were back.
    requests: u64,
    /// Those of [`RESTING`].
    resting: u64,
    /// The server's processor time from the return until all were back.
    worked: Duration,
}

impl Storm {
    /// Takes the service away from all of them, and brings it back.
    #[expect(clippy::disallowed_methods, reason = "an outage lasts, and requests are counted for a while")]
    fn rage(server: &mut dyn StormServer, members: &mut Members, sessions: u32) -> Result<Self, Failed> {
        thread::sleep(SETTLED_AFTER);
        let before = server.requests()?;
        thread::sleep(RESTING);
        let resting = server.requests()? - before;
        members.tell("away")?;
        server.stop()?;
        thread::sleep(away());
        server.start()?;
        let (returned, requests, worked) = (now(), server.requests()?, server.processor_time()?);
        members.say("back")?;
        let (all_back, requests) = (now(), server.requests()? - requests);
        let worked = server.processor_time()?.saturating_sub(worked);
        Ok(Self { sessions, returned, all_back, requests, resting, worked })
    }

    /// How long after the return all were back, in session timeouts.
    fn timeouts(&self) -> f64 {
        span(self.returned, self.all_back) / TIMEOUT_S as f64
    }

    /// How many requests a client makes in a session timeout while nothing happens.
    fn resting(&self) -> f64 {
        self.resting as f64 / f64::from(self.sessions) / RESTING.as_secs_f64() * TIMEOUT_S as f64
    }

    /// How many requests a client made until all were back.
    fn returning(&self) -> f64 {
        self.requests as f64 / f64::from(self.sessions)
    }

    fn told(&self, histories: &Histories) -> String {
        let Self { sessions, returned, all_back, .. } = *self;
        let mut joins: Vec<f64> = Vec::new();
        let mut grants: Vec<f64> = Vec::new();
        let mut count = 0;
        for records in histories.values() {
            let granted = |record: &&HistoryRecord| matches!(record.what, What::Granted { .. });
            count += records.iter().filter(granted).count();
            let after = records.iter().filter(|record| record.at > returned);
            grants.extend(after.clone().find(granted).map(|record| span(returned, record.at)));
            let joined = after.filter(|record| matches!(record.what, What::Joined { .. }) && record.at <= all_back);
            joins.extend(joined.map(|record| span(returned, record.at)));
        }
        let [joins, grants] = [joins, grants].map(|mut times| {
            times.sort_by(f64::total_cmp);
            let last = times.len().saturating_sub(1);
            let of = |part: usize| times.get(last * part / 100).copied().unwrap_or(0.0);
            format!("{:.1} s (first), {:.1} s (median), {:.1} s (last)", of(0), of(50), of(100))
        });
        format!(
            "{sessions} sessions of {PROCESSES} processes, {TIMEOUT_S} s each, away for {:?}; in their queues again \
             after {joins}; the next of {} locks granted after {grants}; {count} grants; {:.1} requests a client until \
             all were back, {:.1} a timeout at rest; {:.1} s of the server's processor",
            away(),
            histories.len(),
            self.returning(),
            self.resting(),
            self.worked.as_secs_f64(),
        )
    }

    fn check(&self) -> Result<(), Failed> {
        let timeouts = self.timeouts();
        if timeouts > BACK_WITHIN_TIMEOUTS {
            return Err(format!("all were back after {timeouts:.1} session timeouts only").into());
        }
        let beside_proofs = self.returning() - self.resting() * timeouts;
        if beside_proofs > REQUESTS_MAX {
            return Err(format!("a client made {beside_proofs:.1} requests beside its proofs").into());
        }
        Ok(())
    }
}
