//! The protocol of MySQL and MariaDB, as far as the proxy needs it: where a packet ends, and which statement it asks
//! for. Where an answer ends is in `answer`.
//!
//! A client sends a command when it has the whole answer to the one before; only the answer's end says whether a
//! statement took effect.

use std::collections::HashMap;

use super::answer::{ACKNOWLEDGED, Answer, FAILED, HEADER_BYTES, LENGTH_BYTES, Step};
use super::frames::{Length, Operation, Piece, Splitter};
use super::record::Direction;
use super::state::{Armed, Shared};
use super::talk::{Meaning, Talk, Verdict};

/// What a client can do, as its first packet tells: speak TLS, which begins after a packet of this length.
const TLS: u32 = 1 << 11;
const TLS_BYTES: usize = 32;

/// Commands.
const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const EXECUTE_MANY: u8 = 0xfa;

/// In place of a statement's number: the one that was prepared last.
const LAST_PREPARED: u32 = u32::MAX;

/// The state of one connection.
#[derive(Debug, Default)]
pub(super) struct MySql {
    splitters: [Splitter; 2],
    has_begun: bool,
    is_encrypted: bool,
    /// Prepared statements by their numbers, and the one that is being prepared.
    statements: HashMap<u32, String>,
    preparing: Option<String>,
    last_prepared: u32,
    /// Set while an answer comes that is to be lost.
    armed: Option<Armed>,
    answer: Answer,
}

impl Talk for MySql {
    fn add(&mut self, direction: Direction, bytes: &[u8]) {
        self.splitters[direction.index()].add(bytes);
    }

    fn next(&mut self, direction: Direction) -> Option<Piece> {
        let length = if self.is_encrypted { |_: &[u8]| Length::None } else { length };
        self.splitters[direction.index()].next(length)
    }

    fn rest(&mut self, direction: Direction) -> Vec<u8> {
        self.splitters[direction.index()].rest()
    }

    fn meaning(&mut self, direction: Direction, frame: &[u8], shared: &Shared) -> Meaning {
        let (number, body) = (frame.get(LENGTH_BYTES).copied(), frame.get(HEADER_BYTES..).unwrap_or_default());
        match direction {
            Direction::ToServer if !self.has_begun => self.begin(body),
            Direction::ToServer if number == Some(0) => self.command(body, shared),
            Direction::ToServer => Meaning::of(Operation::CONNECT),
            Direction::ToClient => self.reply(body, shared),
        }
    }
}

impl MySql {
    fn begin(&mut self, body: &[u8]) -> Meaning {
        let abilities = body.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        self.answer = Answer::to(abilities);
        self.is_encrypted = abilities & TLS != 0 && body.len() == TLS_BYTES;
        self.has_begun = true;
        Meaning::of(Operation::CONNECT)
    }

    fn command(&mut self, body: &[u8], shared: &Shared) -> Meaning {
        let Some((&command, rest)) = body.split_first() else { return Meaning::of(Operation::UNMATCHED) };
        let mut meaning = Meaning::of(Operation(command.into()));
        (self.armed, self.preparing) = (None, None);
        self.answer.restart();
        match command {
            QUERY => meaning.text = String::from_utf8_lossy(rest).into_owned(),
            EXECUTE | EXECUTE_MANY => {
                let number = rest.first_chunk().map_or(LAST_PREPARED, |bytes| u32::from_le_bytes(*bytes));
                let number = if number == LAST_PREPARED { self.last_prepared } else { number };
                meaning.text = self.statements.get(&number).cloned().unwrap_or_default();
            }
            PREPARE => self.preparing = Some(String::from_utf8_lossy(rest).into_owned()),
            _ => {}
        }
        if matches!(command, QUERY | EXECUTE | EXECUTE_MANY) {
            let statement = &meaning.text;
            match shared.take_armed(|wanted| wanted.is_statement(statement)) {
                Some(armed) => meaning.verdict = Verdict::Lose(armed),
                None => self.armed = shared.take_armed(|wanted| wanted.is_reply_to(statement)),
            }
        }
        meaning
    }

    fn reply(&mut self, body: &[u8], shared: &Shared) -> Meaning {
        let mut meaning = Meaning::of(Operation(i32::from(body.first().copied().unwrap_or_default())));
        if body.first() == Some(&FAILED) {
            meaning.error =
                body.get(1..).and_then(|rest| rest.first_chunk()).map(|code| u16::from_le_bytes(*code).into());
        }
        if let Some(statement) = self.preparing.take()
            && let Some(number) = body.strip_prefix(&[ACKNOWLEDGED]).and_then(|rest| rest.first_chunk())
        {
            self.last_prepared = u32::from_le_bytes(*number);
            self.statements.insert(self.last_prepared, statement);
        }
        if let Some(armed) = self.armed.take() {
            match self.answer.step(body) {
                Step::GoesOn => (meaning.verdict, self.armed) = (Verdict::Keep, Some(armed)),
                Step::Succeeded => meaning.verdict = Verdict::Lose(armed),
                Step::Failed => shared.rearm(armed),
            }
        }
        meaning
    }
}

fn length(bytes: &[u8]) -> Length {
    match bytes {
        [low, middle, high, _, ..] => {
            Length::Frame(HEADER_BYTES + usize::from(*low) + (usize::from(*middle) << 8) + (usize::from(*high) << 16))
        }
        _ => Length::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{ENDED, NO_PACKET_BETWEEN};
    use super::super::state::{AfterDrop, Protocol, Wanted};
    use super::*;

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        [&length[..LENGTH_BYTES], &[number], body].concat()
    }

    fn begun(abilities: u32) -> (MySql, Shared) {
        let (mut talk, shared) = (MySql::default(), Shared::new(([127, 0, 0, 1], 1).into(), Protocol::MySql));
        talk.meaning(Direction::ToServer, &packet(1, &abilities.to_le_bytes()), &shared);
        (talk, shared)
    }

    fn ask(talk: &mut MySql, shared: &Shared, command: u8, rest: &[u8]) -> Meaning {
        talk.meaning(Direction::ToServer, &packet(0, &[&[command], rest].concat()), shared)
    }

    /// What becomes of the packets of an answer: passed, kept or lost.
    fn answered(talk: &mut MySql, shared: &Shared, packets: &[&[u8]]) -> String {
        let verdict = |body: &&[u8]| match talk.meaning(Direction::ToClient, &packet(1, body), shared).verdict {
            Verdict::Pass => 'p',
            Verdict::Keep => 'k',
            Verdict::Lose(_) => 'l',
        };
        packets.iter().map(verdict).collect()
    }

    /// An acknowledgement of 300 rows, with another result after it or not.
    const DONE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 2, 0, 0, 0];
    const DONE_AND_MORE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 10, 0, 0, 0];
    const NOT_DONE: &[u8] = &[FAILED, 0x14, 4];

    /// A column and a row, which begins as an acknowledgement does, and the end of each, with another result after it.
    const COLUMN: &[u8] = b"\x03def";
    const ROW: &[u8] = &[ACKNOWLEDGED, 0];
    const END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0];
    const SHORT_END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0, 0, 0];

    #[test]
    fn only_the_answer_of_the_wanted_statement_is_lost_and_only_if_it_took_effect() {
        for (abilities, rows) in [
            (0, vec![&[1][..], COLUMN, END_AND_MORE, ROW, END_AND_MORE]),
            (NO_PACKET_BETWEEN, vec![&[1], COLUMN, ROW, SHORT_END_AND_MORE]),
        ] {
            let (mut talk, shared) = begun(abilities);
            let _dropped = shared.arm(Wanted::ReplyTo("join".to_owned()), AfterDrop::Close);
            ask(&mut talk, &shared, QUERY, b"SELECT 1");
            assert_eq!(answered(&mut talk, &shared, &[DONE]), "p");
            ask(&mut talk, &shared, QUERY, b"CALL join_v1()");
            let failing = [rows.clone(), vec![NOT_DONE]].concat();
            assert_eq!(answered(&mut talk, &shared, &failing), "k".repeat(rows.len()) + "p");
            ask(&mut talk, &shared, QUERY, b"CALL join_v1()");
            let succeeding = [rows.clone(), vec![DONE_AND_MORE, DONE]].concat();
            assert_eq!(answered(&mut talk, &shared, &succeeding), "k".repeat(rows.len() + 1) + "l");
            ask(&mut talk, &shared, QUERY, b"CALL join_v1()");
            assert_eq!(answered(&mut talk, &shared, &[DONE]), "p");
        }
    }

    #[test]
    fn a_prepared_statement_counts_when_it_is_executed() {
        let (mut talk, shared) = begun(0);
        let _dropped = shared.arm(Wanted::Statement("leave".to_owned()), AfterDrop::Close);
        let is_lost = |meaning: &Meaning| matches!(meaning.verdict, Verdict::Lose(_));
        assert!(!is_lost(&ask(&mut talk, &shared, PREPARE, b"CALL leave_v1(?)")));
        assert_eq!(answered(&mut talk, &shared, &[&[ACKNOWLEDGED, 7, 0, 0, 0, 0, 0, 1, 0]]), "p");
        assert!(!is_lost(&ask(&mut talk, &shared, EXECUTE, &8_u32.to_le_bytes())));
        assert!(is_lost(&ask(&mut talk, &shared, EXECUTE, &7_u32.to_le_bytes())));
    }

    #[test]
    fn the_stream_is_left_alone_once_the_client_begins_tls() {
        let (mut talk, shared) = (MySql::default(), Shared::new(([127, 0, 0, 1], 1).into(), Protocol::MySql));
        let mut wish = TLS.to_le_bytes().to_vec();
        wish.resize(TLS_BYTES, 0);
        talk.meaning(Direction::ToServer, &packet(1, &wish), &shared);
        talk.add(Direction::ToClient, b"\x16\x03");
        assert_eq!(talk.next(Direction::ToClient), Some(Piece::Raw(b"\x16\x03".to_vec())));
    }
}
