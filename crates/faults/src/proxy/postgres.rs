//! PostgreSQL's protocol, as far as the proxy needs it: where a message ends, which statement it asks for, and which
//! answer is whose.
//!
//! A connection begins with messages without a type. Then a request is all up to a `Sync` or a `Query`, and its answer
//! all up to the `ReadyForQuery`; requests may be sent before earlier ones are answered. Only at that end is it known
//! whether a statement took effect.

use std::collections::{HashMap, VecDeque};

use super::frames::{Length, Operation, Piece, Splitter};
use super::record::Direction;
use super::state::{Armed, Shared};
use super::talk::{Meaning, Talk, Verdict};

/// How long the fields before a message's body are: its type, and its length without the type.
const LENGTH_BYTES: usize = 4;
const TYPE_BYTES: usize = 1;

/// What a connection's first messages ask for, in place of a version: TLS, or encryption by GSSAPI.
const ENCRYPTED: [i32; 2] = [80_877_103, 80_877_104];

/// What the server answers to that if it agrees; the stream is not ours to read then.
const AGREED: [u8; 2] = [b'S', b'G'];

/// What it answers if it does not agree.
const DECLINED: u8 = b'N';

/// Types of a client's messages.
const BIND: u8 = b'B';
const FUNCTION_CALL: u8 = b'F';
const PARSE: u8 = b'P';
const QUERY: u8 = b'Q';
const SYNC: u8 = b'S';

/// Types of a server's messages.
const ERROR: u8 = b'E';
const READY: u8 = b'Z';

/// The field of an error that is its code.
const CODE_FIELD: u8 = b'C';

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct Postgres {
    splitters: [Splitter; 2],
    /// The messages of the client have a type.
    has_begun: bool,
    /// The server's next byte says whether the connection is encrypted.
    is_asked_to_encrypt: bool,
    is_encrypted: bool,
    /// Statements by their names; the unnamed one too.
    statements: HashMap<Vec<u8>, String>,
    /// What is asked for by the request that is under way from the client.
    armed: Option<Armed>,
    /// Requests that have no whole answer yet, and whether the answer is to be lost.
    open: VecDeque<Option<Armed>>,
    /// The answer that is under way from the server reports an error.
    has_failed: bool,
}

impl Talk for Postgres {
    fn add(&mut self, direction: Direction, bytes: &[u8]) {
        self.splitters[direction.index()].add(bytes);
    }

    fn next(&mut self, direction: Direction) -> Option<Piece> {
        let length = match direction {
            _ if self.is_encrypted => |_: &[u8]| Length::None,
            Direction::ToServer if !self.has_begun => |bytes: &[u8]| length_after(0, bytes),
            Direction::ToClient if self.is_asked_to_encrypt => length_of_consent,
            _ => |bytes: &[u8]| length_after(TYPE_BYTES, bytes),
        };
        self.splitters[direction.index()].next(length)
    }

    fn rest(&mut self, direction: Direction) -> Vec<u8> {
        self.splitters[direction.index()].rest()
    }

    fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning {
        match direction {
            Direction::ToServer if !self.has_begun => self.begin(frame),
            Direction::ToServer => self.request(frame, shared),
            Direction::ToClient if self.is_asked_to_encrypt => self.consent(frame),
            Direction::ToClient => self.reply(frame, shared),
        }
    }
}

impl Postgres {
    fn begin(&mut self, frame: &[u8]) -> Meaning {
        let code =
            frame.get(LENGTH_BYTES..).and_then(|rest| rest.first_chunk()).map(|bytes| i32::from_be_bytes(*bytes));
        if code.is_some_and(|code| ENCRYPTED.contains(&code)) {
            self.is_asked_to_encrypt = true;
        } else {
            self.has_begun = true;
            self.open.push_back(None);
        }
        Meaning::of(Operation::CONNECT)
    }

    /// Takes in the answer to the wish for encryption; one that is neither of these is a message.
    fn consent(&mut self, frame: &[u8]) -> Meaning {
        self.is_asked_to_encrypt = false;
        self.is_encrypted = frame.len() == 1 && AGREED.contains(&frame[0]);
        Meaning::of(Operation::CONNECT)
    }

    fn request(&mut self, frame: &[u8], shared: &Shared) -> Meaning {
        let Some((&kind, body)) = parts(frame) else { return Meaning::of(Operation::UNMATCHED) };
        let mut meaning = Meaning::of(Operation(kind.into()));
        match kind {
            PARSE => {
                let (name, rest) = word(body);
                self.statements.insert(name.to_vec(), text(word(rest).0));
            }
            BIND => {
                let (_portal, rest) = word(body);
                meaning.text = self.statements.get(word(rest).0).cloned().unwrap_or_default();
            }
            QUERY => meaning.text = text(word(body).0),
            _ => {}
        }
        if matches!(kind, BIND | QUERY) {
            let statement = &meaning.text;
            if let Some(armed) = shared.take_armed(|wanted| wanted.is_statement(statement)) {
                meaning.verdict = Verdict::Lose(armed);
                return meaning;
            }
            if self.armed.is_none() {
                self.armed = shared.take_armed(|wanted| wanted.is_reply_to(statement));
            }
        }
        if matches!(kind, QUERY | SYNC | FUNCTION_CALL) {
            self.open.push_back(self.armed.take());
        }
        meaning
    }

    fn reply(&mut self, frame: &[u8], shared: &Shared) -> Meaning {
        let Some((&kind, body)) = parts(frame) else { return Meaning::of(Operation::UNMATCHED) };
        let mut meaning = Meaning::of(Operation(kind.into()));
        if kind == ERROR {
            self.has_failed = true;
            meaning.text = code(body);
        }
        if kind != READY {
            if matches!(self.open.front(), Some(Some(_))) {
                meaning.verdict = Verdict::Keep;
            }
            return meaning;
        }
        let has_failed = std::mem::take(&mut self.has_failed);
        match self.open.pop_front().flatten() {
            Some(armed) if has_failed => shared.rearm(armed),
            Some(armed) => meaning.verdict = Verdict::Lose(armed),
            None => {}
        }
        meaning
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

/// The type of a message, and its body.
fn parts(frame: &[u8]) -> Option<(&u8, &[u8])> {
    Some((frame.first()?, frame.get(TYPE_BYTES + LENGTH_BYTES..)?))
}

/// The text up to the next zero, and what follows the zero.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The code of an error, which is a list of fields: a letter, and a text that ends with a zero.
fn code(mut fields: &[u8]) -> String {
    while let Some((&letter, rest)) = fields.split_first() {
        let (value, others) = word(rest);
        if letter == CODE_FIELD {
            return text(value);
        }
        fields = others;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::super::state::{AfterDrop, Protocol, Wanted};
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(LENGTH_BYTES + body.len()).expect("short").to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    fn shared() -> Shared {
        Shared::new(([127, 0, 0, 1], 1).into(), Protocol::Postgres)
    }

    /// A connection on which the client is to send its first typed message.
    fn begun(shared: &Shared) -> Postgres {
        let mut talk = Postgres::default();
        talk.meaning(Direction::ToServer, &[0, 0, 0, 9, 0, 3, 0, 0, 0], shared);
        talk.meaning(Direction::ToClient, &message(READY, b"I"), shared);
        talk
    }

    fn ask(talk: &mut Postgres, shared: &Shared, name: &[u8]) {
        for frame in [message(BIND, &[b"\0", name, b"\0"].concat()), message(SYNC, b"")] {
            talk.meaning(Direction::ToServer, &frame, shared);
        }
    }

    /// What becomes of the messages of an answer: passed, kept or lost.
    fn answered(talk: &mut Postgres, shared: &Shared, kinds: &[u8]) -> String {
        let verdict = |kind: &u8| match talk.meaning(Direction::ToClient, &message(*kind, b""), shared).verdict {
            Verdict::Pass => 'p',
            Verdict::Keep => 'k',
            Verdict::Lose(_) => 'l',
        };
        kinds.iter().map(verdict).collect()
    }

    #[test]
    fn the_stream_is_left_alone_once_the_server_agrees_to_encrypt_it() {
        let (mut talk, shared) = (Postgres::default(), shared());
        let wish = [&8_i32.to_be_bytes()[..], &ENCRYPTED[0].to_be_bytes()].concat();
        talk.add(Direction::ToServer, &wish);
        assert_eq!(talk.next(Direction::ToServer), Some(Piece::Frame(wish.clone())));
        talk.meaning(Direction::ToServer, &wish, &shared);
        talk.add(Direction::ToClient, b"S\x16\x03");
        assert_eq!(talk.next(Direction::ToClient), Some(Piece::Frame(b"S".to_vec())));
        talk.meaning(Direction::ToClient, b"S", &shared);
        assert_eq!(talk.next(Direction::ToClient), Some(Piece::Raw(b"\x16\x03".to_vec())));
        talk.add(Direction::ToServer, b"\x16\x03\x01");
        assert_eq!(talk.next(Direction::ToServer), Some(Piece::Raw(b"\x16\x03\x01".to_vec())));
    }

    #[test]
    fn only_the_answer_of_the_wanted_statement_is_lost_and_only_if_it_took_effect() {
        let shared = shared();
        let mut talk = begun(&shared);
        let _dropped = shared.arm(Wanted::ReplyTo("join".to_owned()), AfterDrop::Close);
        for (name, statement) in [("a", "SELECT join_v1()"), ("b", "SELECT look()")] {
            let parse = message(PARSE, format!("{name}\0{statement}\0").as_bytes());
            talk.meaning(Direction::ToServer, &parse, &shared);
        }
        // Sent before any is answered; the first fails, so that the next of its kind is wanted.
        ask(&mut talk, &shared, b"a");
        ask(&mut talk, &shared, b"b");
        assert_eq!(answered(&mut talk, &shared, b"2EZ"), "kkp");
        ask(&mut talk, &shared, b"a");
        assert_eq!(answered(&mut talk, &shared, b"2CZ"), "ppp");
        assert_eq!(answered(&mut talk, &shared, b"2CZ"), "kkl");
    }

    #[test]
    fn a_statement_is_lost_before_the_server_hears_of_it() {
        let shared = shared();
        let mut talk = begun(&shared);
        let _dropped = shared.arm(Wanted::Statement("leave".to_owned()), AfterDrop::Close);
        let lost = ["SELECT look()\0", "SELECT leave_v1()\0"].map(|statement| {
            let meaning = talk.meaning(Direction::ToServer, &message(QUERY, statement.as_bytes()), &shared);
            matches!(meaning.verdict, Verdict::Lose(_))
        });
        assert_eq!(lost, [false, true]);
    }

    #[test]
    fn an_error_is_told_by_its_code() {
        let shared = shared();
        let error = message(ERROR, b"SERROR\0C42501\0Mno\0\0");
        assert_eq!(begun(&shared).meaning(Direction::ToClient, &error, &shared).text, "42501");
        assert_eq!(code(b"Mno"), "");
    }
}
