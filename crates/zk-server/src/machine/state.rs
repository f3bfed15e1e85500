//! State that outlives a process: the nodes, the sessions, the number of the last transaction.

use std::time::Duration;

use lockkeeper_zk_proto::time::Timestamp;

use crate::session::SessionTable;
use crate::tree::{ChangeError, DataTree, TreeChange, TreeTransaction};

/// How many transaction numbers there are for each millisecond of the clock they start from: more than a server can
/// use.
const ZXIDS_PER_MS_SHIFT: u32 = 20;
/// The wall time that transaction numbers are counted from, in milliseconds since 1970: the start of 2025. 43 bits of
/// milliseconds are 278 years.
const ZXID_ORIGIN_MS: i64 = 1_735_689_600_000;
/// How many numbers a restart leaves out: failed writes use numbers and leave no record.
const ZXIDS_UNRECORDED_MAX: i64 = 1 << 20;
/// The high byte of session ids, where Apache has the server's number.
const SESSION_ID_HIGH: i64 = 1 << 56;

/// What a new service starts from; the machine itself has no randomness.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seed {
    /// What session passwords are made from.
    pub secret: [u8; 32],
    /// The wall time, in milliseconds since 1970: transaction numbers and session ids start from it, so that those of
    /// an earlier life of the service, whose disk was emptied, lie below.
    pub wall_ms: i64,
}

#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) tree: DataTree,
    pub(crate) sessions: SessionTable,
    pub(crate) zxid: i64,
}

impl ServerState {
    /// The state of a service that has never run.
    pub(crate) fn new(tick: Duration, seed: Seed) -> Self {
        Self {
            tree: DataTree::new(),
            sessions: SessionTable::new(tick, first_session_id(seed.wall_ms), seed.secret),
            zxid: zxid_of(seed.wall_ms),
        }
    }

    /// Begins a new life of a service that has run before: its numbers start well above the last ones.
    pub(crate) fn begin_life(&mut self, wall_ms: i64) {
        let recorded = self.zxid.saturating_add(ZXIDS_UNRECORDED_MAX);
        self.zxid = recorded.max(zxid_of(wall_ms));
        self.sessions.begin_life(first_session_id(wall_ms));
    }

    /// Applies again what was recorded.
    /// Fails if a change does not fit, which a record that was written whole never does.
    pub(crate) fn replay(&mut self, transaction: &TreeTransaction) -> Result<(), ChangeError> {
        for change in &transaction.changes {
            self.tree.apply(change, transaction.zxid, transaction.time_ms)?;
            match change {
                TreeChange::OpenSession { session_id, timeout_ms } => {
                    self.sessions.open(*session_id, *timeout_ms, Timestamp::ZERO);
                }
                TreeChange::CloseSession { session_id } => {
                    self.sessions.close(*session_id);
                }
                _ => (),
            }
        }
        self.zxid = transaction.zxid;
        Ok(())
    }
}

/// The first transaction number of a service that starts at this time.
const fn zxid_of(wall_ms: i64) -> i64 {
    let millis = wall_ms.saturating_sub(ZXID_ORIGIN_MS);
    // Before the origin, or so far after it that the number would not fit, the clock is of no use.
    if millis < 0 || millis > i64::MAX >> ZXIDS_PER_MS_SHIFT { 0 } else { millis << ZXIDS_PER_MS_SHIFT }
}

/// The first session id of a service that starts at this time, made as Apache makes it.
const fn first_session_id(wall_ms: i64) -> i64 {
    (wall_ms & 0xff_ffff_ffff) << 16 | SESSION_ID_HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;

    fn seed(wall_ms: i64) -> Seed {
        Seed { secret: [0; 32], wall_ms }
    }

    #[test]
    fn numbers_of_a_later_life_are_greater_even_if_the_disk_was_emptied() {
        let mut first = ServerState::new(Duration::from_secs(2), seed(NOW_MS));
        first.zxid += 1_000_000;
        let second = ServerState::new(Duration::from_secs(2), seed(NOW_MS + 1));
        assert!(second.zxid > first.zxid);
    }

    #[test]
    fn numbers_of_a_later_life_are_greater_even_if_the_clock_was_set_back() {
        let mut state = ServerState::new(Duration::from_secs(2), seed(NOW_MS));
        let before = state.zxid;
        state.begin_life(NOW_MS - 86_400_000);
        assert!(state.zxid > before);
        let before = state.zxid;
        state.begin_life(0);
        assert!(state.zxid > before);
    }

    #[test]
    fn a_senseless_clock_gives_no_negative_numbers() {
        for wall_ms in [i64::MIN, 0, i64::MAX] {
            assert_eq!(zxid_of(wall_ms), 0);
        }
        assert!(first_session_id(i64::MIN) > 0);
        assert!(first_session_id(NOW_MS) >> 56 == 1);
    }
}
