//! Bytes and numbers as hexadecimal digits, in small letters: so each service has them where it stores texts alone.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes bytes, with two digits each.
#[must_use]
pub fn to_hexadecimal(bytes: &[u8]) -> String {
    let of_byte = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]].map(char::from);
    bytes.iter().flat_map(of_byte).collect()
}

/// Reads bytes; `None` if the text is none of pairs of digits.
#[must_use]
pub fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks_exact(2).map(pair).collect()).flatten()
}

/// Reads a number of this many digits, written as we write it.
#[must_use]
pub fn hexadecimal_number(text: &str, digits: usize) -> Option<u64> {
    let is_ours = text.len() == digits && text.bytes().all(|byte| DIGITS.contains(&byte));
    u64::from_str_radix(text, 16).ok().filter(|_| is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_other_texts_are_refused() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(from_hexadecimal(&to_hexadecimal(&bytes)), Some(bytes));
        assert_eq!(to_hexadecimal(&[0, 0xaf]), "00af");
        assert_eq!(from_hexadecimal(""), Some(Vec::new()));
        for text in ["0", "0g", "000", "ä"] {
            assert_eq!(from_hexadecimal(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_has_as_many_digits_as_it_must_and_no_great_letters() {
        assert_eq!(hexadecimal_number("00ff", 4), Some(255));
        for text in ["ff", "00FF", "+0ff", "00fg", "000ff"] {
            assert_eq!(hexadecimal_number(text, 4), None, "{text}");
        }
    }
}
