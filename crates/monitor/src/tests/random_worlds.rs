//! Worlds of any kind, in which the reduction and a plain simulation must agree.

use std::collections::BTreeSet;

use lockkeeper::{ContenderInfo, Mode};
use lockkeeper_conformance::{Random, seed};
use lockkeeper_faults::figures;

use super::plain::{Asks, Lock, One, stuck};
use super::scene::{contender, of, seen, within};
use crate::cores::cores;
use crate::find;
use crate::flows::{Flows, Sureness};
use crate::model::LockModel;
use crate::moment::TimePoint;
use crate::reduction::reduce;
use crate::snapshot::{ObservedLock, ServiceSnapshot};
use crate::tests::planted::{self, Fault};
use crate::world::World;

/// How many worlds are compared.
const WORLDS: usize = 200_000;

/// How many are enough for a planted fault to be seen.
const WORLDS_WITH_FAULT: usize = 20_000;

/// A few locks of any kind, with contenders of a few flows in any order.
fn world(random: &mut Random) -> Vec<Lock> {
    let (locks, flows) = (2 + random.below(4), 2 + random.below(5));
    let nesting = random.below(3) == 0;
    let mut number = 0;
    let one = |random: &mut Random, number: &mut u64, asks: Asks| {
        *number += 1;
        let around = (nesting && *number > 1 && random.below(3) == 0).then(|| 1 + random.below(*number - 1));
        let flow = usize::try_from(random.below(flows)).unwrap();
        One { number: *number, flow, asks, within: around }
    };
    let mut lock = |random: &mut Random| match random.below(5) {
        0 | 1 => {
            let many = random.below(5);
            let mut line = |random: &mut Random| {
                let asks = if random.below(2) == 0 { Asks::Share } else { Asks::All };
                one(random, &mut number, asks)
            };
            Lock::Line((0..many).map(|_| line(random)).collect())
        }
        2 => Lock::Line((0..random.below(4)).map(|_| one(random, &mut number, Asks::All)).collect()),
        _ => {
            let permits = 1 + random.below(3);
            let have = random.below(permits + 1);
            let known = random.below(8) > 0;
            Lock::Semaphore {
                have: (0..have).map(|_| one(random, &mut number, Asks::Permit)).collect(),
                wait: (0..random.below(4)).map(|_| one(random, &mut number, Asks::Permit)).collect(),
                permits: known.then(|| usize::try_from(permits).unwrap()),
            }
        }
    };
    (0..locks).map(|_| lock(random)).collect()
}

/// What a look sees of it, where all are of one process.
fn look(locks: &[Lock]) -> ServiceSnapshot {
    look_at(locks, |_| 1)
}

/// What a look sees of it, where each is of this process.
fn look_at(locks: &[Lock], process: impl Fn(&One) -> u64) -> ServiceSnapshot {
    let info = |one: &One, mode: Mode| -> ContenderInfo {
        // Each of these is enough to know a flow by.
        let flow = format!("{}{}", ["k", "h", "t"][one.flow % 3], one.flow);
        let info = of(contender(one.number, mode), process(one), &flow);
        one.within.map_or_else(|| info.clone(), |around| within(info.clone(), around))
    };
    let lock = |(number, lock): (usize, &Lock)| {
        let (contenders, permits) = match lock {
            Lock::Line(line) => {
                let mode = |one: &One| if one.asks == Asks::Share { Mode::Read } else { Mode::Write };
                (line.iter().map(|one| info(one, mode(one))).collect(), None)
            }
            Lock::Semaphore { have, wait, permits } => {
                let have = have.iter().map(|one| info(one, Mode::Permit));
                let contenders = have.chain(wait.iter().map(|one| info(one, Mode::Acquire)));
                (contenders.collect(), permits.map(|permits| u32::try_from(permits).unwrap()))
            }
        };
        ObservedLock::new(lockkeeper::QueueName::new(&format!("lock {number}")).unwrap(), contenders, permits)
    };
    seen(locks.iter().enumerate().map(lock).collect(), 0, 0)
}

fn number(world: &World<'_>, contender: usize) -> u64 {
    world.contenders[contender].info.id.as_str().parse().unwrap()
}

/// Those whom the reduction finds stuck, and the parts that block themselves.
fn found(snapshot: &ServiceSnapshot) -> (BTreeSet<u64>, Vec<BTreeSet<u64>>) {
    let world = World::new(snapshot);
    let flows = Flows::new(&world, Sureness::Tasks);
    let outcome = reduce(&world, &flows, vec![true; world.contenders.len()]);
    let waiting = (0..world.contenders.len()).filter(|&one| !outcome.granted[one]).map(|one| number(&world, one));
    let cores = cores(&world, &flows).into_iter().map(|core| {
        assert!(!core.circle.is_empty());
        core.contenders.into_iter().map(|one| number(&world, one)).collect()
    });
    (waiting.collect(), cores.collect())
}

/// A world with no more than these contenders.
fn only(locks: &[Lock], these: &BTreeSet<u64>) -> Vec<Lock> {
    let keep = |all: &[One]| all.iter().filter(|one| these.contains(&one.number)).cloned().collect();
    let only = |lock: &Lock| match lock {
        Lock::Line(line) => Lock::Line(keep(line)),
        Lock::Semaphore { have, wait, permits } => {
            Lock::Semaphore { have: keep(have), wait: keep(wait), permits: *permits }
        }
    };
    locks.iter().map(only).collect()
}

#[test]
fn the_reduction_and_a_plain_simulation_agree_in_200_000_worlds() {
    let seed = seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-monitor agree");
    let mut random = Random::new(seed);
    let (mut deadlocked, mut parts) = (0, 0);
    for round in 0..WORLDS {
        let locks = world(&mut random);
        let (waiting, cores) = found(&look(&locks));
        assert_eq!(waiting, stuck(&locks), "world {round}: {locks:#?}");
        deadlocked += usize::from(!waiting.is_empty());
        parts += cores.len();
        // What is nested may be held by what is around it outside of a part, and then it is not alone.
        if locks.iter().flat_map(Lock::all).any(|one| one.within.is_some()) {
            continue;
        }
        assert_eq!(cores.is_empty(), waiting.is_empty(), "world {round}: {locks:#?}");
        for core in &cores {
            let alone = stuck(&only(&locks, core));
            let flows = |these: &BTreeSet<u64>| -> BTreeSet<usize> {
                let these = locks.iter().flat_map(Lock::all).filter(|one| these.contains(&one.number));
                these.map(|one| one.flow).collect()
            };
            assert!(!alone.is_empty(), "world {round}: {core:?} does not block itself: {locks:#?}");
            assert_eq!(flows(&alone), flows(core), "world {round}: not all of {core:?} is blocked: {locks:#?}");
        }
    }
    assert!(deadlocked > WORLDS / 10 && deadlocked < WORLDS, "worlds of both kinds: {deadlocked}");
    figures::tell(&format!("deadlocks: {WORLDS} worlds, {deadlocked} deadlocked, {parts} parts, no difference"));
}

#[test]
fn a_search_of_the_entangled_locks_alone_finds_a_deadlock_where_there_is_one() {
    let seed = seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-monitor entangled");
    let mut random = Random::new(seed);
    let (mut left_out, mut deadlocked) = (0, 0);
    for round in 0..WORLDS_WITH_FAULT {
        let locks = world(&mut random);
        let seen = look_at(&locks, |one| one.flow as u64 + 1);
        let now = TimePoint { boot: seen.ended, unix: seen.ended_unix };
        let mut model = LockModel::default();
        let cores = |snapshot: &ServiceSnapshot| find(snapshot).into_iter().map(|found| found.core).collect::<Vec<_>>();
        let mut known = Vec::new();
        let comings = seen.locks.iter().flat_map(|lock| (1..=lock.contenders.len()).map(move |count| (lock, count)));
        for (lock, count) in comings {
            let stirred = model.stirred();
            model.see(&lock.name, lock.contenders[..count].to_vec(), None, now);
            model.set_permits(&lock.name, lock.permits);
            let found = cores(&model.contended(now.boot, now));
            let is_news = found.iter().any(|core| !known.contains(core));
            assert!(!is_news || model.stirred() > stirred, "world {round}, {} {count}: {locks:#?}", lock.name);
            known = found;
        }
        let (all, entangled) = (model.contended(now.boot, now), model.entangled(now.boot, now));
        left_out += all.locks.len() - entangled.locks.len();
        let found = cores(&all);
        assert_eq!(cores(&entangled), found, "world {round}: {locks:#?}");
        deadlocked += usize::from(!found.is_empty());
        // Where all are gone, nothing is in common any more.
        seen.locks.iter().for_each(|lock| model.see(&lock.name, Vec::<ContenderInfo>::new(), None, now));
        assert!(model.is_untied(), "world {round}: {locks:#?}");
    }
    assert!(left_out > 0 && deadlocked > 0 && deadlocked < WORLDS_WITH_FAULT, "{left_out} {deadlocked}");
}

#[test]
fn a_permit_that_the_first_at_a_gate_does_not_take_is_noticed() {
    let mut random = Random::new(1);
    let differs = |_: &usize| {
        let locks = world(&mut random);
        let (waiting, _) = planted::with(Fault::GateNotCounted, || found(&look(&locks)));
        waiting != stuck(&locks)
    };
    let differences = (0..WORLDS_WITH_FAULT).filter(differs).count();
    assert!(differences > 0, "the plain simulation notices nothing");
}
