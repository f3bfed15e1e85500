//! One run of a seed: a server, machines with a client each, their users, and what goes wrong.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{History, LOCK, Random};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, ServiceUrl, randomness};
use lockkeeper_history::{HistoryRecord, Limits, Violation, What, check};
use lockkeeper_recipes::{Handoff, Keeper, Spawner};
use lockkeeper_zookeeper::{Config, ZooKeeperBackend};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::faults::inflict;
use crate::flaw::Flaw;
use crate::machine::Machine;
use crate::network::Way;
use crate::plan::{MachinePlan, PERMITS, RunPlan};
use crate::service::SimulatedService;
use crate::user::User;

/// How many session timeouts all users have after the last fault: the longest of all plans takes a third of it. One
/// that is not done by then waits for ever.
const DONE_AFTER: u32 = 300;

/// How many session timeouts the last contenders have to leave, whose process may have been told nothing.
const DRAINED_AFTER: u32 = 4;

/// The first attempts of two users are this far apart.
const ATTEMPTS_OF_A_USER: u32 = 100;

/// What a run has shown.
#[derive(Debug)]
pub struct Report {
    /// What was chosen.
    pub plan: Arc<RunPlan>,
    /// What happened.
    pub records: Vec<HistoryRecord>,
    /// The rules that were broken.
    pub violations: Vec<Violation>,
    /// How long it took, in the server's time.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{:#?}", self.plan)?;
        for record in &self.records {
            writeln!(formatter, "{:?} {:?}", record.at, record.what)?;
        }
        write!(formatter, "{} rules broken after {:?}", self.violations.len(), self.took)?;
        self.violations.iter().try_for_each(|violation| write!(formatter, "\n{violation:?}"))
    }
}

impl Report {
    /// How often the lock was granted.
    pub fn grants(&self) -> usize {
        self.records.iter().filter(|record| matches!(record.what, What::Granted { .. })).count()
    }
}

/// What all parts of a run share.
#[derive(Debug)]
pub(crate) struct RunParts {
    pub(crate) service: SimulatedService,
    pub(crate) machines: Vec<Machine>,
    pub(crate) ways: Vec<Way>,
    pub(crate) history: History,
}

/// Runs a seed, with a flaw that is to be found or without one.
///
/// # Panics
///
/// If the code that is simulated panics.
pub fn run(seed: u64, flaw: Option<Flaw>) -> Report {
    randomness::seed_this_thread(seed);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Which of two tasks that wait for one watch is woken first is otherwise another choice in each run.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    let runtime = builder.enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O starts").block_on(play(Arc::new(RunPlan::of(seed)), flaw))
}

async fn play(plan: Arc<RunPlan>, flaw: Option<Flaw>) -> Report {
    let begun = Instant::now();
    let mut chance = Random::new(!plan.seed);
    let service = SimulatedService::start(plan.clone()).await;
    let withdrawals: Arc<watch::Sender<u64>> = Arc::default();
    let drift = |drift_ppm| flaw.map_or(drift_ppm, |flaw| flaw.drift_ppm(drift_ppm));
    let machine = |(number, plan): (u32, &MachinePlan)| {
        let machine = Machine::new(number, drift(plan.drift_ppm));
        if flaw.is_some_and(Flaw::stops_clocks) { machine.with_clock_that_stops() } else { machine }
    };
    let machines: Vec<_> = (0..).zip(&plan.machines).map(machine).collect();
    let way = |(machine, plan): (&Machine, &MachinePlan)| {
        Way::new(machine.clone(), service.clone(), plan.latency, chance.split())
    };
    let ways: Vec<_> = machines.iter().zip(&plan.machines).map(way).collect();
    let onlooker = Machine::new(u32::try_from(plan.machines.len()).expect("there are few"), 0);
    let history = History::new(Arc::new(onlooker.clone()));
    let parts = Arc::new(RunParts { service, machines, ways, history });
    let over = |backend| match flaw {
        Some(flaw) => flaw.over(backend, withdrawals.clone()),
        None => backend,
    };
    let keepers: Vec<_> = (0..plan.machines.len()).map(|number| keeper(&parts, &plan, number, over)).collect();
    let mut faults = JoinSet::new();
    for fault in &plan.faults {
        faults.spawn(inflict(parts.clone(), begun, fault.clone()));
    }
    if let Some(flaw) = flaw {
        faults.spawn(flaw.act(parts.service.clone(), plan.timeout, chance.split()));
    }
    let users = put_to_work(&parts, &plan, &keepers);
    let faults_over = plan.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or_default();
    // A user that is not done by then is found in its records.
    let _ = timeout(faults_over + plan.timeout * DONE_AFTER, users.join_all()).await;
    let _ = timeout(faults_over, faults.join_all()).await;
    for keeper in keepers {
        // The service may have ended the session.
        let _ = keeper.close().await;
    }
    let left = left_behind(&parts, &plan, onlooker).await;
    parts.history.record(What::Drained { left });
    let records = parts.history.records();
    let passes_turns = plan.handoff != Handoff::default();
    let violations = check(&records, Limits { permits: PERMITS, passes_turns, ..Limits::default() });
    Report { plan, records, violations, took: begun.elapsed() }
}

fn keeper(
    parts: &RunParts,
    plan: &RunPlan,
    number: usize,
    over: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend>,
) -> Keeper {
    let clock: Arc<dyn Clock> = Arc::new(parts.machines[number].clone());
    let backend = over(backend(plan, parts.ways[number].clone(), clock.clone()));
    // Places that are kept live on a thread for themselves, which has its own time.
    let spawner = Spawner::new(|watch| drop(tokio::spawn(watch)));
    let builder = Keeper::builder(backend).clock(clock).handoff(plan.handoff).spawner(spawner);
    builder.observer(Arc::new(parts.history.clone())).build()
}

fn backend(plan: &RunPlan, way: Way, clock: Arc<dyn Clock>) -> Arc<dyn Backend> {
    let (timeout, tick) = (plan.timeout.as_millis(), plan.tick.as_millis());
    let url = format!("zk://simulated?session_timeout={timeout}ms&tick={tick}ms");
    let url: ServiceUrl = url.parse().expect("a URL");
    let config = Config::from_url(&url).expect("good settings");
    Arc::new(ZooKeeperBackend::with(config, Arc::new(way), clock))
}

fn put_to_work(parts: &RunParts, plan: &RunPlan, keepers: &[Keeper]) -> JoinSet<()> {
    let mut users = JoinSet::new();
    let mut first_attempt = 0;
    for ((number, keeper), machine) in (0..).zip(keepers).zip(&plan.machines) {
        for calls in &machine.users {
            let user = User {
                number,
                keeper: keeper.clone(),
                machine: parts.machines[number as usize].clone(),
                history: parts.history.clone(),
            };
            users.spawn(user.make(calls.clone(), first_attempt));
            first_attempt += ATTEMPTS_OF_A_USER;
        }
    }
    users
}

/// Counts the contenders that are left once all sessions are closed or have expired.
async fn left_behind(parts: &RunParts, plan: &RunPlan, onlooker: Machine) -> usize {
    let way = Way::new(onlooker.clone(), parts.service.clone(), (Duration::ZERO, Duration::ZERO), Random::new(0));
    let looking = Keeper::builder(backend(plan, way, Arc::new(onlooker.clone()))).clock(Arc::new(onlooker)).build();
    let deadline = Instant::now() + plan.timeout * DRAINED_AFTER;
    loop {
        let left = looking.contenders(LOCK).await.map_or(usize::MAX, |contenders| contenders.len());
        if left == 0 || Instant::now() >= deadline {
            return left;
        }
        sleep(plan.tick).await;
    }
}
