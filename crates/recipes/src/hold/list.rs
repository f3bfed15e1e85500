//! The holds and waits of one keeper: the list, and the wait until nothing is held any more.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use lockkeeper_core::{Mode, QueueName};
use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::watch;

use crate::hold::Hold;

/// One of a keeper's own contenders: a holder or a waiter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnContender {
    /// The lock.
    pub lock: QueueName,
    /// What was asked for. Of a semaphore there is one [`Mode::Permit`] for each permit that is held, and one for each
    /// call that waits.
    pub mode: Mode,
    /// The hold; `None` for a waiter.
    pub hold: Option<Hold>,
}

impl OwnContender {
    /// Tells whether it was granted and has not been lost.
    pub fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_held)
    }
}

/// All of a keeper's own contenders.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    listed: Mutex<ListedCall>,
    /// Wakes the tasks that wait for the end of some.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct ListedCall {
    /// In no order: joining and leaving the list cost the same for ten thousand as for one.
    entries: Slab<ListEntry>,
    last_number: u64,
}

#[derive(Debug)]
struct ListEntry {
    /// Its place in the order in which they asked or were granted.
    number: u64,
    contender: OwnContender,
    presence: Presence,
}

impl ListedCall {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// Whether a contender may still come to hold something without another call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Presence {
    /// It holds, or a call waits for its grant.
    Active,
    /// It is a place in line in which no call waits.
    Idle,
}

impl Holds {
    /// Lists a contender that asks for something, while the returned value lives.
    pub(crate) fn list(self: &Arc<Self>, lock: &QueueName, mode: Mode, presence: Presence) -> OnList {
        let contender = OwnContender { lock: lock.clone(), mode, hold: None };
        let mut listed = self.listed.lock();
        let number = listed.next_number();
        let key = listed.entries.insert(ListEntry { number, contender, presence });
        OnList { holds: self.clone(), key }
    }

    /// Returns all, in the order in which they asked or were granted, without the lost ones.
    pub(crate) fn all(&self) -> Vec<OwnContender> {
        let mut contenders = self.matching(|_, _| true);
        contenders.retain(|contender| contender.hold.is_none() || contender.is_held());
        contenders
    }

    /// Tells whether the lock is held in this mode.
    pub(crate) fn has(&self, lock: &QueueName, mode: Mode) -> bool {
        let is_it = |contender: &OwnContender, _| contender.mode == mode && contender.lock == *lock;
        self.matching(is_it).iter().any(OwnContender::is_held)
    }

    /// Has each hold notice if it is lost, and observers told of it.
    pub(crate) fn look(&self) {
        for contender in self.matching(|contender, _| contender.hold.is_some()) {
            contender.is_held();
        }
    }

    /// Waits until nothing is held any more and no call may still be granted something.
    pub(crate) async fn until_none(&self) {
        let mut ended = self.ended.subscribe();
        loop {
            ended.mark_unchanged();
            let (is_awaited, hold) = self.active();
            match hold {
                // A hold that is lost while its guard is kept changes nothing on the list.
                Some(hold) => tokio::select! {
                    biased;
                    _ = hold.lost() => {}
                    _ = ended.changed() => {}
                },
                // The sender lives in `self`, so this cannot fail.
                None if is_awaited => drop(ended.changed().await),
                None => return,
            }
        }
    }

    /// Tells whether any contender is active, and returns the first hold.
    fn active(&self) -> (bool, Option<Hold>) {
        let listed = self.listed.lock();
        let active =
            || listed.entries.iter().map(|(_, entry)| entry).filter(|entry| entry.presence == Presence::Active);
        let is_awaited = active().any(|entry| entry.contender.hold.is_none());
        let holds: Vec<Hold> = active().filter_map(|entry| entry.contender.hold.clone()).collect();
        drop(listed);
        // Asked of copies, as in [`Holds::matching`].
        (is_awaited, holds.into_iter().find(Hold::is_held))
    }

    /// Returns those that match. Whether one is held is asked of the copies, never while the list is locked: that may
    /// tell an observer of a loss, and the observer may ask for the list.
    fn matching(&self, is_match: impl Fn(&OwnContender, Presence) -> bool) -> Vec<OwnContender> {
        let listed = self.listed.lock();
        let entries = listed.entries.iter().map(|(_, entry)| entry);
        let mut matching: Vec<_> = entries
            .filter(|entry| is_match(&entry.contender, entry.presence))
            .map(|entry| (entry.number, entry.contender.clone()))
            .collect();
        drop(listed);
        matching.sort_unstable_by_key(|&(number, _)| number);
        matching.into_iter().map(|(_, contender)| contender).collect()
    }

    /// Wakes what waits until nothing is held; mostly nothing does.
    fn tell_of_end(&self) {
        if self.ended.receiver_count() > 0 {
            self.ended.send_replace(());
        }
    }
}

/// One contender's place on the list; dropping it takes it off.
#[derive(Debug)]
pub(crate) struct OnList {
    holds: Arc<Holds>,
    key: usize,
}

impl OnList {
    /// Notes whether a call waits for it.
    pub(crate) fn note(&self, presence: Presence) {
        self.holds.listed.lock().entries[self.key].presence = presence;
        self.holds.tell_of_end();
    }

    /// Notes that it was granted this. A caller that waits until nothing is held sees the call or the hold, and nothing
    /// in between.
    pub(crate) fn note_hold(&self, hold: Hold) {
        {
            let mut listed = self.holds.listed.lock();
            let number = listed.next_number();
            let entry = &mut listed.entries[self.key];
            (entry.number, entry.presence, entry.contender.hold) = (number, Presence::Active, Some(hold));
        }
        self.holds.tell_of_end();
    }
}

impl Drop for OnList {
    fn drop(&mut self) {
        let removed = self.holds.listed.lock().entries.remove(self.key);
        // Outside the lock: a hold may own the last reference to its place.
        drop(removed);
        self.holds.tell_of_end();
    }
}
