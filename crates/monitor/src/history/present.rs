//! The past with what goes on: holds of the model that have not ended yet, beside those that the history keeps.

use std::time::Duration;

use lockkeeper::QueueName;

use super::hold::{BlindGap, PastEnd};
use super::marks::freezes;
use super::past::{LockPast, PastContender, PastQuery};
use crate::known::{KnownContender, KnownLock};
use crate::model::LockModel;
use crate::moment::TimePoint;

impl LockModel {
    /// Returns what is known of a lock since a moment; those who hold it now come first.
    pub fn past(&self, lock: &str, since_unix: Duration, now: TimePoint) -> LockPast<'_> {
        let mut past = self.history().of_lock(lock, since_unix);
        past.gaps = self.gaps_since(since_unix, now);
        let known = QueueName::new(lock).ok().and_then(|name| self.locks().get_key_value(&name));
        let mut contenders: Vec<_> =
            known.into_iter().flat_map(|(name, known)| self.holding(name.as_str(), known, now)).collect();
        contenders.append(&mut past.contenders);
        let frozen = known.filter(|(_, known)| known.is_frozen());
        let freezers = frozen.map_or(0, |(_, known)| {
            known.contenders.iter().filter(|contender| contender.info.frozen.is_some()).count()
        });
        past.freezes = freezes(&past.marks, freezers, [past.since_unix, now.unix]);
        LockPast { contenders, ..past }
    }

    /// Returns the contenders that a question asks for, at most so many: those who hold now first, but for the longest.
    pub fn ask_past(
        &self,
        query: PastQuery<'_>,
        since_unix: Duration,
        limit: usize,
        now: TimePoint,
    ) -> Vec<PastContender<'_>> {
        let present = self.locks().iter().flat_map(|(name, known)| self.holding(name.as_str(), known, now));
        let mut found: Vec<_> = match query {
            PastQuery::At(at_unix) => present.filter(|one| one.from_unix <= at_unix).collect(),
            PastQuery::Holder(host) => present.filter(|one| one.host == host).collect(),
            PastQuery::Longest(_) => present.collect(),
            PastQuery::Waits(_) => Vec::new(),
        };
        found.extend(self.history().ask(query, since_unix, limit));
        if let PastQuery::Longest(count) = query {
            found.sort_by_key(|one| std::cmp::Reverse(one.held()));
            found.truncate(count);
        }
        found.truncate(limit);
        found
    }

    /// Returns when nothing was seen since a moment, the oldest gap first; one that goes on ends now.
    pub fn gaps_since(&self, since_unix: Duration, now: TimePoint) -> Vec<BlindGap> {
        self.history().gaps(since_unix).chain(self.gap(now)).collect()
    }

    fn gap(&self, now: TimePoint) -> Option<BlindGap> {
        let blind = self.history().blind_since?;
        Some(BlindGap { from_unix: self.history().unix(blind, now), until_unix: now.unix })
    }

    fn holding<'a>(
        &'a self,
        lock: &'a str,
        known: &'a KnownLock,
        now: TimePoint,
    ) -> impl Iterator<Item = PastContender<'a>> {
        known.holders().filter_map(move |one: &KnownContender| {
            let history = self.history();
            let seen = history.unix(one.seen_to_hold()?, now);
            let begun = history.kept.begun_before(lock, &one.info).map(Duration::from_millis);
            let from_unix = begun.map_or(seen, |begun| begun.min(seen));
            // Whether it still holds is not known while nothing is seen.
            let until = history.blind_since.map_or(now.unix, |blind| history.unix(blind, now));
            let end = if history.is_blind() { PastEnd::Unseen } else { PastEnd::Holds };
            let waited = self.waited(one);
            Some(PastContender {
                end,
                waited,
                ..PastContender::holding(lock, &one.info, [from_unix, until.max(from_unix)])
            })
        })
    }
}
