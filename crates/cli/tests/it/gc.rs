//! `gc`: what it prints, that it removes nothing unless told to, and then only what is dead.

use std::fs;
use std::time::Duration;

use lockkeeper_zookeeper::NewNode;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use serde_json::Value;

use crate::server::Server;
use crate::support::{Place, Running};

/// Longer than an empty queue must have been unused.
const OLD: Duration = Duration::from_secs(660);

/// The kinds, locks and outcomes that are printed, in the order of their locks.
fn told(printed: &Value) -> Vec<[&str; 3]> {
    let remnants = printed["remnants"].as_array().unwrap().iter();
    let mut told: Vec<_> =
        remnants.map(|it| ["kind", "lock", "outcome"].map(|field| it[field].as_str().unwrap())).collect();
    told.sort_unstable_by_key(|[_, lock, _]| *lock);
    told
}

/// Makes the directory of a lock that was left long ago.
fn make_old(place: &Place, encoded: &str) {
    let path = place.locks().join("queues").join(encoded);
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join(".enter"), "").unwrap();
    let then = std::time::UNIX_EPOCH.elapsed().unwrap() - OLD;
    let changed = Timespec { tv_sec: then.as_secs().try_into().unwrap(), tv_nsec: 0 };
    let kept = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: kept, last_modification: changed };
    utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
}

/// Leaves a dead contender in the queue of a lock.
fn leave_dead(place: &Place, lock: &str) {
    let mut holder = Running::with_input(&mut place.command(&["hold", lock]));
    place.until_contenders(lock, 1);
    holder.kill();
}

fn queues(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.locks().join("queues")).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_is_left_is_printed_and_removed_only_with_yes() {
    let place = Place::new();
    assert_eq!(place.printed(&["gc"]), format!("{}\nnothing is left behind\n", place.service()));

    let held = place.hold("held");
    assert_eq!(place.run(&["freeze", "ice", "--reason", "disks"]).code, Some(0));
    let hostile = "<b>\u{202e}\u{2066}x";
    leave_dead(&place, hostile);
    make_old(&place, "old");
    fs::create_dir_all(place.locks().join("queues/new")).unwrap();
    let stands = queues(&place);
    let listed = place.printed(&["gc"]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!((lines.len(), lines[0]), (5, &*place.service()), "{listed:?}");
    let dead = "  <b>\\u{202e}\\u{2066}x: a dead contender, ";
    assert!(lines[1..3].iter().any(|line| line.starts_with(dead)), "{listed:?}");
    assert!(lines[1..3].iter().any(|line| line.starts_with("  old: an empty queue, ")), "{listed:?}");
    assert_eq!(lines[3..], ["to remove 2:", "    lockkeeper gc --yes"]);
    let expected = |outcome| vec![["dead", hostile, outcome], ["empty", "old", outcome]];
    assert_eq!(told(&place.json(&["gc", "--json"])), expected("listed"));
    assert_eq!(told(&place.json(&["gc", "--force", "--json"])), expected("listed"));
    assert_eq!(queues(&place), stands, "without --yes nothing is removed");

    let removed = place.printed(&["gc", "--yes"]);
    assert!(removed.ends_with("\n2 removed\n"), "{removed:?}");
    assert_eq!(queues(&place), ["held", "ice", "new"]);
    assert_eq!((place.contenders("held"), place.contenders("ice")), (1, 1));
    held.end();

    make_old(&place, "older");
    assert_eq!(told(&place.json(&["gc", "--yes", "--json"])), [["empty", "older", "removed"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contender_without_a_session_goes_only_with_force() {
    let place = Place::new();
    let server = Server::start(&place, &[]);
    let client = server.client("").await;
    let node = "/lockkeeper/door/_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000003";
    for path in ["/lockkeeper", "/lockkeeper/door", node] {
        client.create(NewNode::persistent(path)).await.unwrap();
    }
    let of = |arguments: &[&str]| place.run(&[arguments, &["--connect", server.url()]].concat());
    let told_of = |arguments: &[&str]| of(arguments).json();
    let ended = of(&["doctor", "--json"]);
    assert!(ended.code == Some(2) && ended.stdout.contains("blocks its lock for ever"), "{ended:?}");
    let listed = of(&["gc"]);
    assert!(listed.stdout.contains(&format!("{node} (only with --force)\n")), "{listed:?}");
    assert!(
        listed.stdout.ends_with(&format!("    lockkeeper --connect {} gc --yes --force\n", server.url())),
        "{listed:?}"
    );
    assert_eq!(told(&told_of(&["gc", "--yes", "--json"])), [["unbound", "door", "needs-force"]]);
    assert!(client.exists(node).await.unwrap().is_some());
    assert_eq!(told(&told_of(&["gc", "--yes", "--force", "--json"])), [["unbound", "door", "removed"]]);
    assert!(client.exists(node).await.unwrap().is_none());
    assert!(!of(&["doctor", "--json"]).stdout.contains("blocks its lock for ever"));
}
