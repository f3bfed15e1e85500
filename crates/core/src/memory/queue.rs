//! The queues: which contender stands where. No futures and no faults here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::backend::{Expected, Value, ValueVersion};
use crate::caller::Caller;
use crate::contender::{
    Answers, Contender, ContenderId, ContenderInfo, Entry, Lifetime, Mode, Owner, Rank, Request, Ticket,
};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::liveness::LossReason;
use crate::memory::standing::MemoryStanding;
use crate::name::{Part, QueueName};
use crate::token::FencingToken;
use crate::view::{ConnectionNumber, QueueView};

/// One contender, as the service keeps it.
#[derive(Debug)]
pub(super) struct StoredContender {
    pub(super) id: ContenderId,
    pub(super) token: FencingToken,
    /// The session that it depends on; `None` if it lives until it is removed.
    session: Option<u64>,
    ticket: Ticket,
    pub(super) mode: Mode,
    owner: Arc<Owner>,
    caller: Caller,
    since_unix: Duration,
    frozen: Option<Arc<str>>,
    standing: Arc<MemoryStanding>,
}

impl StoredContender {
    /// What may be asked and waited for of this contender.
    pub(super) fn standing(&self) -> Arc<MemoryStanding> {
        self.standing.clone()
    }
}

/// The length of an identity's text, in decimal digits: enough for each number of 64 bits, so that the order of the
/// texts is that of the numbers.
const ID_DIGITS: usize = 20;

/// Writes the identity of the contender that came as this one.
fn contender_id(number: u64) -> ContenderId {
    let mut digits = [b'0'; ID_DIGITS];
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        *digit += (left % 10) as u8;
        left /= 10;
    }
    ContenderId::new(std::str::from_utf8(&digits).expect("digits are text"))
}

/// All queues of one service.
#[derive(Debug, Default)]
pub(super) struct MemoryQueues {
    by_name: BTreeMap<QueueName, Vec<StoredContender>>,
    pub(super) values: ValueTable,
    last_grant: u64,
    /// Wakes the tasks that wait for a change of a lock's queues or values; one for each lock that is watched.
    changes: BTreeMap<QueueName, watch::Sender<()>>,
    /// At how many watched locks those that are watched no more are looked for.
    changes_swept_at: usize,
}

/// The fewest watched locks among which those that are watched no more are looked for.
const SWEEP_MIN: usize = 64;

impl MemoryQueues {
    /// Refuses all of the entries if one of them asks for a place that it cannot have.
    pub(super) fn check(&self, queue: &QueueName, entries: &[Entry], session: u64) -> Result<()> {
        let can_stand = |entry: &Entry| match &entry.rank {
            Rank::Tail => true,
            Rank::With(anchor) => self.find(queue, anchor).is_some_and(|stored| stored.session == Some(session)),
        };
        if entries.iter().all(can_stand) { Ok(()) } else { Err(anchor_gone(queue)) }
    }

    /// Puts a checked entry at the place that it asks for.
    pub(super) fn join(
        &mut self,
        queue: &QueueName,
        entry: Entry,
        session: u64,
        since_unix: Duration,
        standing: Arc<MemoryStanding>,
    ) -> &StoredContender {
        // Those that wake look again once the service is free.
        self.wake(queue);
        self.last_grant += 1;
        let contenders = self.by_name.entry(queue.clone()).or_default();
        let own_token = FencingToken::new(self.last_grant, 0).expect("one process never counts beyond 2^63");
        let (at, token) = match &entry.rank {
            Rank::Tail => (contenders.len(), own_token),
            Rank::With(anchor) => {
                let before = contenders.iter().position(|stored| stored.id == *anchor);
                let before = before.expect("each entry was checked before");
                (before + 1, contenders[before].token)
            }
        };
        let (session, frozen) = match entry.lifetime {
            Lifetime::Session => (Some(session), None),
            Lifetime::Persistent { reason } => (None, Some(reason)),
        };
        let stored = StoredContender {
            id: contender_id(self.last_grant),
            token,
            session,
            ticket: entry.ticket,
            mode: entry.mode,
            owner: entry.owner,
            caller: entry.caller,
            since_unix,
            frozen,
            standing,
        };
        contenders.insert(at, stored);
        &contenders[at]
    }

    pub(super) fn remove(&mut self, queue: &QueueName, ticket: Ticket) {
        self.retain_in(queue, LossReason::Removed, |stored| stored.ticket != ticket);
    }

    pub(super) fn remove_session(&mut self, session: u64) {
        let queues: Vec<_> = self.by_name.keys().cloned().collect();
        for queue in queues {
            self.retain_in(&queue, LossReason::Expired, |stored| stored.session != Some(session));
        }
    }

    pub(super) fn remove_contender(&mut self, queue: &QueueName, id: &ContenderId) {
        self.retain_in(queue, LossReason::Removed, |stored| stored.id != *id);
    }

    /// Removes the contenders that do not stay; a queue goes with its last contender.
    fn retain_in(&mut self, queue: &QueueName, reason: LossReason, stays: impl Fn(&StoredContender) -> bool) {
        let Some(contenders) = self.by_name.get_mut(queue) else {
            return;
        };
        let before = contenders.len();
        contenders.retain(|stored| {
            let stays = stays(stored);
            if !stays {
                stored.standing.depart(reason);
            }
            stays
        });
        let is_changed = contenders.len() < before;
        if contenders.is_empty() {
            self.by_name.remove(queue);
        }
        if is_changed {
            self.wake(queue);
        }
    }

    /// Sends a request to a contender; `false` if it is not there, or has another token.
    pub(super) fn request(&mut self, queue: &QueueName, id: &ContenderId, request: Request) -> bool {
        let Some(stored) = self.find(queue, id) else {
            return false;
        };
        match request {
            Request::Yield(revocation) => {
                stored.standing.revoke(revocation);
                true
            }
            Request::Break { token } if stored.token == token => {
                self.retain_in(queue, LossReason::Broken, |stored| stored.id != *id);
                true
            }
            Request::Break { .. } => false,
        }
    }

    pub(super) fn find(&self, queue: &QueueName, id: &ContenderId) -> Option<&StoredContender> {
        self.contenders(queue).iter().find(|stored| stored.id == *id)
    }

    pub(super) fn view(&self, queue: &QueueName, connection: ConnectionNumber) -> QueueView {
        let contender = |stored: &StoredContender| Contender {
            id: stored.id.clone(),
            ticket: Some(stored.ticket),
            mode: stored.mode,
        };
        let mut contenders: Arc<[Contender]> = Arc::default();
        let mut elsewhere = None;
        // The parts of a lock stand side by side, so that one search finds them all.
        let from_line = self.by_name.range(queue.with_part(Part::Line)..);
        for (name, stored) in from_line.take_while(|(name, _)| name.as_str() == queue.as_str()) {
            if name.part() == queue.part() {
                contenders = stored.iter().map(contender).collect();
            } else if queue.part().opposite().contains(&name.part()) {
                // Permits come last, and say more than the waiters for some.
                elsewhere = stored.first().map(|first| first.mode);
            }
        }
        QueueView { elsewhere, ..QueueView::new(connection, contenders) }
    }

    pub(super) fn inspect(&self, queue: &QueueName) -> Vec<ContenderInfo> {
        let info = |stored: &StoredContender| ContenderInfo {
            ticket: Some(stored.ticket),
            token: Some(stored.token),
            session: stored.session.map(|session| session.to_string()),
            owner: Some((*stored.owner).clone()),
            caller: stored.caller,
            since_unix: Some(stored.since_unix),
            granted_unix: stored.standing.granted_unix(),
            frozen: stored.frozen.as_deref().map(str::to_owned),
            revocation: stored.standing.revocation(),
            answers: Answers::of(&stored.caller),
            ..ContenderInfo::new(stored.id.clone(), stored.mode)
        };
        let parts = [Part::Line, Part::Permits, Part::Waiters];
        parts.iter().flat_map(|&part| self.contenders(&queue.with_part(part)).iter().map(info)).collect()
    }

    /// Watches for a change of any queue or value of a lock.
    pub(super) fn watch_changes(&mut self, queue: &QueueName) -> watch::Receiver<()> {
        if self.changes.len() >= self.changes_swept_at.max(SWEEP_MIN) {
            self.changes.retain(|_, change| change.receiver_count() > 0);
            self.changes_swept_at = self.changes.len() * 2;
        }
        self.changes.entry(queue.with_part(Part::Line)).or_default().subscribe()
    }

    /// Wakes the tasks that wait for a change of this lock.
    pub(super) fn wake(&self, queue: &QueueName) {
        // The map is mostly empty, and then the name of the line need not be made.
        if !self.changes.is_empty()
            && let Some(change) = self.changes.get(&queue.with_part(Part::Line))
        {
            change.send_replace(());
        }
    }

    /// Names the locks that have contenders.
    pub(super) fn names(&self, prefix: &str) -> Vec<QueueName> {
        let locks = self.by_name.keys().map(|queue| queue.with_part(Part::Line));
        let mut names: Vec<_> = locks.filter(|name| name.as_str().starts_with(prefix)).collect();
        names.dedup();
        names
    }

    fn contenders(&self, queue: &QueueName) -> &[StoredContender] {
        self.by_name.get(queue).map_or(&[], Vec::as_slice)
    }
}

fn anchor_gone(queue: &QueueName) -> Error {
    let message = "the contender whose place was to be shared is gone";
    Error::permanent(ErrorKind::Removed, Operation::Join, message).at(queue)
}

/// The values of one service.
#[derive(Debug, Default)]
pub(super) struct ValueTable {
    by_name: BTreeMap<QueueName, Value>,
    last_version: u128,
}

impl ValueTable {
    pub(super) fn get(&self, queue: &QueueName) -> Option<&Value> {
        self.by_name.get(queue)
    }

    /// Writes or removes a value if it is as expected; `None` if it is not.
    pub(super) fn set(
        &mut self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Option<ValueVersion> {
        let found = self.by_name.get(queue).map(|value| value.version);
        let is_expected = match expected {
            Expected::Any => true,
            Expected::Absent => found.is_none(),
            Expected::Version(version) => found == Some(version),
        };
        if !is_expected {
            return None;
        }
        self.last_version += 1;
        let version = ValueVersion(self.last_version);
        match value {
            Some(bytes) => drop(self.by_name.insert(queue.clone(), Value { bytes, version })),
            None => drop(self.by_name.remove(queue)),
        }
        Some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TestClock;
    use crate::liveness::SafeUntil;
    use crate::session_bond::SessionBond;

    #[tokio::test]
    async fn a_change_wakes_those_that_wait_for_this_lock_and_for_no_other() {
        let mut queues = MemoryQueues::default();
        let [door, hall] = ["door", "hall"].map(|name| QueueName::new(name).unwrap());
        let (of_door, of_hall) = (queues.watch_changes(&door.with_part(Part::Permits)), queues.watch_changes(&hall));
        let entry = Entry::new(Ticket::mint().unwrap(), Mode::Mutex, Arc::new(Owner::this_process()));
        let clock = Arc::new(TestClock::new());
        let standing = MemoryStanding::new(SessionBond::new(clock, SafeUntil::ProcessEnd));
        queues.join(&door, entry, 1, Duration::ZERO, standing);
        assert!(of_door.has_changed().unwrap(), "all parts of a lock are one to its waiters");
        assert!(!of_hall.has_changed().unwrap());
    }

    #[test]
    fn identities_are_in_the_order_of_their_numbers() {
        assert_eq!(contender_id(0).as_str(), "00000000000000000000");
        assert_eq!(contender_id(u64::MAX).as_str(), u64::MAX.to_string());
        assert!(contender_id(9) < contender_id(10));
    }

    #[test]
    fn locks_that_are_watched_no_more_are_forgotten() {
        let mut queues = MemoryQueues::default();
        for number in 0..10 * SWEEP_MIN {
            drop(queues.watch_changes(&QueueName::new(&format!("lock-{number}")).unwrap()));
        }
        assert!(queues.changes.len() <= SWEEP_MIN, "{}", queues.changes.len());
    }
}
