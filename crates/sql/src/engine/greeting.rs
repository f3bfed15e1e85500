//! Refusals of servers and schemas of all kinds that cannot serve locks.

use lockkeeper_session::{Effect, Failure, FailureKind};

use crate::engine::text::VERSION;

/// What is to be done about our schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Schema {
    Ready,
    /// It is to be made, or this user may not see it.
    Missing,
    /// It lacks functions that we call: it is of an older version, or a newer one that has given them up.
    Incomplete,
}

/// What is not to be used for locks, and why.
pub(crate) fn unsupported(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unsupported, Effect::None, message)
}

/// What only reads at present, and how that shows.
pub(crate) fn only_reads(message: &str) -> Failure {
    Failure::new(FailureKind::ReadOnly, Effect::None, message)
}

/// Says that this speaks a kind's language, and does not lock rows as that does or was not tried.
pub(crate) fn look_alike(name: &str, kind: &str) -> Failure {
    unsupported(format!("this is {name}, and locks here need {kind} itself"))
}

/// Says that a place for our tables, such as `the schema `lk``, is used for others.
pub(crate) fn of_another(place: &str) -> Failure {
    let message = format!("{place} is another program's: name one by `schema`");
    Failure::new(FailureKind::Settings, Effect::None, message)
}

/// Says that the schema, whose version is this, lacks functions. `hidden` is what is said if it is of this version.
pub(crate) fn incomplete(schema: &str, version: Option<i64>, hidden: Option<String>) -> Failure {
    let older = "`lockkeeper setup` brings it up to date";
    let (is, cure) = match (version, hidden) {
        (Some(VERSION), Some(cure)) => ("without, or hides from this user, what".to_owned(), cure),
        (Some(version), _) if version > VERSION => {
            (format!("of the newer version {version}, and no longer has what"), "use a newer Lockkeeper".to_owned())
        }
        (Some(version), _) => (format!("of version {version}, and lacks what"), older.to_owned()),
        (None, _) => ("incomplete, and lacks what".to_owned(), older.to_owned()),
    };
    unsupported(format!("{schema} is {is} this Lockkeeper of version {VERSION} calls: {cure}"))
}
