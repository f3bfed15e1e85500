//! The wordings that were replaced by plainer ones, so that none of them comes back.
//!
//! A row is the old wording and the plainer one. Phrases are looked for in comments, documentation and messages, over
//! the ends of lines; names in the declarations of shipped types.

use crate::assert_none;
use crate::names::is_shipped;
use crate::sources::{Source, sources};

/// Phrases, and what an engineer would say.
const PHRASES: &[(&str, &str)] = &[
    ("is made again", "is retried, or is recreated"),
    ("what is told", "the message, the event, the notification"),
    ("those that wait", "waiters"),
    ("those who wait", "waiters"),
    ("whoever", "the caller, the client, the holder"),
    ("somebody", "a client, a user"),
    ("at once are the most", "at most … entries per call"),
    ("so many in a time", "a sliding-window rate limit"),
    ("the token cannot be one", "invalid token"),
    ("it cannot be noted", "cannot save"),
    ("take what was readable", "assume any local user has read it"),
    ("what is so at the server", "a server setting"),
    ("the refusal of a later one", "errors of later statements"),
    ("would have them for others too", "would leak them to other clients"),
];

/// Names of types that need a dictionary, and the ones that took their places.
const NAMES: &[(&str, &str)] = &[
    ("Seat", "LocalQueue"),
    ("Unled", "PendingLeader"),
    ("Possession", "HeldPlace"),
    ("Front", "KnownHead"),
    ("Attendant", "Spawner"),
    ("LeftBecause", "ReleaseReason"),
    ("Telling", "EventSender"),
    ("LockNow", "LockSnapshot"),
    ("Door", "NamedLock"),
    ("Waking", "WakeMethod"),
    ("Deaf", "NoNotifications"),
    ("Book", "WaitTable"),
    ("Pace", "HandoffRate"),
    ("Rest", "ListenPause"),
    ("Roll", "OwnContenders"),
    ("Ground", "PathScheme"),
    ("Spot", "ContenderNode"),
    ("Trail", "DialHistory"),
    ("Eyes", "Inotify"),
    ("Attention", "WatchTable"),
    ("Footing", "PipeState"),
    ("Vitality", "ContenderState"),
    ("Papers", "TlsMaterial"),
    ("Flight", "Batch"),
];

/// The text of a file without what breaks a sentence into lines.
fn sentences(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim_end_matches('\\').trim());
    lines.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a file declares a type of this name.
fn declares(text: &str, name: &str) -> bool {
    ["struct", "enum", "trait", "type"].iter().any(|kind| has_word(text, &format!("{kind} {name}")))
}

fn breaches(sources: &[Source]) -> Vec<String> {
    let is_own = |path: &str| path.starts_with("xtask/tests/tidy/");
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| source.path.ends_with(".rs") && !is_own(&source.path)) {
        let text = sentences(&source.text);
        let phrases = PHRASES.iter().filter(|(phrase, _)| has_word(&text, phrase));
        let is_declared = |name: &str| is_shipped(&source.path) && declares(&source.text, name);
        let names = NAMES.iter().filter(|(name, _)| is_declared(name));
        let cure = |(word, plainer): &(&str, &str)| format!("{}: `{word}`: say {plainer}", source.path);
        found.extend(phrases.chain(names).map(cure));
    }
    found
}

#[test]
fn wordings_that_need_a_dictionary_stay_away() {
    assert_none(&breaches(&sources()));
}

#[test]
fn planted_wordings_are_reported() {
    let found = |text: &str| breaches(&[Source { path: "crates/a/src/a.rs".to_owned(), text: text.to_owned() }]).len();
    for text in ["// wakes those\n// that wait\n", "/// Whoever holds it.\n", "pub(crate) struct Door<T>;\n"] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in ["// for those that waited\n", "struct DoorBell;\n", "// next door\n"] {
        assert_eq!(found(text), 0, "{text}");
    }
}
