//! The content of the counter's file, and which number comes next: the decision without the file.
//!
//! One line of text, of fixed length and well within one sector, so that it is written whole or not at all:
//! `lockkeeper <c|r> <number> <ceiling> <boot id> <checksum>`.

use std::time::Duration;

/// How far ahead the ceiling is raised, in numbers: one flush to disk for this many locks, and at most this many
/// numbers left out at a reboot.
pub(crate) const CEILING_STEP: u64 = 1_000;

/// The length of a record, in bytes.
pub(crate) const RECORD_BYTES: usize = 109;

/// How many numbers a counter that is made anew starts above zero, for each millisecond since 1970: more locks than any
/// machine takes in one, so it starts above all numbers of an earlier counter.
const SEED_PER_MS: u64 = 1 << 20;

const NANOS_PER_MS: u128 = 1_000_000;

/// The greatest number: tokens fit into a signed number of 64 bits.
const NUMBER_MAX: u64 = i64::MAX.unsigned_abs();

/// The length of a boot id, in bytes.
const BOOT_ID_BYTES: usize = 36;

/// The identity of one run of the machine, as the kernel gives it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BootId([u8; BOOT_ID_BYTES]);

impl BootId {
    /// Checks the kernel's text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; BOOT_ID_BYTES] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-').then_some(Self(bytes))
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("a boot id was checked to be ASCII")
    }
}

/// Whether the ceiling of a record is known to be on the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ceiling {
    /// It was raised, and the flush has not been seen to succeed.
    Raised,
    /// It is on the disk.
    Certain,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CounterRecord {
    /// The number that was given out last.
    number: u64,
    /// No number above it is given out before a higher ceiling is on the disk.
    ceiling: u64,
    /// In which run of the machine the number was given out.
    boot: BootId,
    state: Ceiling,
}

/// A file that is not a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// There is no greater number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Exhausted;

/// The next number, and what the file has to say before it may be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TakenNumber {
    pub(crate) number: u64,
    pub(crate) record: CounterRecord,
    /// Whether the record must be on the disk first.
    pub(crate) needs_flush: bool,
}

impl CounterRecord {
    /// Reads a file's content: `None` for one that is empty or was never written.
    pub(crate) fn parse(content: &[u8]) -> Result<Option<Self>, Malformed> {
        if content.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let text = str::from_utf8(content).map_err(|_| Malformed)?;
        let (line, checksum) = text.strip_suffix('\n').and_then(|line| line.rsplit_once(' ')).ok_or(Malformed)?;
        if content.len() != RECORD_BYTES || checksum != checksum_of(line) {
            return Err(Malformed);
        }
        let parts: Vec<_> = line.split(' ').collect();
        let &["lockkeeper", state, number, ceiling, boot] = parts.as_slice() else {
            return Err(Malformed);
        };
        let state = match state {
            "c" => Ceiling::Certain,
            "r" => Ceiling::Raised,
            _ => return Err(Malformed),
        };
        let number = number.parse().map_err(|_| Malformed)?;
        let ceiling = ceiling.parse().map_err(|_| Malformed)?;
        let boot = BootId::parse(boot).ok_or(Malformed)?;
        if number > ceiling || ceiling > NUMBER_MAX {
            return Err(Malformed);
        }
        Ok(Some(Self { number, ceiling, boot, state }))
    }

    /// Writes the record as the file has it, with or without the mark that its ceiling is on the disk.
    pub(crate) fn to_bytes(self, state: Ceiling) -> [u8; RECORD_BYTES] {
        let letter = match state {
            Ceiling::Certain => 'c',
            Ceiling::Raised => 'r',
        };
        let line = format!("lockkeeper {letter} {:020} {:020} {}", self.number, self.ceiling, self.boot.as_str());
        let text = format!("{line} {}\n", checksum_of(&line));
        text.into_bytes().try_into().expect("every part of a record has a fixed width")
    }
}

/// Takes the next number, greater than all that were given out before and greater than `floor`.
pub(crate) fn take(
    current: Option<CounterRecord>,
    boot: BootId,
    floor: u64,
    unix_time: Duration,
) -> Result<TakenNumber, Exhausted> {
    let (last, ceiling, state) = match current {
        Some(record) if record.boot == boot => (record.number, record.ceiling, record.state),
        // What was given out since the last flush may be lost from the file, but none of it was above the ceiling.
        Some(record) => (record.ceiling, record.ceiling, Ceiling::Raised),
        None => {
            let seed = seed(unix_time).ok_or(Exhausted)?;
            (seed, seed, Ceiling::Raised)
        }
    };
    let number = last.max(floor).checked_add(1).filter(|number| *number <= NUMBER_MAX).ok_or(Exhausted)?;
    let needs_flush = number > ceiling || state == Ceiling::Raised;
    let ceiling = if needs_flush { ceiling.max((number + CEILING_STEP - 1).min(NUMBER_MAX)) } else { ceiling };
    let record = CounterRecord { number, ceiling, boot, state: Ceiling::Certain };
    Ok(TakenNumber { number, record, needs_flush })
}

/// Where a new counter starts: finer than a lock takes, so that one which is wiped and made anew at once grows, too.
fn seed(unix_time: Duration) -> Option<u64> {
    let numbers = unix_time.as_nanos().checked_mul(SEED_PER_MS.into())? / NANOS_PER_MS;
    u64::try_from(numbers).ok()
}

/// FNV-1a of 64 bits: it detects a damaged line, not a forged one; a user who may write the file needs no forgery.
fn checksum_of(line: &str) -> String {
    let sum = line
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    format!("{sum:016x}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Duration = Duration::from_millis(NOW_MS);
    const NOW_MS: u64 = 1_750_000_000_000;

    fn boot(digit: char) -> BootId {
        BootId::parse(&"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx".replace('x', &digit.to_string())).unwrap()
    }

    /// Takes as the file would have it: what was written is read back.
    fn take_stored(content: &mut Vec<u8>, boot: BootId, floor: u64, unix_time: Duration) -> TakenNumber {
        let taken = take(CounterRecord::parse(content).unwrap(), boot, floor, unix_time).unwrap();
        *content = taken.record.to_bytes(Ceiling::Certain).to_vec();
        taken
    }

    #[test]
    fn one_number_in_a_thousand_costs_a_flush() {
        let mut content = Vec::new();
        let mut last = 0;
        let mut flushes = 0;
        for _ in 0..10_000 {
            let taken = take_stored(&mut content, boot('a'), 0, NOW);
            assert!(taken.number > last);
            last = taken.number;
            flushes += u32::from(taken.needs_flush);
        }
        assert_eq!(flushes, 10);
    }

    #[test]
    fn a_new_counter_starts_from_the_clock() {
        for content in [&[][..], &[0; RECORD_BYTES]] {
            let taken = take(CounterRecord::parse(content).unwrap(), boot('a'), 0, NOW).unwrap();
            assert_eq!((taken.number, taken.needs_flush), ((NOW_MS << 20) + 1, true));
        }
    }

    #[test]
    fn after_a_reboot_counting_goes_on_above_all_that_may_have_been_given_out() {
        let mut content = Vec::new();
        let on_disk = take_stored(&mut content, boot('a'), 0, NOW).record.to_bytes(Ceiling::Raised);
        let mut last = 0;
        for _ in 1..CEILING_STEP {
            let taken = take_stored(&mut content, boot('a'), 0, NOW);
            assert!(!taken.needs_flush);
            last = taken.number;
        }
        // Of all these only the flushed record survives; the clock was set back, too.
        let mut content = on_disk.to_vec();
        let taken = take_stored(&mut content, boot('b'), 0, Duration::ZERO);
        assert_eq!(taken.number, last + 1);
        assert!(taken.needs_flush);
    }

    #[test]
    fn a_ceiling_whose_flush_was_not_seen_is_flushed_by_the_next() {
        let taken = take(None, boot('a'), 0, NOW).unwrap();
        let unflushed = CounterRecord::parse(&taken.record.to_bytes(Ceiling::Raised)).unwrap();
        assert!(take(unflushed, boot('a'), 0, NOW).unwrap().needs_flush);
        let flushed = CounterRecord::parse(&taken.record.to_bytes(Ceiling::Certain)).unwrap();
        assert!(!take(flushed, boot('a'), 0, NOW).unwrap().needs_flush);
    }

    #[test]
    fn a_number_is_above_all_contenders_in_the_queue_independent_of_the_counter() {
        let taken = take(None, boot('a'), NOW_MS << 21, NOW).unwrap();
        assert_eq!(taken.number, (NOW_MS << 21) + 1);
    }

    #[test]
    fn the_last_number_is_given_out_and_none_after_it() {
        let taken = take(None, boot('a'), NUMBER_MAX - 1, NOW).unwrap();
        assert_eq!(taken.number, NUMBER_MAX);
        assert_eq!(take(Some(taken.record), boot('a'), 0, NOW), Err(Exhausted));
        assert_eq!(take(None, boot('a'), 0, Duration::MAX), Err(Exhausted));
    }

    #[test]
    fn a_counter_made_anew_within_a_millisecond_starts_above_the_one_before() {
        let first = take(None, boot('a'), 0, NOW).unwrap().number;
        assert!(take(None, boot('a'), 0, NOW + Duration::from_micros(5)).unwrap().number > first + 1_000);
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_detected(position in 0..RECORD_BYTES, byte: u8) {
            let good = take(None, boot('a'), 0, NOW).unwrap().record.to_bytes(Ceiling::Certain);
            let mut damaged = good;
            damaged[position] = byte;
            prop_assert_eq!(CounterRecord::parse(&damaged).is_ok(), damaged == good);
            prop_assert_eq!(CounterRecord::parse(&good[..position.max(1)]), Err(Malformed));
        }

        #[test]
        fn no_content_panics(content: Vec<u8>) {
            let _ = CounterRecord::parse(&content);
        }
    }
}
