//! Names and parts of locks: each name is a separate lock, however alike two look; the queues of one lock are separate,
//! and aware of queues of another kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{ErrorKind, Mode, NAME_BYTES_MAX, Part, QueueName, Wait};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, parties, release};
use crate::speaker::{Speaker, line, part_of, speakers};
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
    let shown: Vec<&str> = shown.iter().map(QueueName::as_str).collect();
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

const PARTS: [(Part, Mode); 3] =
    [(Part::Line, Mode::Mutex), (Part::Permits, Mode::Permit), (Part::Waiters, Mode::Acquire)];

pub(super) fn parts() -> Vec<Case> {
    vec![
        Case::new("the parts of one name are separate queues", kept_apart),
        Case::new("a name that looks like a part of another is a separate lock", look_alikes),
        Case::new("a queue shows that its lock is in use as one of another kind, until it is not", elsewhere),
        Case::new("queues() names locks of every kind once each", named_once),
    ]
}

async fn kept_apart(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    // The last two are cut and digested where they are stored.
    for name in ["door", "reports/daily", &"語".repeat(60), &"x".repeat(200)] {
        let mut taken = Vec::new();
        for (part, mode) in PARTS {
            taken.push((part_of(name, part), mode, ann.take(&part_of(name, part), mode).await));
        }
        for (queue, mode, place) in &taken {
            let view = bob.view(queue).await;
            let shown: Vec<_> = view.contenders.iter().map(|it| (it.id.clone(), it.ticket, it.mode)).collect();
            assert_eq!(shown, [(place.joined.id.clone(), Some(place.ticket), *mode)], "{name:?}: {:?}", queue.part());
        }
        let (waiters, permit) = (&taken[2].0, taken[1].2.ticket);
        ann.withdraw(waiters, permit).await;
        for (queue, _, place) in &taken {
            assert_eq!(
                bob.ids(queue).await,
                std::slice::from_ref(&place.joined.id),
                "nothing was withdrawn from another part"
            );
            ann.withdraw(queue, place.ticket).await;
            bob.until_ids(queue, &[]).await;
        }
    }
}

/// The layout of parts must not collide with the layout of names.
async fn look_alikes(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let mut taken = Vec::new();
    for (part, mode) in PARTS {
        taken.push((part_of("door", part), ann.take(&part_of("door", part), mode).await));
    }
    for name in ["door/locks", "door/leases", "door/permits", "door/gate", "door-__lock__", "locks", "leases", "door."]
    {
        for (part, _) in PARTS {
            let view = ann.view(&part_of(name, part)).await;
            assert!(view.contenders.is_empty() && view.elsewhere.is_none(), "{name:?}: {view:?}");
        }
        assert!(ann.inspect(&line(name)).await.is_empty(), "{name:?}");
    }
    for (queue, place) in taken {
        ann.withdraw(&queue, place.ticket).await;
    }
}

async fn elsewhere(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let seen_from = async |part: Part| bob.view(&part_of("door", part)).await.elsewhere;
    for (taken, mode) in PARTS {
        let queue = part_of("door", taken);
        let place = ann.take(&queue, mode).await;
        assert_eq!(place.joined.view.elsewhere, None);
        for (part, _) in PARTS {
            let is_other_kind = (part == Part::Line) != (taken == Part::Line);
            assert_eq!(seen_from(part).await, is_other_kind.then_some(mode), "{taken:?} seen from {part:?}");
        }
        let other = if taken == Part::Line { Part::Permits } else { Part::Line };
        let asked = if taken == Part::Line { Mode::Permit } else { Mode::Mutex };
        let behind = bob.take(&part_of("door", other), asked).await;
        assert_eq!(behind.joined.view.elsewhere, Some(mode), "{taken:?} shown to a contender that joins {other:?}");
        bob.withdraw(&part_of("door", other), behind.ticket).await;
        ann.withdraw(&queue, place.ticket).await;
        for (part, _) in PARTS {
            // What a service keeps of an empty queue is not in use.
            assert_eq!(seen_from(part).await, None, "{taken:?} seen from {part:?} after it was left");
        }
    }
}

async fn named_once(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let uses: [(&str, &[usize]); 5] =
        [("all", &[0, 1, 2]), ("line", &[0]), ("permits", &[1]), ("semaphore", &[1, 2]), ("waiters", &[2])];
    let mut taken = Vec::new();
    for (name, parts) in uses {
        for &at in parts {
            let (part, mode) = PARTS[at];
            let queue = part_of(name, part);
            taken.push((queue.clone(), ann.take(&queue, mode).await.ticket));
        }
    }
    let names = soon("the names", ann.backend.admin().queues("")).await.expect("the queues are named");
    let expected: Arc<[QueueName]> = uses.iter().map(|(name, _)| line(name)).collect();
    assert_eq!(names[..], *expected);
    let names = soon("the names", ann.backend.admin().queues("per")).await.expect("the queues are named");
    assert_eq!(names, [line("permits")]);
    for (queue, ticket) in taken {
        ann.withdraw(&queue, ticket).await;
    }
}
