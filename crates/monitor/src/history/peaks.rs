//! Peaks of a queue: how many waited at most in each of the last minutes, as the list draws it beside each lock.

/// How many minutes are kept.
pub const PEAK_MINUTES: usize = 60;

/// The peaks of one lock, by the minute.
#[derive(Clone, Debug)]
pub(super) struct Peaks {
    /// The minute since 1970 of the newest one.
    minute: u64,
    /// How many wait now.
    waiting: u16,
    /// In a ring; the one of a minute is at its remainder.
    counts: [u16; PEAK_MINUTES],
}

/// What one takes in the table that finds it, beside itself.
const PLACE_BYTES: usize = 8;

impl Peaks {
    pub(super) const BYTES: usize = size_of::<Self>() + PLACE_BYTES;

    pub(super) const fn new(now_ms: u64) -> Self {
        Self { minute: now_ms / 60_000, waiting: 0, counts: [0; PEAK_MINUTES] }
    }

    pub(super) fn note(&mut self, waiting: usize, now_ms: u64) {
        self.go_on(now_ms / 60_000);
        self.waiting = u16::try_from(waiting).unwrap_or(u16::MAX);
        let count = &mut self.counts[place(self.minute)];
        *count = self.waiting.max(*count);
    }

    /// Until the next change as many wait as before.
    fn go_on(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.minute);
        for later in (1..=passed).rev().take(PEAK_MINUTES) {
            self.counts[place(self.minute + later)] = self.waiting;
        }
        self.minute += passed;
    }

    /// Returns the counts of the last minutes, the oldest first.
    pub(super) fn until(&self, now_ms: u64) -> [u16; PEAK_MINUTES] {
        let mut here = self.clone();
        here.go_on(now_ms / 60_000);
        let mut counts = [0; PEAK_MINUTES];
        for (before, count) in counts.iter_mut().rev().enumerate() {
            *count = here.counts[place(here.minute.saturating_sub(before as u64))];
        }
        counts
    }
}

const fn place(minute: u64) -> usize {
    (minute % PEAK_MINUTES as u64) as usize
}
