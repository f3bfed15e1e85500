//! Texts in HTML: nothing of a name or of what a client wrote is markup, moves a cursor or turns the reading direction.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::TimePoint;

use crate::output::{brief, millis, one_line};

#[derive(Clone, Copy, Debug)]
pub(in crate::monitor) struct Escaped<'a>(pub(in crate::monitor) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in one_line(self.0).chars() {
            match letter {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                _ => formatter.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::monitor) struct QueryValue<'a>(pub(in crate::monitor) &'a str);

impl Display for QueryValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    formatter.write_char(char::from(byte))?;
                }
                _ => write!(formatter, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// The identity of a lock's row: another one for each name.
pub(super) fn row_id(lock: &QueueName) -> String {
    let mut id = String::from("l-");
    lock.as_str().bytes().for_each(|byte| _ = write!(id, "{byte:02x}"));
    id
}

/// How long something goes on since a moment: a page with script counts on from there.
pub(super) fn lasting(since_unix: Duration, now_unix: Duration) -> String {
    let lasts = brief(now_unix.saturating_sub(since_unix));
    format!("<time data-at=\"{}\">{lasts}</time>", millis(since_unix))
}

/// The same of what has gone on for so long by now.
pub(super) fn aged(age: Duration, now: TimePoint) -> String {
    lasting(now.unix.saturating_sub(age), now.unix)
}

/// How long something goes on until a moment: a page with script counts down from there.
pub(super) fn remaining(until_unix: Duration, now_unix: Duration) -> String {
    let left = brief(until_unix.saturating_sub(now_unix));
    format!("<time data-at=\"{}\" data-left>{left}</time>", millis(until_unix))
}

/// Tells whether two texts differ in nothing but the words of ages, which a page counts on by itself.
pub(super) fn differ_in_ages_alone(one: &str, other: &str) -> bool {
    without_ages(one).eq(without_ages(other))
}

/// The pieces of a text between its ages, each with the moment since which the next age counts.
fn without_ages(html: &str) -> impl Iterator<Item = &str> {
    html.split("</time>").map(|piece| match piece.rsplit_once("<time data-at=") {
        Some((_, age)) => &piece[..piece.len() - age.len() + age.find('>').unwrap_or(age.len())],
        None => piece,
    })
}

pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup_or_turns_it_around() {
        let hostile = "<img src=x onerror='alert(1)'>&\"\u{202e}\u{7f}\n";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;\\u{202e}\\u{7f}\\n"
        );
    }

    #[test]
    fn ages_that_count_since_the_same_moment_are_the_same() {
        let text = |since_s, now_s| {
            let age = lasting(Duration::from_secs(since_s), Duration::from_secs(now_s));
            format!("held for {age} by <time datetime=\"1\">{}</time>", "x")
        };
        assert_ne!(text(1, 2), text(1, 70));
        assert!(differ_in_ages_alone(&text(1, 2), &text(1, 70)));
        assert!(!differ_in_ages_alone(&text(1, 2), &text(2, 3)), "another moment");
        assert!(!differ_in_ages_alone(&text(1, 2), &text(1, 2).replace('x', "y")));
        assert!(!differ_in_ages_alone("", &text(1, 2)));
        let left = |until_s, now_s| remaining(Duration::from_secs(until_s), Duration::from_secs(now_s));
        assert_eq!(left(70, 9), "<time data-at=\"70000\" data-left>1m01s</time>");
        assert!(differ_in_ages_alone(&left(70, 9), &left(70, 80)) && !differ_in_ages_alone(&left(70, 9), &left(71, 9)));
    }

    #[test]
    fn a_name_is_one_value_of_a_query() {
        assert_eq!(QueryValue("a/b c&d=ä%").to_string(), "a%2Fb%20c%26d%3D%C3%A4%25");
    }

    #[test]
    fn long_numbers_are_read_by_their_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
