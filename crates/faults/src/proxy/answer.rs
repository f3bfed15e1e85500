//! Where an answer of MySQL's ends: it is a list of results, each an acknowledgement, an error, or columns and rows.
//!
//! `mysql` follows connections with it; so does the pooler of MariaDB's clients.

/// Before a packet's body: its length in three bytes, and its number within a command or an answer.
pub(crate) const LENGTH_BYTES: usize = 3;
pub(crate) const HEADER_BYTES: usize = 4;

/// The longest body of one packet.
const BODY_BYTES_MAX: usize = (1 << 24) - 1;

/// What a client can do, as its first packet tells: do without the packet between columns and rows.
pub(crate) const NO_PACKET_BETWEEN: u32 = 1 << 24;

/// How a server's packet begins.
pub(crate) const ACKNOWLEDGED: u8 = 0x00;
pub(crate) const ENDED: u8 = 0xfe;
pub(crate) const FAILED: u8 = 0xff;

/// The bit of a server's status that says that another result follows.
const MORE_RESULTS: u16 = 1 << 3;

/// An answer, followed packet by packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
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

/// What a packet of an answer says about the answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    GoesOn,
    Succeeded,
    Failed,
}

impl Answer {
    /// One to a client that logged in with these abilities.
    pub(crate) fn to(abilities: u32) -> Self {
        Self { is_short: abilities & NO_PACKET_BETWEEN != 0, place: Place::Start }
    }

    /// Takes in a packet's body.
    pub(crate) fn step(&mut self, body: &[u8]) -> Step {
        let first = body.first().copied().unwrap_or_default();
        let has_ended = first == ENDED && body.len() < BODY_BYTES_MAX;
        match self.place {
            _ if first == FAILED => return Step::Failed,
            Place::Start if first == ACKNOWLEDGED => return self.ended(status_after_counts(body)),
            Place::Start => self.place = if self.is_short { Place::Rows } else { Place::Columns },
            Place::Columns if has_ended => self.place = Place::Rows,
            // This end tells the status first, or after two counts like an acknowledgement.
            Place::Rows if has_ended && self.is_short => return self.ended(status_after_counts(body)),
            Place::Rows if has_ended => return self.ended(number(body, 3)),
            Place::Columns | Place::Rows => {}
        }
        Step::GoesOn
    }

    /// Begins anew, for the answer to another command.
    pub(crate) fn restart(&mut self) {
        self.place = Place::Start;
    }

    fn ended(&mut self, status: u16) -> Step {
        self.restart();
        if status & MORE_RESULTS != 0 { Step::GoesOn } else { Step::Succeeded }
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
