//! A line of a history that a program writes: a grant, or its end, as JSON.

use lockkeeper_core::Mode;
use serde::{Deserialize, Serialize};

/// A line of a history: what happened to a holder, and when, by the clocks of its machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "its fields are the format")]
pub struct HistoryLine {
    /// The boot of the machine, so that times of one boot can be compared exactly.
    pub boot: String,
    /// The process, as no other has it.
    pub process: String,
    /// The time since the boot, that of suspensions included, in nanoseconds.
    pub at_ns: u64,
    /// The time of the wall clock since 1970, in milliseconds: to compare machines by, as well as their clocks agree.
    pub unix_ms: u64,
    /// The lock's name.
    pub lock: String,
    /// What happened.
    #[serde(flatten)]
    pub event: LineEvent,
}

/// What happened to a holder.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
#[non_exhaustive]
pub enum LineEvent {
    /// It was granted the lock.
    Granted {
        /// The name of the [`Mode`].
        mode: String,
        /// The grant's token, as text.
        token: String,
    },
    /// It is about to give the lock back.
    Released {
        /// The grant's token.
        token: String,
    },
    /// It was told that the hold is lost.
    Lost {
        /// The grant's token.
        token: String,
        /// Why, by the reason's name.
        reason: String,
        /// How long before this it could be believed last, in nanoseconds.
        late_ns: u64,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Unknown,
}

impl LineEvent {
    /// The line of a grant.
    pub fn granted(mode: Mode, token: impl ToString) -> Self {
        Self::Granted { mode: mode.as_str().to_owned(), token: token.to_string() }
    }
}

impl HistoryLine {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// It is no line of a history: torn, or another file's.
    pub fn read(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }

    /// Writes the line, without its end.
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_an_event_of_a_later_version_is_passed_over() {
        let line = HistoryLine {
            boot: "b".to_owned(),
            process: "web-3:4711:9f".to_owned(),
            at_ns: 6_808_043_324_846,
            unix_ms: 1_800_000_000_123,
            lock: "a \"quoted\"\nname".to_owned(),
            event: LineEvent::granted(Mode::Write, "7.1"),
        };
        let text = line.write();
        assert!(!text.contains('\n'), "{text}");
        assert_eq!(HistoryLine::read(&text).unwrap(), line);
        let later = text.replace("\"granted\"", "\"renewed\"");
        assert_eq!(HistoryLine::read(&later).unwrap().event, LineEvent::Unknown);
        assert!(HistoryLine::read(&text[..text.len() / 2]).is_err());
    }
}
