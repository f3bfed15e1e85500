//! The processes of a fleet, the faults that they meet, and the judge of what they recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{fs, thread};

use libtest_mimic::Failed;
use lockkeeper::clock::BootInstant;
use lockkeeper_conformance::Random;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::wait::{self, PATIENCE};
use lockkeeper_faults::{figures, long};
use lockkeeper_history::{HistoryRecord, Limits, Violation, What, check};
use lockkeeper_trials::members::Member;
use lockkeeper_trials::records::{self, Histories, Scribe};
use lockkeeper_trials::{now, span};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::program::{ASKED, LOCKS, Manner, name};
use crate::servers::FleetServer;

/// How many processes there are at the same time.
const PROCESSES: usize = 4;

/// How long a fleet is played with in the long run.
const PLAYED: Duration = Duration::from_secs(150);

/// How long a process stands still or is cut off at least: longer than its session lasts.
const HARMED_MIN: Duration = Duration::from_millis(4_500);

/// How much longer at most.
const HARMED_MORE_MAX_MS: u64 = 2_000;

/// How long before a fault the holders of its victim keep their locks: each lock goes to a holder by then, as a rule.
const KEPT_FOR: Duration = Duration::from_millis(50);

/// How long the fleet is left alone between two faults at most.
const REST_MAX_MS: u64 = 4_000;

/// How long a server stays away at most when it was killed.
const AWAY_MAX_MS: u64 = 300;

/// How many faults of a history are printed.
const SHOWN_MAX: usize = 10;

/// A fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum FleetFault {
    /// A process is killed, and another one takes its place.
    Killed,
    /// A process stands still.
    Stopped,
    /// A process is cut off from the server: no connection ends, and nothing arrives.
    CutOff,
    /// The server is killed, and comes back with its data.
    ServerKilled,
}

impl FleetFault {
    const ALL: [Self; 4] = [Self::Killed, Self::Stopped, Self::CutOff, Self::ServerKilled];

    /// A directory is no server.
    const OF_FILES: [Self; 2] = [Self::Killed, Self::Stopped];
}

/// A process, and its way to the server.
#[derive(Debug)]
struct Partaker {
    number: u32,
    member: Member,
    proxy: Option<Proxy>,
}

/// A fleet on one service.
pub(crate) struct Fleet {
    runtime: Runtime,
    server: FleetServer,
    manner: Manner,
    folder: TempDir,
    /// What befalls the processes is recorded for each lock.
    scribe: Scribe,
    partakers: Vec<Partaker>,
    /// How many processes were started.
    started: u32,
    killed: BTreeSet<u32>,
    faults: BTreeMap<FleetFault, u32>,
}

impl Fleet {
    /// Plays with a fleet, and judges what it recorded.
    pub(crate) fn play(
        kind: &str,
        start: fn(&Runtime) -> Result<FleetServer, Failed>,
        manner: Manner,
        random: Random,
    ) -> Result<(), String> {
        let told = Self::start(start, manner).and_then(|fleet| fleet.live(kind, random));
        told.map_err(|failed| failed.message().unwrap_or("it failed").to_owned())
    }

    fn start(start: fn(&Runtime) -> Result<FleetServer, Failed>, manner: Manner) -> Result<Self, Failed> {
        let runtime = Runtime::new()?;
        let (server, folder) = (start(&runtime)?, tempfile::tempdir()?);
        let scribe = Scribe::to(&folder.path().join("records"));
        let mut this = Self {
            runtime,
            server,
            manner,
            folder,
            scribe,
            partakers: Vec::new(),
            started: 0,
            killed: BTreeSet::new(),
            faults: BTreeMap::new(),
        };
        for _ in 0..PROCESSES {
            let partaker = this.partaker()?;
            this.partakers.push(partaker);
        }
        Ok(this)
    }

    /// Starts one more process.
    fn partaker(&mut self) -> Result<Partaker, Failed> {
        let (number, manner) = (self.started, self.manner);
        self.started += 1;
        let proxy = match self.server.address() {
            Some(address) => Some(self.runtime.block_on(Proxy::of_bytes(address))?),
            None => None,
        };
        let url = self.server.url(proxy.as_ref().map(Proxy::address));
        let [records, count] = ["records", "count"].map(|what| self.folder.path().join(format!("{what}-{number}")));
        let asked = format!("{manner:?} {url} {number} {} {}", records.display(), count.display());
        let mut member = Member::start(ASKED, &asked)?;
        member.says("begun")?;
        Ok(Partaker { number, member, proxy })
    }

    fn live(mut self, kind: &str, mut random: Random) -> Result<(), Failed> {
        let begun = now();
        let faults: &[FleetFault] = match self.server {
            FleetServer::Directory(_) => &FleetFault::OF_FILES,
            FleetServer::Running { .. } => &FleetFault::ALL,
        };
        while now() < begun.saturating_add(long::time(PLAYED)) {
            pass(Duration::from_millis(random.below(REST_MAX_MS)));
            let fault = faults[random.below(faults.len() as u64) as usize];
            *self.faults.entry(fault).or_default() += 1;
            self.inflict(fault, &mut random)?;
        }
        self.partakers.iter_mut().try_for_each(|partaker| partaker.member.is_told("stop"))?;
        for partaker in &mut self.partakers {
            partaker.member.says("done")?;
        }
        let (played, left) = (span(begun, now()), self.left()?);
        let histories = self.histories(left)?;
        let broken = self.judged(&histories);
        figures::tell(&format!(
            "fleet: {kind}, {:?}: {} grants to {} processes in {played:.0} s, {} intervals, faults {:?}; {} broken \
             promises",
            self.manner,
            self.grants()?,
            self.started,
            histories.values().flatten().filter(|record| grants(record)).count(),
            self.faults,
            broken.len(),
        ));
        let is_granted = |lock| histories.get(&lock).is_some_and(|records: &Vec<_>| records.iter().any(grants));
        if let Some(lock) = (0..LOCKS).find(|&lock| !is_granted(lock)) {
            return Err(format!("{} was granted to none", name(lock)).into());
        }
        match broken.is_empty() {
            true => Ok(()),
            false => Err(format!("{:#?}", &broken[..broken.len().min(SHOWN_MAX)]).into()),
        }
    }

    fn inflict(&mut self, fault: FleetFault, random: &mut Random) -> Result<(), Failed> {
        let victim = random.below(PROCESSES as u64) as usize;
        let lasts = HARMED_MIN + Duration::from_millis(random.below(HARMED_MORE_MAX_MS));
        self.partakers[victim].member.is_told("keep")?;
        pass(KEPT_FOR);
        match fault {
            FleetFault::Killed => {
                let next = self.partaker()?;
                let mut before = std::mem::replace(&mut self.partakers[victim], next);
                before.member.process().kill();
                self.killed.insert(before.number);
            }
            FleetFault::Stopped => {
                let keeper = self.partakers[victim].number;
                self.record(&What::Stopped { keeper });
                self.partakers[victim].member.process().pause()?;
                pass(lasts);
                self.partakers[victim].member.process().resume()?;
                self.record(&What::GoesOn { keeper });
            }
            FleetFault::CutOff => {
                let proxy = self.partakers[victim].proxy.as_ref();
                proxy.into_iter().for_each(Proxy::blackhole);
                pass(lasts);
                proxy.into_iter().for_each(Proxy::heal);
            }
            FleetFault::ServerKilled => {
                self.server.kill();
                pass(Duration::from_millis(random.below(AWAY_MAX_MS)));
                self.server.start(&self.runtime)?;
            }
        }
        self.partakers[victim].member.is_told("go")
    }

    fn record(&self, what: &What) {
        (0..LOCKS).for_each(|lock| self.scribe.record(lock, now(), what));
    }

    /// How many contenders are left in the queues, once the sessions of killed processes have had their time to end.
    fn left(&self) -> Result<usize, Failed> {
        let url = self.server.url(self.server.address());
        self.runtime.block_on(async {
            let keeper = lockkeeper::connect(url.as_str())?;
            let look = async || {
                let mut left = 0;
                for lock in 0..LOCKS {
                    left += keeper.contenders(&name(lock)).await.ok()?.len();
                }
                (left == 0).then_some(left)
            };
            let left = wait::until("the end of all contenders", PATIENCE, look).await;
            keeper.close().await?;
            // None ended in time: one of them, at least, stays.
            Ok(left.unwrap_or(1))
        })
    }

    /// How many grants the processes have counted.
    fn grants(&self) -> Result<u64, Failed> {
        let mut sum = 0;
        for number in 0..self.started {
            let count = fs::read(self.folder.path().join(format!("count-{number}")))?;
            // One that was killed at once has counted none.
            sum += count.try_into().map_or(0, u64::from_le_bytes);
        }
        Ok(sum)
    }

    /// The history of each lock, to its end.
    fn histories(&self, left: usize) -> Result<Histories, Failed> {
        let mut histories = records::read(self.folder.path(), "records")?;
        for records in histories.values_mut() {
            close_those_of(&self.killed, records);
            records.push(HistoryRecord { at: now(), what: What::Drained { left } });
        }
        Ok(histories)
    }

    /// The rules that they break, each with its lock.
    fn judged(&self, histories: &Histories) -> Vec<(u32, Violation)> {
        let limits = Limits { passes_turns: self.manner == Manner::Turns, ..Limits::default() };
        let broken = histories
            .iter()
            .flat_map(|(&lock, records)| check(records, limits).into_iter().map(move |violation| (lock, violation)));
        // How soon a holder is told is a matter of a busy machine's scheduler here. The simulation judges it.
        broken.filter(|(_, violation)| !matches!(violation, Violation::ToldLate { .. })).collect()
    }
}

const fn grants(record: &HistoryRecord) -> bool {
    matches!(record.what, What::Granted { .. })
}

/// A fault lasts so long, or the fleet is left alone.
#[expect(clippy::disallowed_methods, reason = "nothing tells when it has been long enough")]
fn pass(time: Duration) {
    thread::sleep(time);
}

/// Ends the attempts of processes that were killed behind the last thing that each recorded of them.
fn close_those_of(killed: &BTreeSet<u32>, records: &mut Vec<HistoryRecord>) {
    let mut open: BTreeMap<u32, (BootInstant, What)> = BTreeMap::new();
    for HistoryRecord { at, what } in &*records {
        match *what {
            What::Calling { attempt, keeper, .. } if killed.contains(&keeper) => {
                open.insert(attempt, (*at, What::GaveUp { attempt }));
            }
            What::Granted { attempt, .. } | What::Held { attempt } => {
                open.entry(attempt).and_modify(|end| *end = (*at, What::Lost { attempt }));
            }
            What::Joined { attempt } => {
                open.entry(attempt).and_modify(|end| end.0 = *at);
            }
            What::Lost { attempt } | What::Releasing { attempt } | What::GaveUp { attempt } => {
                open.remove(&attempt);
            }
            _ => {}
        }
    }
    records.extend(open.into_values().map(|(at, what)| HistoryRecord { at, what }));
    // Stable: an end comes behind what it ends.
    records.sort_by_key(|record| record.at);
}
