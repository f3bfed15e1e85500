//! The header that carries a token to a resource behind HTTP: `Lockkeeper-Token: NAME GRANT[.TURN]`.
//!
//! Pure: from a text to a name and a token, and back. What a server does with them is decided elsewhere.

use std::fmt;
use std::str::FromStr;

use crate::{FencingToken, Hold, QueueName};

/// The header's name, in the lower case that HTTP/2 asks for; HTTP/1 reads it in any case.
pub const TOKEN_HEADER: &str = "lockkeeper-token";

/// The longest value, in bytes: an encoded name, a blank, and a token with its turn.
const VALUE_BYTES_MAX: usize = 200 + 1 + 19 + 1 + 10;

/// The value of the header [`TOKEN_HEADER`]: a lock's name and the token of a grant of it.
///
/// It is shown as `NAME GRANT`, or `NAME GRANT.TURN` after a hand-off within a process. The name stands in its
/// [encoded form](QueueName::encoded), which has no blanks and is ASCII.
///
/// ```
/// use lockkeeper::fence::{TOKEN_HEADER, TokenHeader};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = lockkeeper::connect("memory:")?.mutex("reports/nightly")?.lock().await?;
/// let sent = TokenHeader::from(guard.hold()).to_string();
/// println!("{TOKEN_HEADER}: {sent}");
/// let read: TokenHeader = sent.parse()?;
/// assert!(read.is_of(&"reports/nightly".parse()?));
/// assert_eq!(read.token(), guard.fencing_token());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TokenHeader {
    encoded_name: String,
    token: FencingToken,
}

impl TokenHeader {
    /// Puts a lock's name and a token together.
    pub fn new(name: &QueueName, token: FencingToken) -> Self {
        Self { encoded_name: name.encoded(), token }
    }

    /// Returns the token.
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the lock's name in its [encoded form](QueueName::encoded): at most 200 bytes of
    /// `A–Z a–z 0–9 - _ . ~ %`.
    pub fn encoded_name(&self) -> &str {
        &self.encoded_name
    }

    /// Tells whether the token is one of this lock.
    pub fn is_of(&self, name: &QueueName) -> bool {
        name.encoded() == self.encoded_name
    }
}

impl From<&Hold> for TokenHeader {
    fn from(hold: &Hold) -> Self {
        Self::new(hold.name(), hold.fencing_token())
    }
}

impl fmt::Display for TokenHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.encoded_name, self.token)
    }
}

/// Why a text is not a [`TokenHeader`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ParseHeaderError {
    /// It is not two words with one blank between them, or it is too long.
    NotTwoWords,
    /// The first word is not the encoded name of a lock.
    BadName,
    /// The second word is not a token: a whole number from 0 to 2^63 − 1, or two joined by a dot.
    BadToken,
}

impl fmt::Display for ParseHeaderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotTwoWords => "it is not `NAME GRANT` or `NAME GRANT.TURN`",
            Self::BadName => "the name is not the percent-encoded name of a lock",
            Self::BadToken => "a token is a whole number up to 9223372036854775807, or two joined by a dot",
        })
    }
}

impl std::error::Error for ParseHeaderError {}

impl FromStr for TokenHeader {
    type Err = ParseHeaderError;

    fn from_str(text: &str) -> Result<Self, ParseHeaderError> {
        if text.len() > VALUE_BYTES_MAX {
            return Err(ParseHeaderError::NotTwoWords);
        }
        let (name, token) = text.split_once(' ').ok_or(ParseHeaderError::NotTwoWords)?;
        // A form with a digest cannot be decoded; it stands for its name all the same.
        if !QueueName::is_digest(name) && QueueName::decode(name).is_none() {
            return Err(ParseHeaderError::BadName);
        }
        let token = token.parse().map_err(|_| ParseHeaderError::BadToken)?;
        Ok(Self { encoded_name: name.to_owned(), token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    #[test]
    fn what_is_sent_is_read_back_for_any_name_and_token() {
        let long = "ü".repeat(100);
        for text in ["nightly-backup", "reports/nightly", "a b", ".", "..", "ключ", "100%", &long] {
            for (grant, turn) in [(0, 0), (42, 0), (42, 3), (i64::MAX as u64, u32::MAX)] {
                let sent = TokenHeader::new(&name(text), FencingToken::new(grant, turn).unwrap());
                let shown = sent.to_string();
                assert!(shown.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{shown}");
                assert!(shown.len() <= VALUE_BYTES_MAX, "{shown}");
                let read: TokenHeader = shown.parse().unwrap();
                assert_eq!(read, sent);
                assert!(read.is_of(&name(text)) && !read.is_of(&name("another")));
            }
        }
        let shown = TokenHeader::new(&name("reports/nightly"), FencingToken::new(42, 3).unwrap()).to_string();
        assert_eq!(shown, "reports%2Fnightly 42.3");
    }

    #[test]
    fn what_is_malformed_is_refused_and_the_reason_names_the_part() {
        let long = format!("x {}", "0".repeat(VALUE_BYTES_MAX));
        for (wrong, why) in [
            ("", ParseHeaderError::NotTwoWords),
            ("x", ParseHeaderError::NotTwoWords),
            ("42", ParseHeaderError::NotTwoWords),
            (&*long, ParseHeaderError::NotTwoWords),
            (" 42", ParseHeaderError::BadName),
            ("a/b 42", ParseHeaderError::BadName),
            ("a%2fb 42", ParseHeaderError::BadName),
            ("a%zz 42", ParseHeaderError::BadName),
            ("a%0A 42", ParseHeaderError::BadName),
            ("ü 42", ParseHeaderError::BadName),
            (". 42", ParseHeaderError::BadName),
            ("x ", ParseHeaderError::BadToken),
            ("x  42", ParseHeaderError::BadToken),
            ("x 42 ", ParseHeaderError::BadToken),
            ("x 42 43", ParseHeaderError::BadToken),
            ("x -1", ParseHeaderError::BadToken),
            ("x +1", ParseHeaderError::BadToken),
            ("x 1.", ParseHeaderError::BadToken),
            ("x .1", ParseHeaderError::BadToken),
            ("x 1.2.3", ParseHeaderError::BadToken),
            ("x 1e3", ParseHeaderError::BadToken),
            ("x 9223372036854775808", ParseHeaderError::BadToken),
            ("x 1.4294967296", ParseHeaderError::BadToken),
        ] {
            assert_eq!(wrong.parse::<TokenHeader>(), Err(why), "{wrong:?}");
        }
    }
}
