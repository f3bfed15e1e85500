//! Durations as people write them: `500ms`, `2.5s`, `1m`, `2h`, or plain seconds.

use std::time::Duration;

use crate::{Error, ErrorKind, Operation, Result};

/// Reads a duration: a number with at most nine decimals and one of `ms`, `s`, `m`, `h`, `d`; without a unit, seconds.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper_core::parse_duration;
///
/// assert_eq!(parse_duration("2.5s")?, Duration::from_millis(2500));
/// assert_eq!(parse_duration("90")?, Duration::from_secs(90));
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    read(text).ok_or_else(|| {
        let message = format!("`{text}` is not a duration, such as 500ms, 2.5s, 1m or plain seconds");
        Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
    })
}

fn read(text: &str) -> Option<Duration> {
    let digits_end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit_nanos: u128 = match unit {
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        "d" => 86_400 * 1_000_000_000,
        _ => return None,
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || decimals.is_empty() || decimals.len() > 9 {
        return None;
    }
    let whole: u128 = whole.parse::<u64>().ok()?.into();
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let decimals: u128 = decimals.parse::<u64>().ok()?.into();
    let nanos = whole * unit_nanos + decimals * unit_nanos / scale;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        for (text, millis) in [
            ("0", 0),
            ("0.25", 250),
            ("500ms", 500),
            ("2.5s", 2_500),
            ("1m", 60_000),
            ("1.5h", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in
            ["", "abc", "-1", "+1", "1.", ".5", "1 s", "s", "1.2.3", "5 ", "1e3", "99999999999999999999", "inf", "∞"]
        {
            assert!(parse_duration(text).is_err(), "{text:?} was taken for a duration");
        }
    }
}
