//! Reads what a server says of itself: the answer to `examine`. Pure.

use lockkeeper_session::Failure;
use std::collections::HashMap;

use crate::statement::{AnswerRow, RowKind, word};

/// How many characters of a name are shown that another program has chosen.
const NAME_CHARACTERS_MAX: usize = 60;

/// What a server says of itself, by the names of its facts.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerReport(HashMap<String, String>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct LongTransaction {
    pub(super) age_s: u64,
    /// The process or thread of the server that executes it.
    pub(super) process: u64,
    /// What its client calls itself; may be empty.
    pub(super) client: String,
}

impl ServerReport {
    pub(super) fn of(rows: &[AnswerRow]) -> Result<Self, Failure> {
        if word(rows)? != "ok" {
            return Err(Failure::unexpected());
        }
        let facts = rows.iter().filter(|row| row.says(RowKind::Fact));
        Ok(Self(facts.filter_map(|row| Some((row.text.clone()?, row.ask.clone()?))).collect()))
    }

    #[cfg(test)]
    pub(super) fn with(facts: &[(&str, &str)]) -> Self {
        Self(facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A fact in one line of some words, whichever program has made it.
    pub(super) fn words(&self, name: &str) -> String {
        short(self.get(name).unwrap_or("unknown"))
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value.to_uppercase().as_str(), "ON" | "1" | "YES" | "TRUE"))
    }

    /// Whether a setting is known, and off.
    pub(super) fn is_off(&self, name: &str) -> bool {
        self.get(name).is_some() && !self.is_on(name)
    }

    /// Reads `75 4711 psql`.
    pub(super) fn transaction(&self, name: &str) -> Option<LongTransaction> {
        let mut words = self.get(name)?.splitn(3, ' ');
        let (age_s, process) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(LongTransaction { age_s, process, client: short(words.next().unwrap_or_default()) })
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(NAME_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, value: Option<&str>) -> AnswerRow {
        let (text, ask) = (Some(name.to_owned()), value.map(str::to_owned));
        AnswerRow { what: RowKind::Fact as i16, text, ask, ..AnswerRow::default() }
    }

    #[test]
    fn facts_are_read_and_what_is_not_said_is_not_known() {
        let status = AnswerRow { text: Some("ok".to_owned()), ..AnswerRow::default() };
        let rows = [status, fact("fsync", Some("off")), fact("oldest", None), fact("count", Some("7"))];
        let report = ServerReport::of(&rows).expect("a report");
        assert_eq!((report.get("fsync"), report.get("oldest"), report.number("count")), (Some("off"), None, Some(7)));
        assert_eq!((report.number("fsync"), report.is_off("fsync"), report.is_off("oldest")), (None, true, false));
        ServerReport::of(&rows[1..]).expect_err("no status");
    }

    #[test]
    fn what_other_programs_have_chosen_is_cut_to_one_line() {
        let long = format!("12 34 a\nb{}", "c".repeat(100));
        let report = ServerReport::with(&[("oldest", &long), ("bare", "75 8"), ("strange", "x y z")]);
        let read = report.transaction("oldest").expect("a transaction");
        assert!(read.client.starts_with("abc") && read.client.len() == NAME_CHARACTERS_MAX, "{read:?}");
        let bare = LongTransaction { age_s: 75, process: 8, client: String::new() };
        assert_eq!((report.transaction("bare"), report.transaction("strange")), (Some(bare), None));
    }
}
