//! When sessions end: in buckets one tick wide, as Apache rounds them, so that many touches cost nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use lockkeeper_zk_proto::time::Timestamp;

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

    /// Forgets a session.
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

#[cfg(test)]
mod tests {
    use super::*;

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
