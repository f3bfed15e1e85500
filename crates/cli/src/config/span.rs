//! A duration in a config file, with its unit.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// A duration in a config file: a text with a unit, such as `"2.5s"`.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// As it is written.
    pub(super) text: String,
    pub(super) duration: Duration,
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;

        impl Visitor<'_> for SpanVisitor {
            type Value = Span;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a duration, such as \"500ms\", \"2.5s\" or \"1m30s\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                let duration = lockkeeper::parse_duration_with_unit(text).map_err(E::custom)?;
                Ok(Span { text: text.to_owned(), duration })
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Span, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Span, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(SpanVisitor)
    }
}
