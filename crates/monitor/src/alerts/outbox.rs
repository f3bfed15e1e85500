//! The outbox of one receiver: in order, each alert again and again until it is taken.
//!
//! Pure: what is sent and whether it was taken, the sender knows.

use std::collections::VecDeque;
use std::time::Duration;

use lockkeeper::clock::BootInstant;

use super::episode::{Alert, AlertNews};

/// How many news are kept for a receiver that is down: more than an operator reads, and some megabytes.
pub const NEWS_MAX: usize = 1_000;

/// How long one of them is kept: a receiver that is down for longer is told what is wrong now instead.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The pause after the first failure; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What one receiver is still to be told.
#[derive(Clone, Debug, Default)]
pub struct AlertOutbox {
    waiting: VecDeque<PendingNews>,
    /// The number of the next news.
    next: u64,
    /// How often the first one was tried in vain since the receiver took one last.
    failures: u32,
    /// No earlier than this is tried again.
    not_before: Option<BootInstant>,
    dropped: u64,
    changes: u64,
}

#[derive(Clone, Debug)]
struct PendingNews {
    number: u64,
    since: BootInstant,
    news: AlertNews,
}

impl AlertOutbox {
    /// Adds news. Where there is no room, an alert that has begun and ended untold goes first, and else the oldest.
    pub fn put(&mut self, news: AlertNews, now: BootInstant) {
        self.forget_old(now);
        if self.waiting.len() >= NEWS_MAX {
            self.make_room();
        }
        self.waiting.push_back(PendingNews { number: self.next, since: now, news });
        self.next += 1;
        self.changes += 1;
    }

    /// Returns what is still to be told, the oldest first, each with the moment since which it waits.
    pub fn untold(&self) -> impl ExactSizeIterator<Item = (BootInstant, &AlertNews)> {
        self.waiting.iter().map(|waiting| (waiting.since, &waiting.news))
    }

    /// Keeps only such news, and drops none by that: another monitor tells the others.
    pub fn retain(&mut self, is_kept: impl Fn(&AlertNews) -> bool) {
        self.waiting.retain(|waiting| is_kept(&waiting.news));
        self.changes += 1;
    }

    fn make_room(&mut self) {
        let ended = self.waiting.iter().enumerate().find_map(|(at, waiting)| match &waiting.news {
            AlertNews::Ended(alert) => Some((self.begin_of(alert, at)?, at)),
            AlertNews::Raised(_) => None,
        });
        match ended {
            Some((begun, ended)) => {
                self.waiting.remove(ended);
                self.waiting.remove(begun);
                self.dropped += 2;
            }
            None => {
                self.waiting.pop_front();
                self.dropped += 1;
            }
        }
    }

    /// Finds where an alert that ends at `ended` has begun, if that is untold too.
    fn begin_of(&self, alert: &Alert, ended: usize) -> Option<usize> {
        self.waiting.iter().take(ended).position(|waiting| match &waiting.news {
            AlertNews::Raised(begun) => begun.about == alert.about && begun.began_unix == alert.began_unix,
            AlertNews::Ended(_) => false,
        })
    }

    fn forget_old(&mut self, now: BootInstant) {
        while self.waiting.front().is_some_and(|first| now.saturating_duration_since(first.since) > KEPT_FOR) {
            self.waiting.pop_front();
            self.dropped += 1;
            self.changes += 1;
        }
    }

    /// Returns what is to be told now of the news that are this monitor's to tell, if it is time, and its number.
    pub fn due(&mut self, now: BootInstant, is_ours: impl Fn(&AlertNews) -> bool) -> Option<(u64, &AlertNews)> {
        self.forget_old(now);
        let is_time = self.not_before.is_none_or(|not_before| now >= not_before);
        let first = self.waiting.iter().find(|waiting| is_ours(&waiting.news));
        first.filter(|_| is_time).map(|first| (first.number, &first.news))
    }

    /// Notes that the news of this number was taken. It may have been dropped meanwhile.
    pub fn told(&mut self, number: u64) {
        self.waiting.retain(|waiting| waiting.number != number);
        (self.failures, self.not_before) = (0, None);
        self.changes += 1;
    }

    /// Notes that the receiver will never take the news of this number.
    pub fn refused(&mut self, number: u64) {
        self.told(number);
        self.dropped += 1;
    }

    /// Notes that it was not taken, so that it is tried again after a pause.
    pub fn failed(&mut self, now: BootInstant) {
        let pause = PAUSE_MIN.saturating_mul(2_u32.saturating_pow(self.failures)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now.saturating_add(pause));
    }

    /// Returns when the next one that is this monitor's to tell is to be tried; `None` if there is none.
    pub fn next_try(&self, now: BootInstant, is_ours: impl Fn(&AlertNews) -> bool) -> Option<BootInstant> {
        self.waiting.iter().any(|waiting| is_ours(&waiting.news)).then(|| self.not_before.unwrap_or(now))
    }

    /// Returns how many were dropped untold.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Counts how often what is still to be told has changed.
    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }
}
