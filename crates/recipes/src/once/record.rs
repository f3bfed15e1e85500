//! Slots and their record: what is stored of those that were claimed, and what follows from it for a caller. Pure.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::{FencingToken, QueueName, Result, Value};

use crate::contend::refused;

/// How many named slots of one job are remembered, the newest ones; with the longest names that is a quarter of a
/// value. One that is forgotten is free again.
pub const NAMED_SLOTS_MAX: usize = 100;

/// The longest name of a slot, in bytes.
pub const SLOT_BYTES_MAX: usize = 100;

/// What a job is to be done once for: a period of the wall clock, or a name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Slot(SlotKey);

#[derive(Clone, Debug, Eq, PartialEq)]
enum SlotKey {
    /// When it begins, in seconds since 1970-01-01 UTC.
    Begins(u64),
    Named(String),
}

impl Slot {
    /// Returns the slot in which a moment of the wall clock lies, if a slot is as long as `period`.
    ///
    /// Slots follow one another from 1970-01-01 UTC on, so that those of a day begin at midnight UTC. Parts of a second
    /// of the period are cut off; one of less than a second is one of a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lockkeeper::once::Slot;
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let slot = Slot::of_time(hour, Duration::from_secs(7_205));
    /// assert_eq!(slot, Slot::of_time(hour, Duration::from_secs(10_799)));
    /// assert_eq!(slot.begins(), Some(2 * hour));
    /// ```
    pub fn of_time(period: Duration, unix_time: Duration) -> Self {
        let (period, now) = (period.as_secs().max(1), unix_time.as_secs());
        Self(SlotKey::Begins(now - now % period))
    }

    /// Returns the slot of a name, such as a date or a version.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](lockkeeper_core::ErrorKind::InvalidName) if it is empty, longer than [`SLOT_BYTES_MAX`], or has
    /// a blank or a control character.
    pub fn named(name: &str) -> Result<Self> {
        use lockkeeper_core::{Error, ErrorKind, Operation};
        let why = match name {
            "" => "the name of a slot is empty".to_owned(),
            _ if name.len() > SLOT_BYTES_MAX => {
                format!("the name of a slot has {} bytes; the limit is {SLOT_BYTES_MAX}", name.len())
            }
            _ if name.contains(|c: char| c.is_whitespace() || c.is_control()) => {
                format!("the name of a slot has a blank or a control character: {name:?}")
            }
            _ => return Ok(Self(SlotKey::Named(name.to_owned()))),
        };
        Err(Error::permanent(ErrorKind::InvalidName, Operation::Configure, why))
    }

    /// Returns when it begins, since 1970-01-01 UTC; `None` for a named one.
    pub const fn begins(&self) -> Option<Duration> {
        match self.0 {
            SlotKey::Begins(seconds) => Some(Duration::from_secs(seconds)),
            SlotKey::Named(_) => None,
        }
    }
}

/// The name; or `@` and the seconds since 1970-01-01 UTC at which it begins, as date(1) reads them.
impl fmt::Display for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SlotKey::Begins(seconds) => write!(formatter, "@{seconds}"),
            SlotKey::Named(name) => formatter.write_str(name),
        }
    }
}

/// Whether a slot that was claimed may be claimed again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SlotState {
    /// By one that repeats what failed, under the lock.
    Open,
    /// By none.
    Closed,
}

/// What a record says to a caller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum SlotVerdict {
    Free,
    /// The caller's own claim is there: its answer was lost.
    Ours,
    Taken,
    /// A slot that begins later was claimed.
    Passed(Slot),
}

/// What is stored of the slots of a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SlotRecord {
    /// At most one of time, the newest, and the named ones in the order of their claims.
    entries: Vec<ClaimedSlot>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct ClaimedSlot {
    slot: Slot,
    state: SlotState,
    /// The fencing token of the claim.
    token: String,
}

/// The first line of what is stored.
const HEAD: &str = "lockkeeper slots 1";

impl SlotRecord {
    /// Reads it from the value of the job's name.
    pub(super) fn read(job: &QueueName, value: Option<&Value>) -> Result<Self> {
        let Some(value) = value.filter(|value| !value.bytes.is_empty()) else { return Ok(Self::default()) };
        let entries = str::from_utf8(&value.bytes).ok().and_then(|text| {
            let mut lines = text.lines();
            (lines.next() == Some(HEAD)).then(|| lines.map(ClaimedSlot::parse).collect::<Option<Vec<_>>>())?
        });
        entries.map(|entries| Self { entries }).ok_or_else(|| {
            refused(job, "its value is none of slots: the name is in use for a shared value, a counter or a barrier")
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let line = |entry: &ClaimedSlot| {
            let state = match entry.state {
                SlotState::Open => "open",
                SlotState::Closed => "closed",
            };
            let kind = if entry.slot.begins().is_some() { "time" } else { "name" };
            format!("\n{kind} {} {state} {}", entry.slot, entry.token)
        };
        self.entries.iter().fold(HEAD.to_owned(), |text, entry| text + &line(entry)).into_bytes()
    }

    /// Judges a call for a slot; `token` is that of its hold, once it has one.
    pub(super) fn judge(&self, slot: &Slot, repeats: bool, token: Option<FencingToken>) -> SlotVerdict {
        let Some(entry) = self.entries.iter().find(|entry| entry.is_beside(slot)) else { return SlotVerdict::Free };
        match (entry.slot.begins(), slot.begins()) {
            (Some(newest), Some(begins)) if newest < begins => SlotVerdict::Free,
            (Some(newest), Some(begins)) if newest > begins => SlotVerdict::Passed(entry.slot.clone()),
            _ if token.is_some_and(|token| token.to_string() == entry.token) => SlotVerdict::Ours,
            _ if repeats && entry.state == SlotState::Open => SlotVerdict::Free,
            _ => SlotVerdict::Taken,
        }
    }

    /// Notes a claim, or that a claim's work is done.
    pub(super) fn with(mut self, slot: &Slot, state: SlotState, token: FencingToken) -> Self {
        self.entries.retain(|entry| !entry.is_beside(slot));
        self.entries.push(ClaimedSlot { slot: slot.clone(), state, token: token.to_string() });
        let is_named = |entry: &&ClaimedSlot| entry.slot.begins().is_none();
        if self.entries.iter().filter(is_named).count() > NAMED_SLOTS_MAX
            && let Some(oldest) = self.entries.iter().position(|entry| is_named(&entry))
        {
            self.entries.remove(oldest);
        }
        self
    }
}

impl ClaimedSlot {
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let &[kind, slot, state, token] = &words[..] else { return None };
        let slot = match kind {
            "time" => Slot(SlotKey::Begins(slot.strip_prefix('@')?.parse().ok()?)),
            "name" => Slot::named(slot).ok()?,
            _ => return None,
        };
        let state = match state {
            "open" => SlotState::Open,
            "closed" => SlotState::Closed,
            _ => return None,
        };
        Some(Self { slot, state, token: token.to_owned() })
    }

    /// Whether it says something of this slot: of those of time one is remembered.
    fn is_beside(&self, slot: &Slot) -> bool {
        self.slot == *slot || self.slot.begins().is_some() && slot.begins().is_some()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::ValueVersion;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn job() -> QueueName {
        QueueName::new("report").unwrap()
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number, 0).unwrap()
    }

    fn hour(number: u32) -> Slot {
        Slot::of_time(HOUR, HOUR * number)
    }

    fn named(name: &str) -> Slot {
        Slot::named(name).unwrap()
    }

    fn read(bytes: &[u8]) -> Result<SlotRecord> {
        SlotRecord::read(&job(), Some(&Value { bytes: bytes.into(), version: ValueVersion(1) }))
    }

    #[test]
    fn a_claimed_slot_is_taken_for_all_but_its_claimant_and_an_open_one_may_be_repeated_by_those_who_do() {
        for slot in [hour(3), named("2026-11-28")] {
            let empty = SlotRecord::default();
            assert_eq!(empty.judge(&slot, false, None), SlotVerdict::Free);
            let closed = empty.clone().with(&slot, SlotState::Closed, token(7));
            let open = empty.with(&slot, SlotState::Open, token(7));
            for (record, repeats, expected) in [
                (&closed, false, SlotVerdict::Taken),
                (&closed, true, SlotVerdict::Taken),
                (&open, false, SlotVerdict::Taken),
                (&open, true, SlotVerdict::Free),
            ] {
                assert_eq!(record.judge(&slot, repeats, None), expected, "{record:?}");
                assert_eq!(record.judge(&slot, repeats, Some(token(8))), expected);
                assert_eq!(record.judge(&slot, repeats, Some(token(7))), SlotVerdict::Ours);
            }
            let done = open.with(&slot, SlotState::Closed, token(9));
            assert_eq!(done.judge(&slot, true, None), SlotVerdict::Taken);
        }
    }

    #[test]
    fn a_slot_of_time_is_free_behind_the_newest_one_and_passed_before_it_whatever_its_period() {
        let record = SlotRecord::default().with(&hour(3), SlotState::Open, token(7));
        assert_eq!(record.judge(&hour(2), true, None), SlotVerdict::Passed(hour(3)));
        assert_eq!(record.judge(&hour(4), false, None), SlotVerdict::Free);
        let minute = Slot::of_time(Duration::from_secs(60), HOUR * 3 + Duration::from_secs(61));
        assert_eq!(record.judge(&minute, false, None), SlotVerdict::Free);
        let later = record.with(&minute, SlotState::Closed, token(8));
        assert_eq!(later.judge(&hour(3), true, None), SlotVerdict::Passed(minute));
        assert_eq!(later.judge(&named("a"), false, None), SlotVerdict::Free, "names are beside it");
    }

    #[test]
    fn named_slots_are_remembered_up_to_the_limit_and_fit_into_a_value() {
        let name = |number: usize| named(&format!("{number:0>width$}", width = SLOT_BYTES_MAX));
        let mut record = SlotRecord::default().with(&hour(3), SlotState::Closed, token(1));
        for number in 0..=NAMED_SLOTS_MAX {
            record = record.with(&name(number), SlotState::Closed, token(i64::MAX as u64));
        }
        assert_eq!(record.judge(&name(0), false, None), SlotVerdict::Free, "it is forgotten");
        assert_eq!(record.judge(&name(1), false, None), SlotVerdict::Taken);
        assert_eq!(record.judge(&hour(3), false, None), SlotVerdict::Taken);
        let bytes = record.to_bytes();
        assert!(bytes.len() < lockkeeper_core::VALUE_BYTES_MAX / 2, "{} bytes", bytes.len());
        assert_eq!(read(&bytes).unwrap(), record);
    }

    #[test]
    fn what_is_stored_stays_readable_and_what_is_none_of_slots_is_refused() {
        let record = SlotRecord::default().with(&hour(1), SlotState::Open, token(7));
        let record = record.with(&named("@3"), SlotState::Closed, token(8));
        let text = "lockkeeper slots 1\ntime @3600 open 7\nname @3 closed 8";
        assert_eq!(record.to_bytes(), text.as_bytes());
        assert_eq!(read(text.as_bytes()).unwrap(), record);
        assert_eq!(SlotRecord::read(&job(), None).unwrap(), SlotRecord::default());
        for strange in ["x", "lockkeeper slots 2", "lockkeeper slots 1\ntime 3600 open 7", "\0\0\0\u{1}"] {
            read(strange.as_bytes()).expect_err("it is none of slots");
        }
    }

    #[test]
    fn a_name_that_could_not_be_stored_is_refused() {
        for name in ["", "a b", "a\n", &"x".repeat(SLOT_BYTES_MAX + 1)] {
            Slot::named(name).expect_err("it is refused");
        }
    }
}
