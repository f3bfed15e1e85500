//! Text and JSON for a reader: tables, brief durations, nothing that a terminal obeys; and to stdout and stderr.

use std::io::{self, Write as _};
use std::time::Duration;

use serde::Serialize;

use crate::exit::CommandFailure;

/// Prints a value as JSON, indented.
pub fn print_json(value: &impl Serialize) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| CommandFailure::ours(error.to_string()))?;
    print(&harmless_json(&text))
}

/// Escapes what JSON allows and a terminal obeys. Outside of strings JSON has no such character but its line ends.
fn harmless_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for letter in json.chars() {
        if letter != '\n' && is_harmful(letter) {
            text.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            text.push(letter);
        }
    }
    text.push('\n');
    text
}

/// Returns a value as JSON in one line.
pub fn json_line(value: &impl Serialize) -> Result<String, CommandFailure> {
    serde_json::to_string(value)
        .map(|text| harmless_json(&text))
        .map_err(|error| CommandFailure::ours(error.to_string()))
}

/// Prints a text. A reader that went away has seen enough.
pub fn print(text: &str) -> Result<(), CommandFailure> {
    write(text).map(drop)
}

/// Prints a text, and tells whether stdout still has a reader.
pub fn write(text: &str) -> Result<bool, CommandFailure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandFailure::ours(format!("cannot write to stdout: {error}"))),
    }
}

/// Prints a line on stderr, with our prefix and without harmful characters.
///
/// One write, so that lines of several processes do not mix. A failure is ignored.
pub fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("lockkeeper: {}\n", one_line(text)).as_bytes());
}

/// Lays out rows in columns two spaces apart.
pub fn table(rows: &[Vec<String>]) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &cells {
        let line: Vec<_> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns a text whose harmful characters are shown as escapes.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmful(letter) {
            line.extend(letter.escape_default());
        } else {
            line.push(letter);
        }
    }
    line
}

/// Tells whether a character could move a cursor, change a terminal or turn the reading direction around.
pub(crate) fn is_harmful(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Returns a duration in at most two units, such as `14s`, `2m10s`, `3h07m` or `2d4h`.
pub fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    if days > 0 {
        format!("{days}d{}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_control_characters_and_still_says_the_same() {
        let value = serde_json::json!({"a": "\u{9b}2J\n\u{202e}é"});
        let text = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(text, "{\n  \"a\": \"\\u009b2J\\n\\u202eé\"\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(one_line("a\nb\r\u{9b}c\u{202e}d\u{61c} 鍵"), "a\\nb\\r\\u{9b}c\\u{202e}d\\u{61c} 鍵");
    }

    #[test]
    fn durations_are_brief() {
        for (seconds, text) in [(0, "0s"), (59, "59s"), (130, "2m10s"), (11_220, "3h07m"), (187_200, "2d4h")] {
            assert_eq!(brief(Duration::from_secs(seconds)), text);
        }
    }
}
