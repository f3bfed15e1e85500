//! Records of the library and of the server on stderr: those for the operator of the command that are not events of our
//! locks, such as a request to give a lock up, or a disk that is full.
//!
//! Events come to [`Voice`] through the observer, so their records are left out here.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, Subscriber};
use tracing::{Event, Level, Metadata};

use crate::output::say;
use crate::voice::Voice;

/// The target of all records of the library.
const TARGET: &str = "lockkeeper";

/// How the targets of the server's records begin: they are its modules.
const SERVER_TARGET: &str = "lockkeeper_zk_server";

/// Where the library turns events into records.
const EVENTS_MODULE: &str = "lockkeeper_recipes::event";

/// Prints the library's warnings from now on. The first call in this process wins.
pub(crate) fn listen(voice: Arc<Voice>) {
    // Another subscriber is set already, and one is enough.
    let _ = subscriber::set_global_default(LogRecords::of_the_library(move |line: &str| voice.say(line)));
}

/// Prints what the server tells its operator from now on: trouble, and with `is_verbose` also the sessions that begin
/// and end, and the clients that are refused. The first call in this process wins.
pub(crate) fn listen_to_server(is_verbose: bool) {
    let level = if is_verbose { Level::INFO } else { Level::WARN };
    let _ = subscriber::set_global_default(LogRecords { level, is_ours: is_of_the_server, say });
}

fn is_of_the_library(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TARGET && metadata.module_path() != Some(EVENTS_MODULE)
}

fn is_of_the_server(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with(SERVER_TARGET)
}

/// Prints each record as one line. Ignores spans: neither the library nor the server makes any.
struct LogRecords<Say> {
    level: Level,
    is_ours: fn(&Metadata<'_>) -> bool,
    say: Say,
}

impl<Say> LogRecords<Say> {
    fn of_the_library(say: Say) -> Self {
        Self { level: Level::WARN, is_ours: is_of_the_library, say }
    }
}

impl<Say: Fn(&str) + Send + Sync + 'static> Subscriber for LogRecords<Say> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level && (self.is_ours)(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(self.level))
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LogLine::default();
        event.record(&mut line);
        (self.say)(&line.text());
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// `LOCK: MESSAGE (FIELD VALUE, …)`
#[derive(Default)]
struct LogLine {
    lock: String,
    message: String,
    fields: String,
}

impl LogLine {
    fn text(&self) -> String {
        let Self { lock, message, fields } = self;
        let colon = if lock.is_empty() { "" } else { ": " };
        match fields.is_empty() {
            true => format!("{lock}{colon}{message}"),
            false => format!("{lock}{colon}{message} ({fields})"),
        }
    }

    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let part = match field.name() {
            "lock" => &mut self.lock,
            "message" => &mut self.message,
            name => {
                let comma = if self.fields.is_empty() { "" } else { ", " };
                let _ = write!(self.fields, "{comma}{name} ");
                &mut self.fields
            }
        };
        // Writing to a String does not fail.
        let _ = part.write_fmt(value);
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use lockkeeper::QueueName;

    use super::*;

    /// Returns what is printed of all that happens in `work`.
    fn said(work: impl FnOnce()) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = lines.clone();
        let warnings = LogRecords::of_the_library(move |line: &str| heard.lock().unwrap().push(line.to_owned()));
        subscriber::with_default(warnings, work);
        Arc::into_inner(lines).unwrap().into_inner().unwrap()
    }

    #[test]
    fn a_warning_of_the_library_is_one_line_and_nothing_else_is_printed() {
        let lock = QueueName::new("/fleet/job").unwrap();
        let lines = said(|| {
            tracing::warn!(target: "lockkeeper", %lock, name = "x y", count = 3, "passed over children");
            tracing::warn!(target: "lockkeeper", "short");
            tracing::info!(target: "lockkeeper", %lock, "all is well");
            tracing::error!(target: "elsewhere", %lock, "not ours");
        });
        assert_eq!(lines, ["/fleet/job: passed over children (name x y, count 3)", "short"]);
    }
}
