//! Where an answer of MySQL's ends: it is a list of results, each an acknowledgement, an error, or columns and rows.

use crate::proxy::mysql::FAILED;

/// The longest body of one packet.
const BODY_BYTES_MAX: usize = (1 << 24) - 1;

/// What a client can do, as its first packet tells: do without the packet between columns and rows.
const NO_PACKET_BETWEEN: u32 = 1 << 24;

/// How a server's packet begins.
pub(super) const ACKNOWLEDGED: u8 = 0x00;
const ENDED: u8 = 0xfe;

/// The bit of a server's status that says that another result follows.
const MORE_RESULTS: u16 = 1 << 3;

/// An answer, followed packet by packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// There is no packet between columns and rows.
    is_short: bool,
    place: Place,
}

/// Where in an answer the next packet stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    /// At the start of a result.
    #[default]
    Start,
    Columns,
    Rows,
}

impl Answer {
    /// One to a client that logged in with these abilities.
    pub(super) fn to(abilities: u32) -> Self {
        Self { is_short: abilities & NO_PACKET_BETWEEN != 0, place: Place::Start }
    }

    /// Takes in a packet's body; says whether the answer ends with it.
    pub(super) fn ends_with(&mut self, body: &[u8]) -> bool {
        let first = body.first().copied().unwrap_or_default();
        let has_ended = first == ENDED && body.len() < BODY_BYTES_MAX;
        match self.place {
            _ if first == FAILED => return true,
            Place::Start if first == ACKNOWLEDGED => return self.ended(status_after_counts(body)),
            Place::Start => self.place = if self.is_short { Place::Rows } else { Place::Columns },
            Place::Columns if has_ended => self.place = Place::Rows,
            // This end tells the status first, or after two counts like an acknowledgement.
            Place::Rows if has_ended && self.is_short => return self.ended(status_after_counts(body)),
            Place::Rows if has_ended => return self.ended(number(body, 3)),
            Place::Columns | Place::Rows => {}
        }
        false
    }

    fn ended(&mut self, status: u16) -> bool {
        self.place = Place::Start;
        status & MORE_RESULTS == 0
    }
}

/// The status in an acknowledgement, where it follows two counts of one to nine bytes.
fn status_after_counts(body: &[u8]) -> u16 {
    let after = |start: usize| {
        let more = match body.get(start) {
            Some(0xfc) => 2,
            Some(0xfd) => 3,
            Some(0xfe) => 8,
            _ => 0,
        };
        start + 1 + more
    };
    number(body, after(after(1)))
}

fn number(body: &[u8], start: usize) -> u16 {
    body.get(start..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An acknowledgement of 300 rows, with another result after it or not.
    const DONE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 2, 0, 0, 0];
    const DONE_AND_MORE: &[u8] = &[ACKNOWLEDGED, 0xfc, 44, 1, 0, 10, 0, 0, 0];

    /// A column and a row, which begins as an acknowledgement does, and the end of each, with another result after it.
    const COLUMN: &[u8] = b"\x03def";
    const ROW: &[u8] = &[ACKNOWLEDGED, 0];
    const END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0];
    const SHORT_END_AND_MORE: &[u8] = &[ENDED, 0, 0, 10, 0, 0, 0];

    #[test]
    fn an_answer_ends_with_its_last_result_or_with_an_error() {
        for (abilities, rows) in [
            (0, vec![&[1][..], COLUMN, END_AND_MORE, ROW, END_AND_MORE]),
            (NO_PACKET_BETWEEN, vec![&[1], COLUMN, ROW, SHORT_END_AND_MORE]),
        ] {
            let mut answer = Answer::to(abilities);
            for last in [&[FAILED, 0x14, 4][..], DONE] {
                assert!(!rows.iter().chain([&DONE_AND_MORE]).any(|packet| answer.ends_with(packet)));
                assert!(answer.ends_with(last));
            }
        }
    }
}
