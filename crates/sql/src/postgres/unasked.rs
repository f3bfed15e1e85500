//! Messages that a server sends unasked: notifications of a session, and its process, which is read out of the greeting
//! in passing. Pure.

use std::sync::{Arc, OnceLock};

use lockkeeper_core::Ticket;

use crate::engine::Hint;

/// Reads the text of a notification. One that a later version sends, or another program, is `None`.
pub(super) fn hint(text: &str) -> Option<Hint> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    match kind {
        "d" => Ticket::parse(rest).map(Hint::Departed),
        "c" => {
            let (part, name) = rest.split_once(' ')?;
            Some(Hint::Changed { name: name.to_owned(), part: part.parse().ok()? })
        }
        "a" => Some(Hint::Asked),
        _ => None,
    }
}

/// The bytes of a message before its content: its kind, and a length that counts itself.
const HEAD_BYTES: usize = 5;

/// Reads the messages of a greeting, up to the first time that the server waits for a request.
#[derive(Debug, Default)]
struct GreetingReader {
    /// The message that is being read: its head, and so much of its content as is looked at.
    message: Vec<u8>,
    /// How much of its content is still to be passed over.
    passed_over: usize,
    is_over: bool,
}

impl GreetingReader {
    /// Takes in what was read; returns the process if its message was in it.
    fn read(&mut self, bytes: &[u8]) -> Option<[u8; 4]> {
        const PROCESS: u8 = b'K';
        const READY: u8 = b'Z';
        let mut process = None;
        let mut rest = bytes;
        while !self.is_over && !rest.is_empty() {
            if self.passed_over > 0 {
                let passed_over = self.passed_over.min(rest.len());
                self.passed_over -= passed_over;
                rest = &rest[passed_over..];
                continue;
            }
            self.message.push(rest[0]);
            rest = &rest[1..];
            let Some((&[kind, a, b, c, d], content)) = self.message.split_first_chunk::<HEAD_BYTES>() else {
                continue;
            };
            let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
            let left = length.saturating_sub(HEAD_BYTES - 1);
            match (kind, content.first_chunk::<4>()) {
                (READY, _) => self.is_over = true,
                (PROCESS, None) if left >= 4 => continue,
                (PROCESS, Some(found)) => {
                    process = Some(*found);
                    self.passed_over = left - 4;
                }
                _ => self.passed_over = left,
            }
            self.message.clear();
        }
        process
    }
}

/// Keeps the process that the greeting names: that of the server, or what a pooler made up. A server that names none
/// has no cancel requests.
pub(super) fn process_reader(process: Arc<OnceLock<i32>>) -> impl FnMut(&[u8]) + Send {
    let mut greeting = GreetingReader::default();
    move |bytes| {
        if let Some(found) = greeting.read(bytes) {
            process.get_or_init(|| i32::from_be_bytes(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `AuthenticationOk`, a setting, the process 7 with its key, and that the server waits; then a row that looks
    /// like a process.
    const GREETING: &[u8] =
        b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0aK\0\0\0\x01\0K\0\0\0\x0c\0\0\0\x07\x01\x02\x03\x04Z\0\0\0\x05I\
          K\0\0\0\x0c\0\0\0\x09\0\0\0\0";

    #[test]
    fn the_process_is_read_in_passing_however_the_bytes_come() {
        for piece in [1, 2, 7, GREETING.len()] {
            let process = Arc::default();
            GREETING.chunks(piece).for_each(process_reader(Arc::clone(&process)));
            assert_eq!(process.get(), Some(&7), "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn no_process_is_read_out_of_garbage() {
        for garbage in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b"K\0\0\0\0", b"K\xff\xff\xff\xff", b""] {
            assert_eq!(GreetingReader::default().read(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn notifications_are_read_and_what_is_unknown_is_passed_over() {
        let ticket = Ticket::from_bits(7);
        assert_eq!(hint(&format!("d {ticket}")), Some(Hint::Departed(ticket)));
        let changed = Hint::Changed { name: "a lock".to_owned(), part: 2 };
        assert_eq!(hint("c 2 a lock"), Some(changed));
        assert_eq!(hint("a"), Some(Hint::Asked));
        for unknown in ["", "d", "d 7", "c", "c 2", "c x y", "later 1"] {
            assert_eq!(hint(unknown), None, "{unknown}");
        }
    }
}
