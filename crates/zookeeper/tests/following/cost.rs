//! The measurement: the same changes without a follower and with one, in turns.

use std::fmt;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_conformance::SOON;
use lockkeeper_core::Backend;
use lockkeeper_faults::long;
use lockkeeper_zookeeper::ZooKeeperBackend;

use crate::effort::{Effort, Worker};
use crate::locks::{LOCKS, Locks, name};
use crate::server::{Kind, Running};
use crate::watcher::Watcher;

/// How late a change may be told at the median. It counts in the long run, beside which nothing else runs.
const DELAY_MAX: Duration = Duration::from_millis(10);

/// How often both are measured; the median of the differences counts.
const ROUNDS: u32 = 5;

/// How long changes are made in one measurement, in the long run.
const ROUND_TIME: Duration = Duration::from_secs(20);

/// How long changes are made before the first one, in the long run, so that a virtual machine knows its hot code.
const WARM_TIME: Duration = Duration::from_secs(60);

/// How many times the work of a warm server of Apache's a cold one may take: the plain run is too short to warm it.
fn cold_times() -> f64 {
    if long::is_asked_for() { 1.0 } else { 2.0 }
}

/// What following has cost, in parts of one processor.
#[derive(Debug)]
pub(crate) struct Cost {
    server_alone: f64,
    server_added: f64,
    follower: f64,
    first_look: Duration,
    /// The median, and that of the latest hundredth.
    delays: [Duration; 2],
    told: usize,
}

pub(crate) async fn measure(kind: Kind) -> Result<Cost, Failed> {
    let server = kind.start().await?;
    let url = format!("zk://{}", server.address());
    let worker = Worker::Process(process_of(&server)?);
    let mut locks = Locks::make(&url).await?;
    locks.change_for(long::time(WARM_TIME)).await?;
    let (mut alone, mut added, mut followers, mut looks, mut delays) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let without = load(&mut locks, &[&worker]).await?;
        locks.untold.lock().expect("no panic").clear();
        let watcher = Watcher::start(&url, locks.untold.clone()).await?;
        let with = load(&mut locks, &[&worker, &Watcher::worker()]).await?;
        is_all_told(&locks, &watcher, &mut delays).await?;
        looks.push(watcher.first_look);
        check_picture(&url, watcher).await?;
        alone.push(without[0]);
        added.push(with[0] - without[0]);
        followers.push(with[1]);
    }
    delays.sort_unstable();
    looks.sort_unstable();
    Ok(Cost {
        server_alone: median(alone),
        server_added: median(added),
        follower: median(followers),
        first_look: looks[looks.len() / 2],
        delays: [delays[delays.len() / 2], delays[delays.len() * 99 / 100]],
        told: delays.len(),
    })
}

fn process_of(server: &Running) -> Result<u32, Failed> {
    match server {
        Running::Apache(server) => server.pid().ok_or_else(|| "the server does not run".into()),
        Running::Embedded { process, .. } => Ok(process.id()),
    }
}

/// Makes changes for a round; returns which part of a processor each has had meanwhile.
#[expect(clippy::disallowed_methods, reason = "a test measures work over time")]
async fn load(locks: &mut Locks, workers: &[&Worker]) -> Result<Vec<f64>, Failed> {
    let efforts = || workers.iter().map(|worker| worker.effort()).collect::<Result<Vec<_>, _>>();
    let (before, begun) = (efforts()?, Instant::now());
    locks.change_for(long::time(ROUND_TIME)).await?;
    let (after, time) = (efforts()?, begun.elapsed());
    let part = |(after, before): (&Effort, &Effort)| after.since(before).div_duration_f64(time);
    Ok(after.iter().zip(&before).map(part).collect())
}

/// Waits until each change was told.
async fn is_all_told(locks: &Locks, watcher: &Watcher, delays: &mut Vec<Duration>) -> Result<(), Failed> {
    let is_told = async || locks.untold.lock().expect("no panic").is_empty().then_some(());
    lockkeeper_faults::wait::until("the last telling", SOON, is_told).await?;
    delays.extend(watcher.delays());
    Ok(())
}

/// Compares what was told with looks at some locks.
async fn check_picture(url: &str, watcher: Watcher) -> Result<(), Failed> {
    let picture = watcher.end().await?;
    if picture.locks().len() != LOCKS {
        return Err(format!("{} of {LOCKS} locks are known", picture.locks().len()).into());
    }
    let onlooker = ZooKeeperBackend::open(&url.parse()?)?;
    for number in (0..LOCKS).step_by(97) {
        let lock = lockkeeper_core::QueueName::new(&name(number))?;
        let (told, seen) = (picture.locks().get(&lock), onlooker.inspect(&lock).await?);
        if told != Some(&seen) {
            return Err(format!("{told:?} was told, and a look shows {seen:?}").into());
        }
    }
    onlooker.close().await?;
    Ok(())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

impl Cost {
    /// Returns whether it is within its bounds.
    pub(crate) fn checked(&self, kind: Kind) -> Result<(), Failed> {
        if self.delays[0] > DELAY_MAX && long::is_asked_for() {
            return Err(format!("changes were told after {:?} at the median", self.delays[0]).into());
        }
        // Unoptimised code of ours takes many times the work of what users run, and says nothing of it.
        if cfg!(debug_assertions) {
            return Ok(());
        }
        // Of a processor that the server works on: Apache's and the embedded one. The follower's own work is shown
        // beside it, since it is another machine's.
        let (added_max, server_times) = match kind {
            Kind::Apache => (0.03, cold_times()),
            Kind::Embedded => (0.01, 1.0),
        };
        let added = self.server_added / server_times;
        if added > added_max {
            return Err(format!("watches added {added:.4} of a processor, and {added_max} is the bound").into());
        }
        Ok(())
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server_alone, server_added, follower, first_look, delays: [half, late], told } = self;
        let [alone, added, follower] = [server_alone, server_added, follower].map(|part| part * 100.0);
        write!(
            formatter,
            "{LOCKS} locks; server {alone:.2} % of a core without, {added:.2} % more with; follower {follower:.2} %; \
             first look {first_look:.2?}; {told} changes told after {half:.2?} at the median, 99 % within {late:.2?}"
        )
    }
}
