//! Fencing tokens: the number by which a resource can refuse an overtaken holder.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A number that grows with each grant of a lock.
///
/// In the guide: [fencing](https://docs.rs/lockkeeper/latest/lockkeeper/guide/fencing/index.html).
///
/// `grant` is the service's growing number and orders processes; `turn` counts hand-offs inside one process within one
/// grant and is 0 when every grant goes through the service. Tokens compare as the pair. A resource that remembers the
/// greatest token it has seen, and refuses smaller ones, cannot be written by an overtaken holder. Where locks are
/// handed off within a process, it must compare the pair: all turns of one grant have the same `grant`.
///
/// One column keeps the pair as [`FencingToken::to_bytes`], and two as [`FencingToken::as_i64`] and a 64-bit `turn`.
///
/// With the feature `serde` it is serialized as its text, since some readers of JSON round numbers beyond 2^53.
///
/// ```
/// use lockkeeper::FencingToken;
///
/// let first = FencingToken::new(41, 0).unwrap();
/// let second = FencingToken::new(42, 0).unwrap();
/// assert!(first < second);
/// assert_eq!(second.to_string(), "42");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FencingToken {
    grant: u64,
    turn: u32,
}

impl FencingToken {
    /// Makes a token, if `grant` fits into a signed 64-bit number, as databases keep it.
    pub const fn new(grant: u64, turn: u32) -> Option<Self> {
        if grant > i64::MAX as u64 { None } else { Some(Self { grant, turn }) }
    }

    /// Returns the grant, which orders grants of the service; turns of one grant have the same.
    pub const fn as_u64(self) -> u64 {
        self.grant
    }

    /// Returns the grant as a signed number, for databases.
    pub const fn as_i64(self) -> i64 {
        self.grant.cast_signed()
    }

    /// Returns the pair as 12 bytes, the grant first and both in big-endian order: they compare as the tokens do.
    ///
    /// ```
    /// # use lockkeeper::FencingToken;
    /// let [first, next] = [FencingToken::new(41, 255).unwrap(), FencingToken::new(41, 256).unwrap()];
    /// assert!(first.to_bytes() < next.to_bytes());
    /// ```
    pub fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes.copy_from_slice(&self.as_u128().to_be_bytes()[4..]);
        bytes
    }

    /// Returns the pair as one number of 96 bits, which compares as the tokens do.
    pub const fn as_u128(self) -> u128 {
        (self.grant as u128) << 32 | self.turn as u128
    }

    /// Returns how many hand-offs inside the process came before, within this grant.
    pub const fn turn(self) -> u32 {
        self.turn
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.turn == 0 {
            write!(formatter, "{}", self.grant)
        } else {
            write!(formatter, "{}.{}", self.grant, self.turn)
        }
    }
}

/// Why a text is not a [`FencingToken`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParseTokenError(());

impl fmt::Display for ParseTokenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a token is a whole number up to 9223372036854775807, or two joined by a dot")
    }
}

impl std::error::Error for ParseTokenError {}

impl From<ParseIntError> for ParseTokenError {
    fn from(_: ParseIntError) -> Self {
        Self(())
    }
}

impl FromStr for FencingToken {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseTokenError> {
        // A number is also read with a `+`, which no token is shown with.
        if text.contains('+') {
            return Err(ParseTokenError(()));
        }
        let (grant, turn) = text.split_once('.').unwrap_or((text, "0"));
        Self::new(grant.parse()?, turn.parse()?).ok_or(ParseTokenError(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(grant: u64, turn: u32) -> FencingToken {
        FencingToken::new(grant, turn).unwrap()
    }

    #[test]
    fn tokens_are_ordered_by_grant_and_then_by_turn() {
        assert!(token(1, 9) < token(2, 0));
        assert!(token(2, 0) < token(2, 1));
    }

    #[test]
    fn bytes_and_numbers_are_ordered_as_their_tokens() {
        let tokens = [token(0, 0), token(0, 255), token(0, 256), token(1, 0), token(255, u32::MAX), token(256, 0)];
        for pair in tokens.windows(2) {
            assert!(pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
            assert!(pair[0].as_u128() < pair[1].as_u128(), "{pair:?}");
        }
        assert_eq!(token(i64::MAX as u64, 7).as_u128(), u128::from(i64::MAX as u64) << 32 | 7);
    }

    #[test]
    fn a_grant_beyond_a_signed_number_is_not_a_token() {
        assert!(FencingToken::new(i64::MAX as u64, 0).is_some());
        assert_eq!(FencingToken::new(i64::MAX as u64 + 1, 0), None);
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for token in [token(0, 0), token(7, 3), token(i64::MAX as u64, u32::MAX)] {
            assert_eq!(token.to_string().parse(), Ok(token));
        }
        for wrong in ["", "-1", "+1", "1.+1", " 1", "1.", ".1", "1.2.3", "9223372036854775808", "x"] {
            assert!(wrong.parse::<FencingToken>().is_err(), "{wrong:?} was taken for a token");
        }
    }
}
