//! All sessions by id.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lockkeeper_zk_proto::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::connection_id::ConnectionId;
use crate::session::expiry::ExpiryQueue;

/// The length of a session's password; clients expect 16 bytes.
const PASSWORD_BYTES: usize = 16;

/// One session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SessionEntry {
    /// The timeout it began with; what it goes back to when the server restarts.
    pub(crate) timeout_ms: i32,
    /// The connection it is on.
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
}
