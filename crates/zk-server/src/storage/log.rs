//! The form of a log: records one after the other, each with a checksum that holds at its place in its file alone.
//!
//! A record says how far the log was flushed when it was written. So two kinds of holes can be told apart: one that a
//! crash left, behind which nothing was acknowledged, and one in what had been flushed.

use bytes::Bytes;

/// Begins each log; the last character is the version of the form.
const MAGIC: &[u8; 8] = b"LKZKLOG1";
/// The magic, and the transaction the log begins after.
pub(super) const HEADER_BYTES: usize = 16;
/// Length, checksum, and how far the log was flushed.
const RECORD_HEADER_BYTES: usize = 16;
/// The longest record that is accepted, in bytes: the end of a session with a million nodes fits.
const RECORD_BYTES_MAX: usize = 1 << 30;
/// The record that ends a log after which another begins.
const END: &[u8] = b"end";

/// What a log was found to hold.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Scan {
    /// The records, in order.
    pub(super) records: Vec<Bytes>,
    /// Where the last of them ends; what lies behind was never acknowledged.
    pub(super) end: usize,
    /// Whether the log was ended because another begins.
    pub(super) is_ended: bool,
}

/// Says where a log is damaged within what had been flushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LogDamage {
    /// The header is not that of the log that begins after this transaction.
    Header,
    /// There is no record at this offset, but there are later ones that were written when it had been flushed.
    Hole { offset: usize },
}

/// The header of the log that begins after the transaction `zxid`.
pub(super) fn encode_header(zxid: i64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..].copy_from_slice(&zxid.to_be_bytes());
    header
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

/// How many bytes a record takes.
pub(super) const fn record_bytes(payload: &[u8]) -> usize {
    RECORD_HEADER_BYTES + payload.len()
}

/// The payload of the record that ends a log.
pub(super) const fn end_payload() -> &'static [u8] {
    END
}

/// Reads a log up to where it ends.
///
/// # Errors
///
/// Fails if something is missing that had been flushed.
pub(super) fn scan(bytes: &Bytes, zxid: i64) -> Result<Scan, LogDamage> {
    if bytes.len() < HEADER_BYTES || bytes[..HEADER_BYTES] != encode_header(zxid) {
        return Err(LogDamage::Header);
    }
    let mut scan = Scan { records: Vec::new(), end: HEADER_BYTES, is_ended: false };
    while let Some((payload, _)) = record_at(bytes, zxid, scan.end) {
        scan.end += record_bytes(&payload);
        if payload == END {
            scan.is_ended = true;
            return Ok(scan);
        }
        scan.records.push(payload);
    }
    match latest_flushed_behind(bytes, zxid, scan.end) {
        Some(flushed) if flushed > scan.end => Err(LogDamage::Hole { offset: scan.end }),
        _ => Ok(scan),
    }
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
    let used = bytes.iter().rposition(|byte| *byte != 0)? + 1;
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
    use proptest::prelude::*;

    use super::*;

    const ZXID: i64 = 77;

    /// A log of these records, each flushed before the next was written.
    fn log(payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = encode_header(ZXID).to_vec();
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
    fn a_log_cut_anywhere_gives_the_records_that_are_whole() {
        let whole = log(&[b"one", b"two", b"three"]);
        let mut counts = Vec::new();
        for length in HEADER_BYTES..=whole.len() {
            for zeros in [0, 100] {
                let mut bytes = whole[..length].to_vec();
                bytes.resize(length + zeros, 0);
                let scan = scanned(bytes).unwrap();
                assert!(scan.end <= length);
                counts.push(scan.records.len());
            }
        }
        assert!(counts.is_sorted());
        assert_eq!((counts[0], counts[counts.len() - 1]), (0, 3));
        assert_eq!(scanned(whole[..HEADER_BYTES - 1].to_vec()), Err(LogDamage::Header));
    }

    #[test]
    fn a_flipped_bit_gives_a_prefix_or_is_reported_but_never_another_record() {
        let payloads: [&[u8]; 3] = [b"one", b"two", b"three"];
        let whole = log(&payloads);
        for at in HEADER_BYTES..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                match scanned(bytes) {
                    Ok(scan) => {
                        assert_eq!(
                            scan.records,
                            payloads[..2],
                            "a flip in the last record alone can pass for a torn one"
                        );
                        assert!(at >= scan.end);
                    }
                    Err(damage) => assert!(matches!(damage, LogDamage::Hole { offset } if offset <= at)),
                }
            }
        }
    }

    #[test]
    fn a_hole_that_a_crash_left_in_what_was_not_flushed_is_cut_off() {
        let mut bytes = encode_header(ZXID).to_vec();
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
        let scan = scanned(log(&[b"one", END, b"two"])).unwrap();
        assert!(scan.is_ended);
        assert_eq!(scan.records.len(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_behind_a_header_are_read_or_refused_without_panic(
            bytes in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..400),
        ) {
            let all = [&encode_header(ZXID)[..], &bytes].concat();
            if let Ok(scan) = scanned(all.clone()) {
                prop_assert!(scan.end <= all.len());
            }
        }
    }
}
