//! The tasks of this process that wait for a turn, first come, first served.
//!
//! A list in a slab: joining, leaving from anywhere and being first cost the same for ten thousand as for one.

use std::task::Waker;

use lockkeeper_core::{Caller, Error};

/// Where a task waits.
pub(super) type SlotNumber = usize;

/// What a waiting task is told.
#[derive(Debug)]
pub(super) enum TaskNews {
    /// It waits.
    Nothing,
    /// It was given the key, of this serial.
    Key(u64),
    /// It will not be granted, since none of those that came before the failure is.
    Failed(Error),
}

#[derive(Debug)]
enum LineSlot {
    /// Not in use; the next one that is not.
    Free(Option<SlotNumber>),
    Waiting(WaitingTask),
    Told(TaskNews),
}

#[derive(Debug)]
struct WaitingTask {
    before: Option<SlotNumber>,
    behind: Option<SlotNumber>,
    /// How many had come before it.
    arrival: u64,
    caller: Caller,
    waker: Option<Waker>,
}

/// The line of one local queue.
#[derive(Debug, Default)]
pub(super) struct TaskLine {
    slots: Vec<LineSlot>,
    free: Option<SlotNumber>,
    first: Option<SlotNumber>,
    last: Option<SlotNumber>,
    /// How many have come.
    arrivals: u64,
}

impl TaskLine {
    /// Puts a task at the end.
    pub(super) fn push(&mut self, caller: Caller) -> SlotNumber {
        let waiting = WaitingTask { before: self.last, behind: None, arrival: self.arrivals, caller, waker: None };
        self.arrivals += 1;
        let slot = LineSlot::Waiting(waiting);
        let number = match self.free {
            Some(number) => {
                let LineSlot::Free(next) = std::mem::replace(&mut self.slots[number], slot) else {
                    unreachable!("the list of free slots has no other")
                };
                self.free = next;
                number
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        match self.last {
            Some(last) => self.waiting(last).behind = Some(number),
            None => self.first = Some(number),
        }
        self.last = Some(number);
        number
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns how many tasks wait.
    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, LineSlot::Waiting(_))).count()
    }

    /// Returns how many tasks have come so far.
    pub(super) const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns whose the first task is.
    pub(super) fn first_caller(&self) -> Option<Caller> {
        self.first.map(|first| match &self.slots[first] {
            LineSlot::Waiting(waiting) => waiting.caller,
            LineSlot::Free(_) | LineSlot::Told(_) => unreachable!("the first one waits"),
        })
    }

    /// Gives the first task the key of this serial; `None` if none waits. Its waker, if it has one yet, is to be woken
    /// effects.
    pub(super) fn give_key(&mut self, serial: u64) -> Option<Option<Waker>> {
        let first = self.first?;
        Some(self.tell(first, TaskNews::Key(serial)))
    }

    /// Fails all tasks that came before this arrival.
    pub(super) fn fail_before(&mut self, arrival: u64, error: &Error, wakers: &mut Vec<Waker>) {
        while let Some(first) = self.first.filter(|first| self.waiting(*first).arrival < arrival) {
            wakers.extend(self.tell(first, TaskNews::Failed(error.clone())));
        }
    }

    fn tell(&mut self, number: SlotNumber, told: TaskNews) -> Option<Waker> {
        let waker = self.unlink(number);
        self.slots[number] = LineSlot::Told(told);
        waker
    }

    /// Returns what a task was told, and gives up its slot; if nothing, this waker will be woken.
    pub(super) fn poll(&mut self, number: SlotNumber, waker: &Waker) -> TaskNews {
        if let LineSlot::Waiting(waiting) = &mut self.slots[number] {
            match &mut waiting.waker {
                Some(known) if known.will_wake(waker) => {}
                known => *known = Some(waker.clone()),
            }
            return TaskNews::Nothing;
        }
        self.remove(number)
    }

    /// Takes a task out; returns what it was told and has not heard.
    pub(super) fn remove(&mut self, number: SlotNumber) -> TaskNews {
        if matches!(self.slots[number], LineSlot::Waiting(_)) {
            drop(self.unlink(number));
        }
        let slot = std::mem::replace(&mut self.slots[number], LineSlot::Free(self.free));
        self.free = Some(number);
        match slot {
            LineSlot::Told(told) => told,
            LineSlot::Waiting(_) | LineSlot::Free(_) => TaskNews::Nothing,
        }
    }

    /// Takes a waiting task out of the order; returns its waker.
    fn unlink(&mut self, number: SlotNumber) -> Option<Waker> {
        let waiting = self.waiting(number);
        let (before, behind, waker) = (waiting.before, waiting.behind, waiting.waker.take());
        match before {
            Some(before) => self.waiting(before).behind = behind,
            None => self.first = behind,
        }
        match behind {
            Some(behind) => self.waiting(behind).before = before,
            None => self.last = before,
        }
        waker
    }

    fn waiting(&mut self, number: SlotNumber) -> &mut WaitingTask {
        match &mut self.slots[number] {
            LineSlot::Waiting(waiting) => waiting,
            LineSlot::Free(_) | LineSlot::Told(_) => unreachable!("the order has only waiters"),
        }
    }

    /// How many slots there are, in use or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }
}
