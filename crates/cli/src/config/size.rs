//! A number of bytes, with or without a unit, in a config file or an option.

use serde::{Deserialize, Deserializer};

use lockkeeper_console::config::text_or_number;

/// The units, and how many bytes each is; letters may be small or capital, and `iB` or `B` may be left out.
const UNITS: [(char, usize); 3] = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Size {
    pub(crate) bytes: usize,
}

impl Size {
    /// Reads `4096`, `64KiB`, `512M` or `2g`; all units are powers of 1,024.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let refusal = || format!("`{text}` is not a size, such as 64KiB, 512M, 2G or plain bytes");
        let digits_end = text.find(|mark: char| !mark.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let number: usize = digits.parse().map_err(|_| refusal())?;
        let unit = unit.trim_start().to_ascii_lowercase();
        let mut letters = unit.chars();
        let factor = match letters.next() {
            None => Some(1),
            Some('b') if letters.as_str().is_empty() => Some(1),
            Some(first) if matches!(letters.as_str(), "" | "b" | "ib") => {
                UNITS.iter().find(|(letter, _)| *letter == first).map(|(_, factor)| *factor)
            }
            Some(_) => None,
        };
        let bytes = factor.ok_or_else(refusal)?.checked_mul(number);
        bytes.map(|bytes| Self { bytes }).ok_or_else(|| format!("`{text}` is more than this machine can count"))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_number(deserializer, "a size, such as \"64KiB\", \"512M\" or a number of bytes", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_with_a_unit_or_plain_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("64KiB", 65_536),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("1 kb", 1_024),
            ("7B", 7),
        ] {
            assert_eq!(Size::parse(text), Ok(Size { bytes }), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_to_write() {
        for text in ["", "M", "1.5G", "-1", "10T", "10 MB/s", "1kib2", "ten"] {
            let refusal = Size::parse(text).expect_err(text);
            assert!(refusal.contains("such as 64KiB"), "{text}: {refusal}");
        }
        assert!(Size::parse("99999999999999999G").is_err(), "it does not fit");
    }
}
