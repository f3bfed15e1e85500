//! Durations in text: `500ms`, `2.5s`, `1m30s`, `.5h`, or plain seconds where a user types them.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation, Result};

/// The units, the greatest first, with their length in nanoseconds.
const UNITS: [(&str, u128); 6] = [
    ("d", 86_400 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
    ("min", 60 * 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// The most decimals of a number: nanoseconds, of seconds.
const DECIMALS_MAX: usize = 9;

/// Reads a duration: numbers with at most nine decimals, each with one of `ms`, `s`, `m` or `min`, `h`, `d`, the
/// greatest unit first; or one number without a unit, which is seconds.
///
/// It is for what a user types. For a setting in a file or a URL there is [`parse_duration_with_unit`].
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::parse_duration;
///
/// assert_eq!(parse_duration("2.5s")?, Duration::from_millis(2500));
/// assert_eq!(parse_duration("1m30s")?, Duration::from_secs(90));
/// assert_eq!(parse_duration("90")?, Duration::from_secs(90));
/// # Ok::<(), lockkeeper::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    seconds(text)
        .or_else(|| units(text))
        .ok_or_else(|| invalid(format!("`{text}` is not a duration, such as 500ms, 2.5s, 1m30s, 1h or plain seconds")))
}

/// Reads a duration as [`parse_duration`] does, but refuses a number without a unit: a user who copies a setting from
/// another program may mean milliseconds by it.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent, with what to write instead.
///
/// ```
/// use lockkeeper::parse_duration_with_unit;
///
/// assert_eq!(parse_duration_with_unit("5000ms")?.as_secs(), 5);
/// let error = parse_duration_with_unit("5000").unwrap_err();
/// assert!(error.to_string().contains("write 5000ms or 5000s"));
/// # Ok::<(), lockkeeper::Error>(())
/// ```
pub fn parse_duration_with_unit(text: &str) -> Result<Duration> {
    if let Some(duration) = units(text) {
        return Ok(duration);
    }
    Err(invalid(match seconds(text) {
        Some(_) => format!("`{text}` has no unit; write {text}ms or {text}s"),
        None => format!("`{text}` is not a duration, such as 500ms, 2.5s, 1m30s or 1h"),
    }))
}

fn invalid(message: String) -> Error {
    Error::permanent(ErrorKind::InvalidConfig, Operation::Configure, message)
}

/// Reads a number of seconds without a unit.
fn seconds(text: &str) -> Option<Duration> {
    match number(text)? {
        (nanos, "") => duration(nanos(1_000_000_000)),
        _ => None,
    }
}

/// Reads numbers with units.
fn units(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut less_than) = (text, 0_u128, u128::MAX);
    while !rest.is_empty() {
        let (nanos, after) = number(rest)?;
        let name_end = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, after) = after.split_at(name_end);
        let (_, unit_nanos) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
        if unit_nanos >= less_than {
            return None;
        }
        less_than = unit_nanos;
        total = total.checked_add(nanos(unit_nanos))?;
        rest = after;
    }
    if text.is_empty() { None } else { duration(total) }
}

/// Splits the number off the beginning of a text; the number of nanoseconds depends on its unit.
fn number(text: &str) -> Option<(impl Fn(u128) -> u128, &str)> {
    let digits_end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits_end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    if decimals.is_empty() || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let whole = if whole.is_empty() && number.starts_with('.') { "0" } else { whole };
    let whole: u128 = whole.parse::<u64>().ok()?.into();
    let scale = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    let decimals: u128 = decimals.parse::<u64>().ok()?.into();
    Some((move |unit_nanos| whole * unit_nanos + decimals * unit_nanos / scale, rest))
}

fn duration(nanos: u128) -> Option<Duration> {
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_notations_are_read() {
        for (text, millis) in [
            ("0", 0),
            ("0.25", 250),
            (".5", 500),
            ("500ms", 500),
            ("2.5s", 2_500),
            (".5s", 500),
            ("1m", 60_000),
            ("1min", 60_000),
            ("1m30s", 90_000),
            ("1h30m", 5_400_000),
            ("1h30min", 5_400_000),
            ("1.5h", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("90m", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_duration_is_refused() {
        for text in [
            "",
            "abc",
            "-1",
            "+1",
            "1.",
            ".",
            ".s",
            "1 s",
            "s",
            "1.2.3",
            "5 ",
            "1e3",
            "1m30",
            "30s1m",
            "1m2m",
            "1min2m",
            "1m 30s",
            "1M",
            "99999999999999999999",
            "584y",
            "18446744073s709551616ms",
            "inf",
            "∞",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?} was taken for a duration");
            assert!(parse_duration_with_unit(text).is_err(), "{text:?} was taken for a duration");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_in_a_setting_with_what_to_write() {
        for text in ["5000", "0", "2.5", ".5"] {
            let error = parse_duration_with_unit(text).expect_err(text).to_string();
            assert!(error.contains(&format!("write {text}ms or {text}s")), "{error}");
        }
        assert_eq!(parse_duration_with_unit("1m30s").unwrap(), Duration::from_secs(90));
    }
}
