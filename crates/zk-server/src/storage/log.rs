//! The form of a log: records one after the other, each with a checksum that holds at its place in its file alone.
//!
//! A record says how far the log was flushed when it was written. So two kinds of holes can be told apart: one that a
//! crash left, behind which nothing was acknowledged, and one in what had been flushed.
//!
//! The file is longer than its records, and its header has a mark: how long it was when it was flushed last. No record
//! is acknowledged that ends behind the mark. So a file that is shorter than its mark was cut, wherever that was. There
//! are two places for marks, written by turns, so that one is whole if the writing of the other is torn.

use bytes::Bytes;

/// Begins each log; the last character is the version of the form.
const MAGIC: &[u8; 8] = b"LKZKLOG2";
/// Begins each log of the former form, which has no marks and can have lost its header in a crash.
const MAGIC_FORMER: &[u8; 8] = b"LKZKLOG1";
/// The magic, and the transaction the log begins after: all of the header in the former form.
const BEGIN_BYTES: usize = 16;
/// A length and its checksum.
pub(super) const MARK_BYTES: usize = 12;
pub(super) const MARKS: usize = 2;
pub(super) const HEADER_BYTES: usize = BEGIN_BYTES + MARKS * MARK_BYTES;
/// Length, checksum, and how far the log was flushed.
const RECORD_HEADER_BYTES: usize = 16;
/// The longest record that is accepted, in bytes: the end of a session with a million nodes fits.
const RECORD_BYTES_MAX: usize = 1 << 30;
/// Begins the record that ends a log; the transaction that the next log begins after follows, but in the former form.
const END: &[u8; 3] = b"end";
/// How long a record that ends a log is at most.
const END_BYTES_MAX: usize = END.len() + 8;

/// What a log was found to hold.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Scan {
    pub(super) records: Vec<Bytes>,
    /// Where the last of them ends; what lies behind was never acknowledged.
    pub(super) end: usize,
    /// How many bytes behind that are parts of records.
    pub(super) torn_bytes: usize,
    /// Whether the log was ended because another begins.
    pub(super) ending: Option<LogEnd>,
}

/// The end of a log after which another begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LogEnd {
    /// The transaction that the next log begins after; not known in the former form.
    pub(super) next: Option<i64>,
}

/// Says where a log is damaged within what had been flushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LogDamage {
    /// The header is not that of the log that begins after this transaction.
    Header,
    /// There is no record at this offset, but there are later ones that were written when it had been flushed.
    Hole { offset: usize },
    /// The file is shorter than it was when it was flushed.
    Short { flushed: usize },
}

/// The header of the log that begins after the transaction `zxid` and is flushed up to `length`.
pub(super) fn encode_header(zxid: i64, length: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..BEGIN_BYTES].copy_from_slice(&zxid.to_be_bytes());
    for mark in header[BEGIN_BYTES..].chunks_exact_mut(MARK_BYTES) {
        mark.copy_from_slice(&encode_mark(zxid, length));
    }
    header
}

/// The mark of a log that is flushed up to `length`.
pub(super) fn encode_mark(zxid: i64, length: usize) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    let length = (length as u64).to_be_bytes();
    mark[..8].copy_from_slice(&length);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&zxid.to_be_bytes());
    hasher.update(&length);
    mark[8..].copy_from_slice(&hasher.finalize().to_be_bytes());
    mark
}

/// Where the mark of this number is in the file.
pub(super) const fn mark_offset(number: usize) -> usize {
    BEGIN_BYTES + number % MARKS * MARK_BYTES
}

/// Appends a record, to stand at `offset` in the log that begins after `zxid`.
pub(super) fn encode_record(buffer: &mut Vec<u8>, payload: &[u8], zxid: i64, offset: usize, flushed: usize) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let flushed = (flushed as u64).to_be_bytes();
    let checksum = checksum(payload, zxid, offset, flushed);
    buffer.extend_from_slice(&length.to_be_bytes());
    buffer.extend_from_slice(&checksum.to_be_bytes());
    buffer.extend_from_slice(&flushed);
    buffer.extend_from_slice(payload);
}

pub(super) const fn record_bytes(payload: &[u8]) -> usize {
    RECORD_HEADER_BYTES + payload.len()
}

/// The payload of the record that ends a log, after which the log of `next` begins.
pub(super) fn end_payload(next: i64) -> Bytes {
    [&END[..], &next.to_be_bytes()].concat().into()
}

fn as_ending(payload: &[u8]) -> Option<LogEnd> {
    // Every transaction is longer.
    let next = payload.strip_prefix(END).filter(|_| payload.len() <= END_BYTES_MAX)?;
    Some(LogEnd { next: next.try_into().ok().map(i64::from_be_bytes) })
}

/// Reads a log up to where it ends.
/// Fails if something is missing that had been flushed.
pub(super) fn scan(bytes: &Bytes, zxid: i64) -> Result<Scan, LogDamage> {
    let header = read_header(bytes, zxid).ok_or(LogDamage::Header)?;
    let scan = scan_records(bytes, zxid, header.length);
    if scan.ending.is_some() {
        return Ok(scan);
    }
    if bytes.len() < header.flushed {
        return Err(LogDamage::Short { flushed: header.flushed });
    }
    match latest_flushed_behind(bytes, zxid, scan.end) {
        Some(flushed) if flushed > scan.end => Err(LogDamage::Hole { offset: scan.end }),
        _ => Ok(scan),
    }
}

/// Reads what can be read of a damaged log: the records before the damage.
pub(super) fn salvage(bytes: &Bytes, zxid: i64) -> Scan {
    let header_bytes = read_header(bytes, zxid).map_or(HEADER_BYTES, |header| header.length);
    scan_records(bytes, zxid, header_bytes)
}

struct Header {
    length: usize,
    /// How long the file was when it was flushed.
    flushed: usize,
}

fn read_header(bytes: &Bytes, zxid: i64) -> Option<Header> {
    let (magic, number) = bytes.get(..BEGIN_BYTES)?.split_at(MAGIC.len());
    if number != zxid.to_be_bytes() {
        return None;
    }
    if magic == MAGIC_FORMER {
        return Some(Header { length: BEGIN_BYTES, flushed: 0 });
    }
    let marks = bytes.get(BEGIN_BYTES..HEADER_BYTES).filter(|_| magic == MAGIC)?.chunks_exact(MARK_BYTES);
    let lengths = marks.filter_map(|mark| {
        let length = usize::try_from(u64::from_be_bytes(*mark.first_chunk()?)).ok()?;
        (encode_mark(zxid, length) == mark).then_some(length)
    });
    Some(Header { length: HEADER_BYTES, flushed: lengths.max()? })
}

fn scan_records(bytes: &Bytes, zxid: i64, begin: usize) -> Scan {
    let mut scan = Scan { records: Vec::new(), end: begin, torn_bytes: 0, ending: None };
    while let Some((payload, _)) = record_at(bytes, zxid, scan.end) {
        scan.ending = as_ending(&payload);
        if scan.ending.is_some() {
            return scan;
        }
        scan.end += record_bytes(&payload);
        scan.records.push(payload);
    }
    scan.torn_bytes = used(bytes).saturating_sub(scan.end);
    scan
}

/// Up to where there is anything but zeros.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// The record at an offset and how far the log was flushed when it was written, if there is a whole one.
fn record_at(bytes: &Bytes, zxid: i64, offset: usize) -> Option<(Bytes, usize)> {
    let header = bytes.get(offset..)?.first_chunk::<RECORD_HEADER_BYTES>()?;
    let length = u32::from_be_bytes(*header.first_chunk()?) as usize;
    if length == 0 || length > RECORD_BYTES_MAX {
        return None;
    }
    let start = offset + RECORD_HEADER_BYTES;
    let payload = bytes.get(start..start.checked_add(length)?)?;
    let flushed = *header.last_chunk::<8>()?;
    let expected = checksum(payload, zxid, offset, flushed).to_be_bytes();
    let flushed = usize::try_from(u64::from_be_bytes(flushed)).ok()?;
    (header[4..8] == expected).then(|| (bytes.slice(start..start + length), flushed))
}

/// Looks for records behind the end; returns how far the log was flushed when the last of them was written.
fn latest_flushed_behind(bytes: &Bytes, zxid: i64, end: usize) -> Option<usize> {
    let used = used(bytes);
    let mut latest = None;
    let mut offset = end + 1;
    while offset < used {
        match record_at(bytes, zxid, offset) {
            Some((payload, flushed)) => {
                latest = latest.max(Some(flushed));
                offset += record_bytes(&payload);
            }
            None => offset += 1,
        }
    }
    latest
}

fn checksum(payload: &[u8], zxid: i64, offset: usize, flushed: [u8; 8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&zxid.to_be_bytes());
    hasher.update(&(offset as u64).to_be_bytes());
    hasher.update(&flushed);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZXID: i64 = 77;

    /// A log of these records, each flushed before the next was written.
    fn log(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = encode_header(ZXID, HEADER_BYTES).to_vec();
        for payload in payloads {
            let offset = bytes.len();
            encode_record(&mut bytes, payload, ZXID, offset, offset);
        }
        bytes
    }

    fn scanned(bytes: Vec<u8>) -> Result<Scan, LogDamage> {
        scan(&bytes.into(), ZXID)
    }

    #[test]
    fn a_log_cut_anywhere_before_its_mark_is_reported_unless_it_was_ended() {
        let mut whole = log(&[b"one", b"two", b"three"]);
        whole.resize(whole.len() + 100, 0);
        let flushed = whole.len();
        whole[..HEADER_BYTES].copy_from_slice(&encode_header(ZXID, flushed));
        for length in HEADER_BYTES..flushed {
            assert_eq!(scanned(whole[..length].to_vec()), Err(LogDamage::Short { flushed }));
        }
        assert_eq!(scanned(whole.clone()).unwrap().records.len(), 3);
        let mut ended = log(&[b"one", &end_payload(9)]);
        ended[..HEADER_BYTES].copy_from_slice(&encode_header(ZXID, flushed));
        let whole_length = ended.len();
        for length in HEADER_BYTES..=whole_length {
            assert_eq!(scanned(ended[..length].to_vec()).is_ok(), length == whole_length, "{length}");
        }
    }

    #[test]
    fn one_torn_mark_leaves_the_other_and_without_both_there_is_no_header() {
        for number in 0..MARKS {
            let mut bytes = log(&[b"one"]);
            bytes[mark_offset(number)] ^= 1;
            assert_eq!(scanned(bytes.clone()).unwrap().records.len(), 1);
            bytes[mark_offset(number + 1)] ^= 1;
            assert_eq!(scanned(bytes), Err(LogDamage::Header));
        }
    }

    #[test]
    fn a_log_of_the_former_form_is_read_and_its_cuts_are_not_seen() {
        let mut bytes = [&MAGIC_FORMER[..], &ZXID.to_be_bytes()].concat();
        for payload in [&b"one"[..], b"end"] {
            let offset = bytes.len();
            encode_record(&mut bytes, payload, ZXID, offset, offset);
        }
        assert_eq!(scanned(bytes[..BEGIN_BYTES + 4].to_vec()).unwrap().torn_bytes, 4);
        let scan = scanned(bytes).unwrap();
        assert_eq!((scan.records.len(), scan.ending), (1, Some(LogEnd { next: None })));
    }

    #[test]
    fn a_hole_that_a_crash_left_in_what_was_not_flushed_is_cut_off() {
        let mut bytes = encode_header(ZXID, HEADER_BYTES).to_vec();
        let flushed = bytes.len();
        for payload in [&b"one"[..], b"two", b"three"] {
            let offset = bytes.len();
            encode_record(&mut bytes, payload, ZXID, offset, flushed);
        }
        // The second record's page never reached the disk.
        let second = HEADER_BYTES + record_bytes(b"one");
        bytes[second..second + record_bytes(b"two")].fill(0);
        let scan = scanned(bytes).unwrap();
        assert_eq!((scan.records.len(), scan.end), (1, second));
    }

    #[test]
    fn a_record_holds_at_its_own_place_alone() {
        let whole = log(&[b"one", b"two"]);
        let size = record_bytes(b"one");
        let mut swapped = whole[..HEADER_BYTES].to_vec();
        swapped.extend_from_slice(&whole[HEADER_BYTES + size..]);
        assert_eq!(scanned(swapped).unwrap().records.len(), 0);
        assert_eq!(scan(&whole.into(), ZXID + 1), Err(LogDamage::Header));
    }

    #[test]
    fn nothing_counts_behind_the_end_record() {
        let scan = scanned(log(&[b"one", &end_payload(9), b"two"])).unwrap();
        assert_eq!(scan.ending, Some(LogEnd { next: Some(9) }));
        assert_eq!(scan.records.len(), 1);
    }
}
