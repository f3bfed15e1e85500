//! The name in a contender's key, and the contender's position by it.
//!
//! A session uses a name again once the contender that had it is certainly gone: the server walks over every name that
//! was in use since the last compaction when it reads a range. So a contender is known by its name and the revision at
//! which it was created.

use lockkeeper_core::{FencingToken, Mode};
use lockkeeper_session::hexadecimal_number;

const LEASE_DIGITS: usize = 16;
const REVISION_DIGITS: usize = 16;
const SEGMENT_DIGITS: usize = 8;
const SLOT_DIGITS: usize = 8;
const NUMBER_DIGITS: usize = 4;

/// A place in the order of a queue: compared from the first field to the last.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct QueuePosition {
    /// The revision of its creation, or of the contender beside which it stands.
    pub(crate) revision: i64,
    /// Its number among the contenders of one call, or that of the contender beside which it stands.
    pub(crate) turn: u32,
    /// 0, or its number among those beside one contender.
    pub(crate) next: u32,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Name {
    pub(crate) mode: Mode,
    pub(crate) segment: u32,
    pub(crate) lease: i64,
    /// Tells it from the other contenders of the session.
    pub(crate) slot: u32,
    pub(crate) number: u32,
    /// Its place, if it stands beside another contender.
    pub(crate) beside: Option<QueuePosition>,
}

impl Name {
    /// Reads what stands behind the queue in a contender's key, among our own names.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mode, rest) = text.split_once('/')?;
        let (segment, rest) = rest.split_once('/')?;
        let segment = u32::try_from(hexadecimal_number(segment, SEGMENT_DIGITS)?).ok()?;
        Self::parse_bare(mode_of(mode)?, segment, rest)
    }

    pub(super) fn parse_bare(mode: Mode, segment: u32, rest: &str) -> Option<Self> {
        let (rest, beside) = match rest.split_once('@') {
            Some((rest, beside)) => (rest, Some(QueuePosition::parse(beside)?)),
            None => (rest, None),
        };
        let (lease, rest) = rest.split_once('-')?;
        let (slot, number) = rest.split_once('.')?;
        Some(Self {
            mode,
            segment,
            lease: hexadecimal_number(lease, LEASE_DIGITS)?.cast_signed(),
            slot: u32::try_from(hexadecimal_number(slot, SLOT_DIGITS)?).ok()?,
            number: u32::try_from(hexadecimal_number(number, NUMBER_DIGITS)?).ok()?,
            beside,
        })
    }

    pub(super) fn text(&self) -> String {
        format!("{}/{}/{}", mode_letter(self.mode), segment_text(self.segment), self.bare())
    }

    pub(super) fn bare(&self) -> String {
        let Self { lease, slot, number, beside, .. } = self;
        let mut id = format!("{}-{}.{number:0NUMBER_DIGITS$x}", lease_text(*lease), slot_text(*slot));
        if let Some(QueuePosition { revision, turn, next }) = beside {
            let revision = revision_text(*revision);
            id.push_str(&format!("@{revision}.{turn:0NUMBER_DIGITS$x}.{next:0NUMBER_DIGITS$x}"));
        }
        id
    }

    /// The position of a contender that was created at this revision; one of another client has no name.
    pub(crate) fn position_of(name: Option<&Self>, created: i64) -> QueuePosition {
        name.map_or(QueuePosition { revision: created, turn: 0, next: 0 }, |name| name.position(created))
    }

    /// The name in another segment; a contender beside another one keeps its segment.
    pub(crate) fn in_segment(&self, segment: u32) -> Self {
        match self.beside {
            Some(_) => self.clone(),
            None => Self { segment, ..self.clone() },
        }
    }

    pub(crate) fn position(&self, created: i64) -> QueuePosition {
        self.beside.unwrap_or(QueuePosition { revision: created, turn: self.number, next: 0 })
    }
}

impl QueuePosition {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let revision = hexadecimal_number(parts.next()?, REVISION_DIGITS)?.cast_signed();
        let turn = u32::try_from(hexadecimal_number(parts.next()?, NUMBER_DIGITS)?).ok()?;
        let next = u32::try_from(hexadecimal_number(parts.next()?, NUMBER_DIGITS)?).ok()?;
        parts.next().is_none().then_some(Self { revision, turn, next })
    }

    /// The token of a grant at this position, where tokens begin at `offset`.
    pub(crate) fn token(self, offset: u64) -> Option<FencingToken> {
        let revision = u64::try_from(self.revision).ok()?;
        FencingToken::new(offset.checked_add(revision)?, self.turn)
    }
}

pub(super) fn lease_text(lease: i64) -> String {
    format!("{:0LEASE_DIGITS$x}", lease.cast_unsigned())
}

pub(super) fn slot_text(slot: u32) -> String {
    format!("{slot:0SLOT_DIGITS$x}")
}

pub(super) fn revision_text(revision: i64) -> String {
    format!("{revision:0REVISION_DIGITS$x}")
}

pub(super) fn segment_text(segment: u32) -> String {
    format!("{segment:0SEGMENT_DIGITS$x}")
}

pub(crate) const MODES: [Mode; 8] =
    [Mode::Mutex, Mode::Read, Mode::Write, Mode::Exclusive, Mode::Acquire, Mode::Permit, Mode::Candidate, Mode::Member];

pub(super) const fn mode_letter(mode: Mode) -> &'static str {
    match mode {
        Mode::Mutex => "m",
        Mode::Read => "r",
        Mode::Write => "w",
        Mode::Exclusive => "e",
        Mode::Acquire => "a",
        Mode::Permit => "x",
        Mode::Candidate => "c",
        Mode::Member => "b",
    }
}

fn mode_of(letter: &str) -> Option<Mode> {
    MODES.into_iter().find(|mode| mode_letter(*mode) == letter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_grow_along_the_queue_and_one_beside_another_has_its_token() {
        let token = |revision, turn, next| QueuePosition { revision, turn, next }.token(1_000).unwrap();
        assert!(token(7, 0, 0) < token(7, 1, 0) && token(7, 1, 0) < token(8, 0, 0));
        assert_eq!(token(7, 0, 0), token(7, 0, 3));
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_from_its_text(
            mode in 0..MODES.len(), segment: u32, lease: i64, slot: u32, number in 0..=0xffff_u32,
            beside in proptest::option::of((0..=i64::MAX, 0..=0xffff_u32, 0..=0xffff_u32)),
        ) {
            let beside = beside.map(|(revision, turn, next)| QueuePosition { revision, turn, next });
            let name = Name { mode: MODES[mode], segment, lease, slot, number, beside };
            prop_assert_eq!(Name::parse(&name.text()), Some(name));
        }

        #[test]
        fn no_key_makes_the_reader_panic(
            text in "[mrwx]?/?[0-9a-f]{0,9}/?[0-9a-f]{0,17}-?[0-9a-f]{0,9}\\.?\\PC{0,8}@?[0-9a-f.]{0,30}",
        ) {
            if let Some(name) = Name::parse(&text) {
                prop_assert_eq!(name.text(), text);
            }
        }
    }
}
