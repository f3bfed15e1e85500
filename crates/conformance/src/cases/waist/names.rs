//! Names: each is a separate lock, however alike two look, and is shown as it was given.

use std::collections::BTreeSet;

use lockkeeper_core::{ErrorKind, NAME_BYTES_MAX, Wait};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, parties, release};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("names that look alike are separate locks and are shown as they were given", separate_locks)
            .given_back(),
        Case::new("a name that is not valid is refused", refused),
    ]
}

/// Names of every kind that file systems, paths and encodings are known to confuse. None begins with a slash: on
/// ZooKeeper such a name is a node's path, for queues shared with other clients, and not listed.
fn names() -> Vec<String> {
    let short = [
        ".", "..", "...", "a/b", "a%2Fb", "a%2fb", "a", "A", "ä", "Ä", "a b", " a", "a ", "a.", ".a", "a/", "~", "%",
        "%%", "-", "--help", "a\\b", "$HOME", "*", "a:b", "CON", "lock", "null", "鍵", "🔒",
    ];
    let mut names: Vec<String> = short.map(str::to_owned).into();
    names.extend(["\u{65}\u{301}", "\u{e9}", "nightly-backup", "Nightly-Backup"].map(str::to_owned));
    let full = |letter: &str| {
        let mut name = letter.repeat(NAME_BYTES_MAX / letter.len());
        while name.len() < NAME_BYTES_MAX {
            name.push('x');
        }
        name
    };
    // Latin, Greek, Devanagari, Han, and a symbol of four bytes; then names that differ only at the end or only in
    // case.
    names.extend(["x", "ω", "न", "語", "🔑", "X", "Ω"].map(full));
    names.push(format!("{}語", &full("語")[..NAME_BYTES_MAX - 3 - 2]));
    names.push(format!("{}y", "x".repeat(NAME_BYTES_MAX - 1)));
    names.push(format!("{}Y", "x".repeat(NAME_BYTES_MAX - 1)));
    names.push(format!("{}~{}", "y".repeat(120), "0".repeat(32)));
    names
}

async fn separate_locks(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let names = names();
    let expected: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(expected.len(), names.len(), "the names themselves differ");
    let mut guards = Vec::new();
    for name in &names {
        let guard = ann.try_lock(name).await;
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} shares its lock with another name")));
    }
    for name in &names {
        assert!(bob.try_lock(name).await.is_none(), "{name:?} is not the same lock for another client");
        assert_eq!(bob.contenders(name).await, 1, "{name:?}");
    }
    let shown = soon("the names", bob.keeper.admin().queues("")).await.expect("the queues are named");
    let shown: Vec<&str> = shown.iter().map(lockkeeper_core::QueueName::as_str).collect();
    assert_eq!(shown, expected.into_iter().collect::<Vec<_>>());
    for guard in guards {
        release(guard).await;
    }
}

async fn refused(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    // Behind a slash, a path that ZooKeeper refuses is not a valid name on any service.
    let paths = ["/", "/a/", "/a//b", "/a/../b", "/a\u{e000}", "/\u{fff0}", "/🔒"];
    for name in ["", "a\nb", "\0", "a\u{85}", &"x".repeat(NAME_BYTES_MAX + 1)].into_iter().chain(paths) {
        let error = ann.keeper.mutex(name).expect_err("it is not valid");
        assert_eq!(error.kind(), ErrorKind::InvalidName);
        let error = ann.keeper.contenders(name).await.expect_err("it is not valid");
        assert_eq!(error.kind(), ErrorKind::InvalidName);
        let error = ann.keeper.until_vacant(name, Wait::Forever).await.expect_err("it is not valid");
        assert_eq!(error.kind(), ErrorKind::InvalidName);
    }
}
