//! Values that a config file may have as a text or as a number; a duration with its unit.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A duration in a config file: a text with a unit, such as `"2.5s"`.
#[derive(Clone, Debug)]
pub struct Span {
    /// As it is written.
    pub text: String,
    /// As it is meant.
    pub duration: Duration,
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a duration, such as \"500ms\", \"2.5s\" or \"1m30s\"";
        text_or_number(deserializer, expecting, |text| {
            let duration = lockkeeper::parse_duration_with_unit(text).map_err(|error| error.to_string())?;
            Ok(Self { text: text.to_owned(), duration })
        })
    }
}

/// Reads a duration of which the text is not needed.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Span::deserialize(deserializer).map(|span| Some(span.duration))
}

/// Reads a text; a number is read as if it were written as one.
pub fn text_or_number<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(TextOrNumber { expecting, parse })
}

struct TextOrNumber<T> {
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}
