//! Sessions: their ids and passwords, until when they live, and which connection they are on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::time::Timestamp;
use sha2::{Digest, Sha256};

/// The length of a session's password; clients expect 16 bytes.
const PASSWORD_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SessionEntry {
    /// The timeout it began with; what it goes back to when the server restarts.
    pub(crate) timeout_ms: i32,
    pub(crate) connection: Option<ConnectionId>,
}

/// The sessions of the service, and when they end.
#[derive(Debug)]
pub(crate) struct SessionTable {
    sessions: BTreeMap<i64, SessionEntry>,
    expiry: ExpiryQueue,
    next_id: i64,
    /// What passwords are made from.
    secret: [u8; 32],
}

impl SessionTable {
    /// Starts without sessions; ids are counted up from `first_id`.
    pub(crate) fn new(tick: Duration, first_id: i64, secret: [u8; 32]) -> Self {
        Self { sessions: BTreeMap::new(), expiry: ExpiryQueue::new(tick), next_id: first_id, secret }
    }

    /// Counts ids up from `first_id`, or from where they are if that is further.
    pub(crate) fn begin_life(&mut self, first_id: i64) {
        self.next_id = self.next_id.max(first_id);
    }

    /// A number for a new session.
    pub(crate) fn mint_id(&mut self) -> i64 {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        id
    }

    /// Begins a session.
    pub(crate) fn open(&mut self, id: i64, timeout_ms: i32, now: Timestamp) {
        self.next_id = self.next_id.max(id.saturating_add(1));
        self.sessions.insert(id, SessionEntry { timeout_ms, connection: None });
        self.touch(id, timeout_ms, now);
    }

    /// Ends a session; returns it.
    pub(crate) fn close(&mut self, id: i64) -> Option<SessionEntry> {
        self.expiry.remove(id);
        self.sessions.remove(&id)
    }

    /// Notes a sign of life of a session; `false` if there is no such session.
    pub(crate) fn touch(&mut self, id: i64, timeout_ms: i32, now: Timestamp) -> bool {
        let is_there = self.sessions.contains_key(&id);
        if is_there {
            let timeout_ms = u64::try_from(timeout_ms).unwrap_or_default();
            self.expiry.touch(id, now, timeout_ms);
        }
        is_there
    }

    /// Notes which connection a session is on; returns the one it was on.
    pub(crate) fn attach(&mut self, id: i64, connection: Option<ConnectionId>) -> Option<ConnectionId> {
        let session = self.sessions.get_mut(&id)?;
        std::mem::replace(&mut session.connection, connection)
    }

    /// Takes out the sessions whose time is up; the caller closes them.
    pub(crate) fn take_expired(&mut self, now: Timestamp) -> Vec<i64> {
        self.expiry.take_expired(now)
    }

    /// When the next session ends.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.expiry.next()
    }

    pub(crate) fn get(&self, id: i64) -> Option<&SessionEntry> {
        self.sessions.get(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &SessionEntry)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// The queue of ends, for the report on sessions.
    pub(crate) const fn expiry(&self) -> &ExpiryQueue {
        &self.expiry
    }

    /// What passwords are made from, to be kept with the sessions.
    pub(crate) const fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The password of a session: it cannot be computed without the secret.
    pub(crate) fn password(&self, id: i64) -> Bytes {
        let hash = Sha256::new().chain_update(self.secret).chain_update(id.to_be_bytes()).finalize();
        Bytes::copy_from_slice(&hash[..PASSWORD_BYTES])
    }

    /// Whether this is the session's password.
    pub(crate) fn is_password(&self, id: i64, password: &[u8]) -> bool {
        let expected = self.password(id);
        let differing = expected.iter().zip(password).fold(0, |sum, (a, b)| sum | (a ^ b));
        expected.len() == password.len() && differing == 0
    }
}

/// Sessions by the end of the tick in which they expire.
#[derive(Debug)]
pub(crate) struct ExpiryQueue {
    tick_ms: u64,
    buckets: BTreeMap<u64, BTreeSet<i64>>,
    bucket_of: HashMap<i64, u64>,
}

impl ExpiryQueue {
    /// Starts empty, with buckets of one tick.
    pub(crate) fn new(tick: Duration) -> Self {
        Self {
            tick_ms: u64::try_from(tick.as_millis()).unwrap_or(u64::MAX).max(1),
            buckets: BTreeMap::new(),
            bucket_of: HashMap::new(),
        }
    }

    /// Moves a session's end to the first tick after `now + timeout_ms`, sooner or later than it was.
    pub(crate) fn touch(&mut self, session_id: i64, now: Timestamp, timeout_ms: u64) {
        let bucket = self.bucket_after(now, timeout_ms);
        match self.bucket_of.insert(session_id, bucket) {
            Some(before) if before == bucket => return,
            Some(before) => self.take_from(before, session_id),
            None => (),
        }
        self.buckets.entry(bucket).or_default().insert(session_id);
    }

    pub(crate) fn remove(&mut self, session_id: i64) {
        if let Some(bucket) = self.bucket_of.remove(&session_id) {
            self.take_from(bucket, session_id);
        }
    }

    /// Takes out the sessions that are over at `now`, the earliest first.
    pub(crate) fn take_expired(&mut self, now: Timestamp) -> Vec<i64> {
        let now_ms = now.as_nanos() / 1_000_000;
        let mut expired = Vec::new();
        while let Some(entry) = self.buckets.first_entry()
            && *entry.key() <= now_ms
        {
            expired.extend(entry.remove());
        }
        for session_id in &expired {
            self.bucket_of.remove(session_id);
        }
        expired
    }

    /// When the next sessions end, if they stay silent.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.buckets.keys().next().map(|bucket| Timestamp::from_millis(*bucket))
    }

    /// The buckets in order, for the report on sessions.
    pub(crate) const fn buckets(&self) -> &BTreeMap<u64, BTreeSet<i64>> {
        &self.buckets
    }

    fn bucket_after(&self, now: Timestamp, timeout_ms: u64) -> u64 {
        let end_ms = (now.as_nanos() / 1_000_000).saturating_add(timeout_ms);
        (end_ms / self.tick_ms).saturating_add(1).saturating_mul(self.tick_ms)
    }

    fn take_from(&mut self, bucket: u64, session_id: i64) {
        if let Some(sessions) = self.buckets.get_mut(&bucket) {
            sessions.remove(&session_id);
            if sessions.is_empty() {
                self.buckets.remove(&bucket);
            }
        }
    }
}

/// Names one connection; never used twice within a server.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Makes an id from a number; the caller that accepts connections counts them.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "connection-{}", self.0)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_belongs_to_one_session_of_one_secret() {
        let table = SessionTable::new(Duration::from_secs(2), 1, [7; 32]);
        let other = SessionTable::new(Duration::from_secs(2), 1, [8; 32]);
        let password = table.password(5);
        assert_eq!(password.len(), PASSWORD_BYTES);
        assert!(table.is_password(5, &password));
        assert!(!table.is_password(6, &password));
        assert!(!other.is_password(5, &password));
        assert!(!table.is_password(5, &password[..15]));
        assert!(!table.is_password(5, &[]));
    }

    #[test]
    fn an_expired_session_that_is_closed_is_gone() {
        let mut table = SessionTable::new(Duration::from_secs(2), 10, [0; 32]);
        let id = table.mint_id();
        table.open(id, 4_000, Timestamp::ZERO);
        assert_eq!(table.take_expired(Timestamp::from_millis(6_000)), [id]);
        assert!(table.close(id).is_some());
        assert!(!table.touch(id, 4_000, Timestamp::ZERO));
        assert_eq!((table.len(), table.mint_id()), (0, 11));
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_session_ends_with_the_tick_after_its_timeout() {
        let mut queue = ExpiryQueue::new(Duration::from_secs(2));
        queue.touch(1, at(100), 4_000);
        assert_eq!(queue.next(), Some(at(6_000)));
        assert!(queue.take_expired(at(5_999)).is_empty());
        queue.touch(1, at(2_500), 4_000);
        assert!(queue.take_expired(at(7_999)).is_empty());
        assert_eq!(queue.take_expired(at(8_000)), [1]);
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn a_smaller_timeout_moves_the_end_forward() {
        let mut queue = ExpiryQueue::new(Duration::from_secs(2));
        queue.touch(1, at(0), 40_000);
        queue.touch(1, at(0), 4_000);
        assert_eq!(queue.next(), Some(at(6_000)));
    }

    #[test]
    fn sessions_of_several_buckets_end_in_order_and_removed_ones_never() {
        let mut queue = ExpiryQueue::new(Duration::from_secs(1));
        queue.touch(3, at(0), 1_000);
        queue.touch(1, at(0), 5_000);
        queue.touch(2, at(0), 3_000);
        queue.remove(2);
        assert_eq!(queue.take_expired(at(60_000)), [3, 1]);
    }
}
