//! The needs of all contenders, as the queues alone say them.
//!
//! Which contenders are of one flow of control is not known here.

use lockkeeper::backend::decide;
use lockkeeper::{ContenderInfo, Mode};

use crate::snapshot::{ObservedLock, ServiceSnapshot};

/// All contenders that matter, by their numbers.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) snapshot: &'a ServiceSnapshot,
    pub(crate) contenders: Vec<WorldContender<'a>>,
    pub(crate) gates: Vec<PermitGate>,
    /// For each contender, the contenders that need it to leave.
    pub(crate) needed_by: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub(crate) struct WorldContender<'a> {
    /// The number of its lock in the snapshot.
    pub(crate) lock: usize,
    pub(crate) info: &'a ContenderInfo,
    pub(crate) place: WorldPlace,
}

/// What a contender has, or needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum WorldPlace {
    /// It holds.
    Holds,
    /// It has a permit that others can have after it.
    HasPermit { gate: usize },
    /// It needs these to leave, all of them.
    Needs(Vec<usize>),
    /// It needs a permit, after all who stand before it at the gate have one.
    AtGate { gate: usize, at: usize },
}

/// A semaphore of which it is known how many permits there are.
#[derive(Debug)]
pub(crate) struct PermitGate {
    /// The waiters for a permit, in their order.
    pub(crate) waiters: Vec<usize>,
    /// Those who have one.
    pub(crate) holders: Vec<usize>,
    /// How many permits there are.
    pub(crate) permits: usize,
}

impl<'a> World<'a> {
    pub(crate) fn new(snapshot: &'a ServiceSnapshot) -> Self {
        let mut world = Self { snapshot, contenders: Vec::new(), gates: Vec::new(), needed_by: Vec::new() };
        for (number, lock) in snapshot.locks.iter().enumerate() {
            world.add(number, lock);
        }
        world.needed_by = vec![Vec::new(); world.contenders.len()];
        for (waiter, contender) in world.contenders.iter().enumerate() {
            if let WorldPlace::Needs(needs) = &contender.place {
                for &needed in needs {
                    world.needed_by[needed].push(waiter);
                }
            }
        }
        world
    }

    pub(crate) fn waits(&self, contender: usize) -> bool {
        matches!(self.contenders[contender].place, WorldPlace::Needs(_) | WorldPlace::AtGate { .. })
    }

    pub(crate) fn lock(&self, contender: usize) -> &'a ObservedLock {
        &self.snapshot.locks[self.contenders[contender].lock]
    }

    fn add(&mut self, number: usize, lock: &'a ObservedLock) {
        let holds = decide::holders(&lock.contenders);
        let mut line = QueueLine::default();
        let gate = self.gate(lock);
        for (info, holds) in lock.contenders.iter().zip(holds) {
            let me = self.contenders.len();
            let place = match info.mode {
                // Members of a barrier keep no contender out, and what they wait for no queue tells.
                Mode::Member => continue,
                Mode::Permit => self.permit(gate, me),
                Mode::Acquire => match self.at_gate(gate, me, info) {
                    Some(place) => place,
                    None => continue,
                },
                _ => line.stand(me, info, holds),
            };
            self.contenders.push(WorldContender { lock: number, info, place });
        }
    }

    /// Makes a gate, if it is known how many permits there are. More permits in use than there are says that the number
    /// is of another time.
    fn gate(&mut self, lock: &ObservedLock) -> Option<usize> {
        let permits = usize::try_from(lock.permits?).ok()?;
        let used = lock.contenders.iter().filter(|contender| contender.mode == Mode::Permit).count();
        (used <= permits).then(|| {
            self.gates.push(PermitGate { waiters: Vec::new(), holders: Vec::new(), permits });
            self.gates.len() - 1
        })
    }

    fn permit(&mut self, gate: Option<usize>, me: usize) -> WorldPlace {
        match gate {
            Some(gate) => {
                self.gates[gate].holders.push(me);
                WorldPlace::HasPermit { gate }
            }
            None => WorldPlace::Holds,
        }
    }

    /// Places a contender that waits for permits; `None` for what freezes the semaphore, which takes no permit. Of a
    /// semaphore of unknown permits no waiter is said to need a contender.
    fn at_gate(&mut self, gate: Option<usize>, me: usize, info: &ContenderInfo) -> Option<WorldPlace> {
        if info.frozen.is_some() {
            return None;
        }
        Some(match gate {
            Some(gate) => {
                self.gates[gate].waiters.push(me);
                WorldPlace::AtGate { gate, at: self.gates[gate].waiters.len() - 1 }
            }
            None => WorldPlace::Needs(Vec::new()),
        })
    }
}

/// The part of a line that was seen, as far as those behind need it.
#[derive(Debug, Default)]
struct QueueLine {
    /// The nearest contender that keeps out all others.
    nearest: Option<(usize, WorldPlace)>,
    /// The token of that contender, in whose place readers may stand too.
    shared: Option<lockkeeper::FencingToken>,
    /// The readers behind it.
    readers: Vec<usize>,
}

impl QueueLine {
    /// Places the next contender of the line. It needs the nearest one ahead that excludes it, which needs all before;
    /// one that excludes readers needs the readers in between too.
    fn stand(&mut self, me: usize, info: &ContenderInfo, holds: bool) -> WorldPlace {
        let is_reader = info.mode == Mode::Read;
        let place = match &self.nearest {
            _ if holds => WorldPlace::Holds,
            // A reader in a writer's place waits for what the writer waits for, and not for the writer.
            Some((_, writer)) if is_reader && info.token.is_some() && info.token == self.shared => writer.clone(),
            nearest => {
                let mut needs: Vec<usize> = nearest.iter().map(|&(nearest, _)| nearest).collect();
                if !is_reader {
                    needs.extend(&self.readers);
                }
                WorldPlace::Needs(needs)
            }
        };
        if is_reader {
            self.readers.push(me);
        } else {
            *self = Self { nearest: Some((me, place.clone())), shared: info.token, readers: Vec::new() };
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper::clock::BootInstant;
    use lockkeeper::{ContenderId, FencingToken, QueueName};

    use super::*;

    fn contender(mode: Mode, token: u64) -> ContenderInfo {
        let mut info = ContenderInfo::new(ContenderId::new(token.to_string()), mode);
        info.token = FencingToken::new(token, 0);
        info
    }

    fn places(contenders: Vec<ContenderInfo>, permits: Option<u32>) -> Vec<WorldPlace> {
        let lock = ObservedLock::new(QueueName::new("x").unwrap(), contenders, permits);
        let now = BootInstant::from_nanos(0);
        let snapshot = ServiceSnapshot::new(vec![lock], now, now, Duration::ZERO);
        World::new(&snapshot).contenders.into_iter().map(|contender| contender.place).collect()
    }

    #[test]
    fn a_reader_in_a_writers_place_needs_what_the_writer_needs() {
        let held = vec![contender(Mode::Write, 1), contender(Mode::Read, 1), contender(Mode::Mutex, 2)];
        assert_eq!(places(held, None), [WorldPlace::Holds, WorldPlace::Holds, WorldPlace::Needs(vec![0, 1])]);
        let waits = vec![contender(Mode::Mutex, 1), contender(Mode::Write, 2), contender(Mode::Read, 2)];
        assert_eq!(places(waits, None), [WorldPlace::Holds, WorldPlace::Needs(vec![0]), WorldPlace::Needs(vec![0])]);
    }

    #[test]
    fn at_a_gate_each_has_its_turn_and_without_a_known_number_none_needs_anything() {
        let semaphore = || {
            let mut all: Vec<_> = [Mode::Permit, Mode::Permit, Mode::Acquire, Mode::Acquire, Mode::Acquire]
                .into_iter()
                .enumerate()
                .map(|(at, mode)| contender(mode, at as u64))
                .collect();
            all[2].frozen = Some("for now".to_owned());
            all
        };
        let (gate, nothing) = (0, WorldPlace::Needs(Vec::new()));
        let permit = WorldPlace::HasPermit { gate };
        let known = [permit.clone(), permit, WorldPlace::AtGate { gate, at: 0 }, WorldPlace::AtGate { gate, at: 1 }];
        assert_eq!(places(semaphore(), Some(2)), known);
        let unknown = [WorldPlace::Holds, WorldPlace::Holds, nothing.clone(), nothing];
        assert_eq!(places(semaphore(), None), unknown);
        assert_eq!(places(semaphore(), Some(1)), unknown, "the number is of another time");
        assert_eq!(places(vec![contender(Mode::Member, 1)], None), []);
    }
}
