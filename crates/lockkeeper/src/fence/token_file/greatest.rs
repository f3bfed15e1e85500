//! The content of a file of tokens: a line for each lock, with the greatest token seen of it.
//!
//! ```text
//! nightly-backup 1784.2
//! ```
//!
//! A line is the value of the header `Lockkeeper-Token`. One without a name is for tokens that came without one.

use std::collections::BTreeMap;
use std::fmt;

use crate::fence::TokenHeader;
use crate::{FencingToken, QueueName};

/// How many locks one file can have tokens of: many more than one resource has, and few enough to be read each time.
const LOCKS_MAX: usize = 1_000;

/// The largest file that is read, in bytes: a line has at most 232.
pub(in crate::fence) const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Which lock a token is of: its encoded name, if the caller knows it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::fence) struct TokenKey(Option<String>);

impl TokenKey {
    pub(in crate::fence) fn new(name: Option<&QueueName>) -> Self {
        Self(name.map(QueueName::encoded))
    }
}

/// The greatest token seen of each lock.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(in crate::fence) struct Greatest(BTreeMap<TokenKey, FencingToken>);

/// What becomes of a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::fence) enum TokenVerdict {
    /// It is the greatest seen so far, and was seen before.
    Seen,
    /// It is greater than all before; the file is to be replaced.
    Raised,
    /// This one is greater.
    Stale(FencingToken),
    /// The file has too many locks for another one.
    Full,
}

impl Greatest {
    /// Reads a file; `None` if a line is not one of ours, or there are more than a file can have.
    pub(in crate::fence) fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && !text.ends_with('\n') {
            return None;
        }
        let mut greatest = BTreeMap::new();
        for line in text.lines() {
            let (key, token) = if line.contains(' ') {
                let line: TokenHeader = line.parse().ok()?;
                (TokenKey(Some(line.encoded_name().to_owned())), line.token())
            } else {
                (TokenKey(None), line.parse().ok()?)
            };
            if greatest.insert(key, token).is_some() || greatest.len() > LOCKS_MAX {
                return None;
            }
        }
        Some(Self(greatest))
    }

    /// Compares a token with the greatest, and takes it if it is greater.
    pub(in crate::fence) fn see(&mut self, key: &TokenKey, token: FencingToken) -> TokenVerdict {
        match self.0.get(key) {
            Some(&greatest) if token < greatest => TokenVerdict::Stale(greatest),
            Some(&greatest) if token == greatest => TokenVerdict::Seen,
            None if self.0.len() >= LOCKS_MAX => TokenVerdict::Full,
            _ => {
                self.0.insert(key.clone(), token);
                TokenVerdict::Raised
            }
        }
    }
}

impl fmt::Display for Greatest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (TokenKey(name), token) in &self.0 {
            match name {
                Some(name) => writeln!(formatter, "{name} {token}")?,
                None => writeln!(formatter, "{token}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> TokenKey {
        TokenKey::new(Some(&QueueName::new(name).unwrap()))
    }

    fn token(text: &str) -> FencingToken {
        text.parse().unwrap()
    }

    #[test]
    fn a_smaller_token_is_stale_an_equal_one_passes_and_a_greater_one_is_remembered() {
        let mut greatest = Greatest::default();
        assert_eq!(greatest.see(&key("x"), token("41.3")), TokenVerdict::Raised);
        assert_eq!(greatest.see(&key("x"), token("41.3")), TokenVerdict::Seen);
        assert_eq!(greatest.see(&key("x"), token("41.2")), TokenVerdict::Stale(token("41.3")));
        assert_eq!(greatest.see(&key("x"), token("40.9")), TokenVerdict::Stale(token("41.3")));
        assert_eq!(greatest.see(&key("x"), token("42")), TokenVerdict::Raised);
        assert_eq!(greatest.see(&key("x"), token("41.4")), TokenVerdict::Stale(token("42")));
    }

    #[test]
    fn locks_do_not_disturb_one_another_nor_a_token_without_a_lock() {
        let mut greatest = Greatest::default();
        for key in [key("x"), key("a b"), TokenKey::new(None), key("-")] {
            assert_eq!(greatest.see(&key, token("7")), TokenVerdict::Raised);
            assert_eq!(greatest.see(&key, token("6")), TokenVerdict::Stale(token("7")));
            let text = greatest.to_string();
            assert_eq!(Greatest::parse(&text), Some(greatest.clone()), "{text}");
        }
        assert_eq!(greatest.to_string(), "7\n- 7\na%20b 7\nx 7\n");
    }

    #[test]
    fn what_is_not_such_a_file_is_not_read() {
        assert_eq!(Greatest::parse(""), Some(Greatest::default()));
        for wrong in ["x 7", "x 7\nx 8\n", "7\n8\n", "x -1\n", "a/b 7\n", "\n", "x 7\n\n", "#!/bin/sh\n", "x 7\r\n\0"] {
            assert_eq!(Greatest::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_file_has_tokens_of_so_many_locks_and_no_more() {
        let mut greatest = Greatest::default();
        for number in 0..LOCKS_MAX {
            let name = format!("{number:0>200}");
            assert_eq!(greatest.see(&key(&name), token("9223372036854775807.4294967295")), TokenVerdict::Raised);
        }
        assert_eq!(greatest.see(&key("another"), token("1")), TokenVerdict::Full);
        assert_eq!(
            greatest.see(&key(&format!("{:0>200}", 1)), token("1")),
            TokenVerdict::Stale(token("9223372036854775807.4294967295"))
        );
        let text = greatest.to_string();
        assert!(text.len() as u64 <= FILE_BYTES_MAX, "{}", text.len());
        assert_eq!(Greatest::parse(&text), Some(greatest));
        assert_eq!(Greatest::parse(&format!("{text}another 1\n")), None);
    }
}
