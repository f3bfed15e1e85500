//! Printing to stdout, as text or JSON.

use std::io::{self, Write as _};

use serde::Serialize;

use super::text::{is_harmful, one_line};
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
}
