//! The protocol of MySQL and MariaDB, as far as the proxy needs it: where a packet ends, and which command it is.

use super::frames::{Length, Operation};
use super::record::Direction;
use super::state::Shared;
use super::talk::{Meaning, Talk};

/// Before a packet's body: its length in three bytes, and its number within a command or an answer.
pub(crate) const LENGTH_BYTES: usize = 3;
pub(crate) const HEADER_BYTES: usize = 4;

/// How an error of the server begins.
pub(crate) const FAILED: u8 = 0xff;

/// What a client can do, as its first packet tells: speak TLS, which begins after a packet of this length.
const TLS: u32 = 1 << 11;
const TLS_BYTES: usize = 32;

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct MySql {
    has_begun: bool,
    is_encrypted: bool,
}

impl Talk for MySql {
    fn length(&self, _: Direction, bytes: &[u8]) -> Length {
        if self.is_encrypted { Length::None } else { length(bytes) }
    }

    fn meaning(&mut self, direction: Direction, frame: &[u8], _: &Shared) -> Meaning {
        let (number, body) = (frame.get(LENGTH_BYTES).copied(), frame.get(HEADER_BYTES..).unwrap_or_default());
        let first = body.first().map_or(Operation::UNMATCHED, |first| Operation(i32::from(*first)));
        match direction {
            Direction::ToServer if !self.has_begun => {
                let abilities = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                self.is_encrypted = abilities & TLS != 0 && body.len() == TLS_BYTES;
                self.has_begun = true;
                Meaning::of(Operation::CONNECT)
            }
            Direction::ToServer if number == Some(0) => Meaning::of(first),
            Direction::ToServer => Meaning::of(Operation::CONNECT),
            Direction::ToClient => {
                let rest = body.strip_prefix(&[FAILED]).and_then(|rest| rest.first_chunk());
                Meaning { error: rest.map(|code| u16::from_le_bytes(*code).into()), ..Meaning::of(first) }
            }
        }
    }
}

/// The length of the first packet.
pub(crate) fn length(bytes: &[u8]) -> Length {
    match bytes {
        [low, middle, high, _, ..] => {
            Length::Frame(HEADER_BYTES + usize::from(*low) + (usize::from(*middle) << 8) + (usize::from(*high) << 16))
        }
        _ => Length::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Protocol;
    use super::*;

    #[test]
    fn the_stream_is_left_alone_once_the_client_begins_tls() {
        let (mut talk, shared) = (MySql::default(), Shared::new(([127, 0, 0, 1], 1).into(), Protocol::MySql));
        let mut wish = [&[u8::try_from(TLS_BYTES).expect("short"), 0, 0, 1][..], &TLS.to_le_bytes()].concat();
        wish.resize(HEADER_BYTES + TLS_BYTES, 0);
        assert_eq!(talk.length(Direction::ToServer, &wish), Length::Frame(wish.len()));
        talk.meaning(Direction::ToServer, &wish, &shared);
        assert_eq!(talk.length(Direction::ToClient, b"\x16\x03\x01\x00\x01"), Length::None);
    }
}
