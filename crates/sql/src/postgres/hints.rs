//! Hints: the server's notifications of a session, by their text. Pure.

use lockkeeper_core::Ticket;

use crate::engine::Hint;

/// Reads the text of a notification. One that a later version sends, or another program, is `None`.
pub(super) fn read(text: &str) -> Option<Hint> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_read_and_what_is_unknown_is_passed_over() {
        let ticket = Ticket::from_bits(7);
        assert_eq!(read(&format!("d {ticket}")), Some(Hint::Departed(ticket)));
        let changed = Hint::Changed { name: "a lock".to_owned(), part: 2 };
        assert_eq!(read("c 2 a lock"), Some(changed));
        assert_eq!(read("a"), Some(Hint::Asked));
        for unknown in ["", "d", "d 7", "c", "c 2", "c x y", "later 1"] {
            assert_eq!(read(unknown), None, "{unknown}");
        }
    }
}
