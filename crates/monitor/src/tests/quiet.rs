//! Programs that cannot block each other, since each takes its locks in one order: no alarm, whatever a look sees of
//! them at one moment or over several.

use lockkeeper::{ContenderInfo, Mode};
use lockkeeper_conformance::{Random, seed};
use lockkeeper_faults::figures;

use super::scene::{contender, foreign, lock, of, seen, semaphore};
use crate::confirmation::{Confirmation, DeadlockVerdict};
use crate::find;
use crate::snapshot::{ObservedLock, ServiceSnapshot};
use crate::tests::planted::{self, Fault};

/// How many worlds are watched.
const WORLDS: usize = 1_000;

/// How many looks each gets.
const LOOKS: u64 = 12;

/// How long a step of the world takes, in milliseconds.
const STEP: u64 = 150;

/// The locks of a world, in the order in which every worker takes them.
const LOCKS: usize = 5;

/// The last two of them are semaphores of so many permits.
const PERMITS: usize = 2;

/// A task that takes some locks, the least first, works, and gives them back.
#[derive(Debug)]
struct Worker {
    process: u64,
    task: u64,
    /// Whether its client tells no more than its session, which all tasks of its process share.
    is_foreign: bool,
    /// What it still takes, the next one last.
    plan: Vec<usize>,
    has: Vec<(usize, u64)>,
    waits: Option<(usize, u64)>,
    /// For how many steps it works yet.
    work: u64,
}

/// Workers, and the queues in which they stand.
#[derive(Debug)]
struct Life {
    random: Random,
    workers: Vec<Worker>,
    /// Who stands in each lock, by number; the modes are those of the numbers.
    queues: Vec<Vec<(u64, usize, Mode)>>,
    joined: u64,
}

impl Life {
    fn new(mut random: Random) -> Self {
        let mut workers = Vec::new();
        for process in 0..2 + random.below(3) {
            let is_foreign = random.below(3) == 0;
            for task in 0..1 + random.below(4) {
                let worker = Worker { process, task, is_foreign, plan: vec![], has: vec![], waits: None, work: 0 };
                workers.push(worker);
            }
        }
        Self { random, workers, queues: vec![Vec::new(); LOCKS], joined: 0 }
    }

    fn holds(&self, lock: usize, number: u64) -> bool {
        let queue = &self.queues[lock];
        let at = queue.iter().position(|one| one.0 == number).unwrap();
        let keeps_out = |ahead: &(u64, usize, Mode)| ahead.2 != Mode::Read || queue[at].2 != Mode::Read;
        if lock + 2 >= LOCKS { at < PERMITS } else { !queue[..at].iter().any(keeps_out) }
    }

    /// Lets one of them do something.
    fn step(&mut self) {
        let index = usize::try_from(self.random.below(self.workers.len() as u64)).unwrap();
        if let Some((lock, number)) = self.workers[index].waits {
            if self.holds(lock, number) {
                self.workers[index].waits = None;
                self.workers[index].has.push((lock, number));
            }
            return;
        }
        let worker = &mut self.workers[index];
        if let Some(lock) = worker.plan.pop() {
            self.joined += 1;
            worker.waits = Some((lock, self.joined));
            let mode = if lock < 2 && self.random.below(2) == 0 { Mode::Read } else { Mode::Write };
            self.queues[lock].push((self.joined, index, mode));
        } else if worker.work > 0 {
            worker.work -= 1;
        } else {
            for (lock, number) in std::mem::take(&mut worker.has) {
                self.queues[lock].retain(|one| one.0 != number);
            }
            worker.plan = (0..LOCKS).rev().filter(|_| self.random.below(2) == 0).collect();
            worker.work = self.random.below(20);
        }
    }

    fn info(&self, number: u64, index: usize, mode: Mode) -> ContenderInfo {
        let Worker { process, task, is_foreign, .. } = self.workers[index];
        let info = contender(number, mode);
        if is_foreign { foreign(info, &format!("s{process}")) } else { of(info, process, &format!("t{task}")) }
    }

    fn seen(&self, number: usize) -> ObservedLock {
        let name = format!("lock {number}");
        let queue = &self.queues[number];
        let info = |&(one, worker, mode): &(u64, usize, Mode)| self.info(one, worker, mode);
        if number + 2 < LOCKS {
            return lock(&name, queue.iter().map(info).collect());
        }
        let mode = |at: usize| if at < PERMITS { Mode::Permit } else { Mode::Acquire };
        let contenders = queue.iter().enumerate().map(|(at, &(one, worker, _))| self.info(one, worker, mode(at)));
        semaphore(&name, u32::try_from(PERMITS).unwrap(), contenders.collect())
    }

    /// Looks at one lock after the other, while they go on; `now` is in milliseconds.
    fn look(&mut self, now: &mut u64, steps_between: u64) -> ServiceSnapshot {
        let began = *now;
        let mut locks = Vec::new();
        // The last lock first: what was held there is given back before an earlier one is asked for.
        for number in (0..LOCKS).rev() {
            locks.push(self.seen(number));
            self.go_on(now, steps_between);
        }
        seen(locks, began, *now)
    }

    fn go_on(&mut self, now: &mut u64, steps: u64) {
        for _ in 0..steps {
            self.step();
            *now += STEP;
        }
    }
}

/// How often a world is called deadlocked, though it never is, and how often a circle is seen in one look.
fn alarms(random: Random) -> (usize, usize) {
    let mut life = Life::new(random);
    let mut confirmation = Confirmation::default();
    let (mut now, mut alarms, mut phantoms) = (0, 0, 0);
    for look in 0..LOOKS {
        let pause = life.random.below(15);
        life.go_on(&mut now, pause);
        // Every other look sees all locks at one moment.
        let snapshot = life.look(&mut now, look % 2 * 3);
        let found = find(&snapshot);
        phantoms += found.iter().filter(|deadlock| deadlock.certainty.is_known()).count();
        let judged = confirmation.judge(&snapshot, found);
        alarms += judged.iter().filter(|judged| judged.verdict == DeadlockVerdict::Known).count();
    }
    (alarms, phantoms)
}

/// The same for many worlds.
fn all_alarms(seed: u64, worlds: usize) -> (usize, usize) {
    let mut random = Random::new(seed);
    (0..worlds).map(|_| alarms(random.split())).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
}

#[test]
fn a_thousand_worlds_without_deadlock_raise_no_alarm() {
    let seed = seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-monitor alarm");
    let (alarms, phantoms) = all_alarms(seed, WORLDS);
    assert_eq!(alarms, 0);
    assert!(phantoms > 0, "views of different moments show circles that never were");
    figures::tell(&format!("deadlocks: {WORLDS} worlds without, no alarm; {phantoms} circles seen in one look alone"));
}

#[test]
fn a_process_that_counts_as_one_flow_raises_alarms() {
    let (alarms, _) = planted::with(Fault::ProcessAsFlow, || all_alarms(1, WORLDS / 10));
    assert!(alarms > 0);
}

/// Two tasks, of which each seems to wait for the other.
fn phantom(began: u64, ended: u64) -> ServiceSnapshot {
    let one = |number, task| of(contender(number, Mode::Mutex), 1, task);
    let locks = vec![lock("A", vec![one(1, "t1"), one(4, "t2")]), lock("B", vec![one(2, "t2"), one(3, "t1")])];
    seen(locks, began, ended)
}

fn second_verdict(first: &ServiceSnapshot, second: &ServiceSnapshot) -> DeadlockVerdict {
    let mut confirmation = Confirmation::default();
    assert_eq!(confirmation.judge(first, find(first))[0].verdict, DeadlockVerdict::Unconfirmed);
    confirmation.judge(second, find(second))[0].verdict
}

#[test]
fn only_what_a_later_look_shows_too_is_known() {
    let first = phantom(0, 100);
    assert_eq!(second_verdict(&first, &phantom(100, 1_100)), DeadlockVerdict::Known);
    assert_eq!(second_verdict(&first, &phantom(100, 1_099)), DeadlockVerdict::Unconfirmed, "too early");
    assert_eq!(
        second_verdict(&first, &phantom(99, 1_100)),
        DeadlockVerdict::Unconfirmed,
        "seen before the first look ended"
    );
    let known_by_old_views = planted::with(Fault::OldViews, || second_verdict(&first, &phantom(0, 1_100)));
    assert_eq!(known_by_old_views, DeadlockVerdict::Known, "the fault is planted where it is caught");
}

#[test]
fn what_was_gone_in_between_begins_anew() {
    let mut confirmation = Confirmation::default();
    let nothing = seen(Vec::new(), 500, 600);
    for (look, verdict) in [(phantom(0, 0), Some(DeadlockVerdict::Unconfirmed)), (nothing, None)] {
        let judged = confirmation.judge(&look, find(&look));
        assert_eq!(judged.first().map(|judged| judged.verdict), verdict);
    }
    let later = phantom(1_200, 1_300);
    assert_eq!(confirmation.judge(&later, find(&later))[0].verdict, DeadlockVerdict::Unconfirmed);
}

#[test]
fn what_ends_by_itself_soon_is_no_alarm() {
    use std::time::Duration;
    let until = |seconds: u64| {
        let with_until = |mut snapshot: ServiceSnapshot| {
            snapshot.locks[0].contenders[1].caller.until_unix = Some(Duration::from_secs(seconds));
            snapshot.ended_unix = Duration::from_secs(100);
            snapshot
        };
        second_verdict(&with_until(phantom(0, 0)), &with_until(phantom(1_000, 1_100)))
    };
    assert_eq!(until(130), DeadlockVerdict::EndsSoon(Duration::from_secs(30)));
    assert_eq!(until(131), DeadlockVerdict::Known);
    assert_eq!(until(99), DeadlockVerdict::EndsSoon(Duration::ZERO), "it may be about to");
    assert_eq!(until(69), DeadlockVerdict::Known, "it does not do what it was to do");
}
