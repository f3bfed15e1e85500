//! Records of the histories of many locks that many processes make, in files: each record is written at once and in one
//! piece, so a process that is killed leaves all but the one that it was about to write.
//!
//! All processes of a machine read one clock, so their records are put in one order by it. The rules, and their
//! checker, are those of `lockkeeper-history`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use libtest_mimic::Failed;
use lockkeeper_core::FencingToken;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_history::{Asks, HistoryRecord, What};

/// The histories of locks, by their numbers.
pub type Histories = BTreeMap<u32, Vec<HistoryRecord>>;

/// When, the grant of the token and its turn, the lock, the attempt, what happened, and a number that goes with it.
const RECORD_BYTES: usize = 2 * 8 + 5 * 4;

/// Writes the records of one process. All ask for locks alone.
#[derive(Debug)]
pub struct Scribe(File);

impl Scribe {
    /// Writes to this file, behind what it has.
    ///
    /// # Panics
    ///
    /// It cannot be opened.
    pub fn to(file: &Path) -> Self {
        Self(File::options().append(true).create(true).open(file).expect("the folder is there"))
    }

    /// Records what happened to a lock at this moment.
    ///
    /// # Panics
    ///
    /// It cannot be written.
    pub fn record(&self, lock: u32, at: BootInstant, what: &What) {
        (&self.0).write_all(&to_bytes(lock, at, what)).expect("there is room for records");
    }
}

fn to_bytes(lock: u32, at: BootInstant, what: &What) -> [u8; RECORD_BYTES] {
    let mut of_token = (0, 0);
    let (kind, attempt, number) = match *what {
        What::Calling { attempt, keeper, .. } => (b'c', attempt, keeper),
        What::Joined { attempt } => (b'j', attempt, 0),
        What::Granted { attempt, token, held } => {
            of_token = (token.as_u64(), token.turn());
            (b'g', attempt, u32::from(held))
        }
        What::Held { attempt } => (b'h', attempt, 0),
        What::Lost { attempt } => (b'l', attempt, 0),
        What::Releasing { attempt } => (b'r', attempt, 0),
        What::GaveUp { attempt } => (b'u', attempt, 0),
        What::Stopped { keeper } => (b's', 0, keeper),
        What::GoesOn { keeper } => (b'o', 0, keeper),
        _ => unreachable!("trials record nothing else: {what:?}"),
    };
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&at.as_nanos().to_le_bytes());
    bytes[8..16].copy_from_slice(&of_token.0.to_le_bytes());
    let words = [of_token.1, lock, attempt, u32::from(kind), number];
    for (place, word) in bytes[16..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<(u32, HistoryRecord)> {
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (attempt, number) = (word(24)?, word(32)?);
    let what = match u8::try_from(word(28)?).ok()? {
        b'c' => What::Calling { attempt, keeper: number, asks: Asks::Alone },
        b'j' => What::Joined { attempt },
        b'g' => What::Granted { attempt, token: FencingToken::new(long(8)?, word(16)?)?, held: number == 1 },
        b'h' => What::Held { attempt },
        b'l' => What::Lost { attempt },
        b'r' => What::Releasing { attempt },
        b'u' => What::GaveUp { attempt },
        b's' => What::Stopped { keeper: number },
        b'o' => What::GoesOn { keeper: number },
        _ => return None,
    };
    Some((word(20)?, HistoryRecord { at: BootInstant::from_nanos(long(0)?), what }))
}

/// Reads all files of a folder whose names begin so: the histories by lock, each in the order of time.
///
/// # Errors
///
/// A file cannot be read, or has something else.
pub fn read(folder: &Path, prefix: &str) -> Result<Histories, Failed> {
    let mut histories: Histories = BTreeMap::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        if !file.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        // The last one may be torn.
        for bytes in fs::read(file.path())?.chunks_exact(RECORD_BYTES) {
            let (lock, record) = from_bytes(bytes).ok_or_else(|| format!("{:?} has no records", file.path()))?;
            histories.entry(lock).or_default().push(record);
        }
    }
    // Stable: what one process records at one moment keeps its order.
    histories.values_mut().for_each(|records| records.sort_by_key(|record| record.at));
    Ok(histories)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_but_for_a_torn_one() {
        let (folder, attempt) = (tempfile::tempdir().unwrap(), 7);
        let token = FencingToken::new(4_711, 12).unwrap();
        let written = [
            What::Calling { attempt, keeper: 3, asks: Asks::Alone },
            What::Joined { attempt },
            What::Granted { attempt, token, held: true },
            What::Held { attempt },
            What::Lost { attempt },
            What::Releasing { attempt },
            What::GaveUp { attempt },
            What::Stopped { keeper: 3 },
            What::GoesOn { keeper: 3 },
        ];
        let scribe = Scribe::to(&folder.path().join("records-1"));
        written.iter().for_each(|what| scribe.record(5, BootInstant::from_nanos(7), what));
        (&scribe.0).write_all(b"torn").unwrap();
        let read = read(folder.path(), "records").unwrap();
        let read: Vec<_> = read[&5].iter().map(|record| record.what.clone()).collect();
        assert_eq!(read, written);
    }
}
