//! The numbers the service appends to the names of sequential nodes.
//!
//! A number is a 32-bit signed counter of the parent, written with at least ten characters. It wraps to negative
//! numbers and starts anew with a new parent; code that orders by it must allow for both.

/// How many characters a sequence number takes; −1000000000 and below take one more.
pub const SEQUENCE_DIGITS: usize = 10;

/// Writes a sequence number as the service does.
pub fn format_sequence(sequence: i32) -> String {
    format!("{sequence:0width$}", width = SEQUENCE_DIGITS)
}

/// Reads what follows a known prefix as a sequence number; `None` if the service does not write numbers in that form.
///
/// The prefix has to be known: the minus sign of a negative number looks like the end of a prefix such as `lock-`.
pub fn parse_sequence(text: &str) -> Option<i32> {
    let sequence = text.parse::<i32>().ok()?;
    (format_sequence(sequence) == text).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_service_writes_them() {
        for (sequence, text) in [
            (0, "0000000000"),
            (42, "0000000042"),
            (i32::MAX, "2147483647"),
            (-5, "-000000005"),
            (-999_999_999, "-999999999"),
            (i32::MIN, "-2147483648"),
        ] {
            assert_eq!(format_sequence(sequence), text);
            assert_eq!(parse_sequence(text), Some(sequence));
        }
    }

    #[test]
    fn other_texts_are_not_sequence_numbers() {
        for text in
            ["", "1", "000000001", "00000000001", "+000000001", "2147483648", "000000000a", "-0000000005", " 000000001"]
        {
            assert_eq!(parse_sequence(text), None, "{text:?}");
        }
    }
}
