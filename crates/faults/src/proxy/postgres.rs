//! PostgreSQL's protocol, as far as the proxy needs it: where a message ends, and its type. A connection begins with
//! messages without one.

use super::frames::{Length, Operation};
use super::record::Direction;
use super::state::Shared;
use super::talk::{Meaning, Talk};

/// How long the fields before a message's body are: its type, and its length without the type.
const LENGTH_BYTES: usize = 4;
const TYPE_BYTES: usize = 1;

/// What a connection's first messages ask for, in place of a version: TLS, or encryption by GSSAPI.
const ENCRYPTED: [i32; 2] = [80_877_103, 80_877_104];

/// What the server answers to that if it agrees; the stream is not ours to read then.
const AGREED: [u8; 2] = [b'S', b'G'];

/// What it answers if it does not agree.
const DECLINED: u8 = b'N';

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct Postgres {
    /// The messages of the client have a type.
    has_begun: bool,
    /// The server's next byte says whether the connection is encrypted.
    is_asked_to_encrypt: bool,
    is_encrypted: bool,
}

impl Talk for Postgres {
    fn length(&self, direction: Direction, bytes: &[u8]) -> Length {
        match direction {
            _ if self.is_encrypted => Length::None,
            Direction::ToServer if !self.has_begun => length_after(0, bytes),
            Direction::ToClient if self.is_asked_to_encrypt => length_of_consent(bytes),
            _ => length_after(TYPE_BYTES, bytes),
        }
    }

    fn meaning(&mut self, direction: Direction, frame: &[u8], _: &Shared) -> Meaning {
        match direction {
            Direction::ToServer if !self.has_begun => {
                let code = frame.get(LENGTH_BYTES..).and_then(|rest| rest.first_chunk());
                self.is_asked_to_encrypt = code.is_some_and(|code| ENCRYPTED.contains(&i32::from_be_bytes(*code)));
                self.has_begun = !self.is_asked_to_encrypt;
                Meaning::of(Operation::CONNECT)
            }
            // An answer to the wish for encryption that is neither of these is a message.
            Direction::ToClient if self.is_asked_to_encrypt => {
                self.is_asked_to_encrypt = false;
                self.is_encrypted = frame.len() == 1 && AGREED.contains(&frame[0]);
                Meaning::of(Operation::CONNECT)
            }
            _ => Meaning::of(frame.first().map_or(Operation::UNMATCHED, |kind| Operation(i32::from(*kind)))),
        }
    }
}

/// The length of a message whose length field comes after this many bytes, and does not count them.
fn length_after(before: usize, bytes: &[u8]) -> Length {
    let Some(length) = bytes.get(before..).and_then(|rest| rest.first_chunk()).map(|bytes| i32::from_be_bytes(*bytes))
    else {
        return Length::Unknown;
    };
    let whole = usize::try_from(length).ok().filter(|length| *length >= LENGTH_BYTES);
    whole.map_or(Length::None, |length| Length::Frame(before + length))
}

/// The length of the answer to the wish for encryption: a byte, or a message that reports an error.
fn length_of_consent(bytes: &[u8]) -> Length {
    match bytes.first() {
        None => Length::Unknown,
        Some(answer) if *answer == DECLINED || AGREED.contains(answer) => Length::Frame(1),
        Some(_) => length_after(TYPE_BYTES, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Protocol;
    use super::*;

    #[test]
    fn the_stream_is_left_alone_once_the_server_agrees_to_encrypt_it() {
        let (mut talk, shared) = (Postgres::default(), Shared::new(([127, 0, 0, 1], 1).into(), Protocol::Postgres));
        let wish = [&8_i32.to_be_bytes()[..], &ENCRYPTED[0].to_be_bytes()].concat();
        assert_eq!(talk.length(Direction::ToServer, &wish), Length::Frame(wish.len()));
        talk.meaning(Direction::ToServer, &wish, &shared);
        assert_eq!(talk.length(Direction::ToClient, b"S\x16\x03"), Length::Frame(1));
        talk.meaning(Direction::ToClient, b"S", &shared);
        assert_eq!(talk.length(Direction::ToClient, b"\x16\x03"), Length::None);
        assert_eq!(talk.length(Direction::ToServer, b"\x16\x03\x01"), Length::None);
    }
}
