//! `run` while the directory of its locks, or one above it, is renamed or replaced.

use std::fs;
use std::time::Duration;

use lockkeeper_faults::long;
use tempfile::TempDir;

use crate::support::{Holder, Place, now};

/// Within which time a running process notices; judged in the long run.
const NOTICE_MAX: Duration = Duration::from_secs(1);

/// How often it is tried: all ways in turn.
const ROUNDS: usize = 20;

/// What is renamed, and whether something else gets its name.
const WAYS: [(&str, bool); 5] =
    [("up/base", false), ("up/base", true), ("up", false), ("up/base/queues", false), ("up/base/queues/x", true)];

#[test]
fn the_holders_command_is_ended_within_a_second_and_the_waiters_runs_in_the_new_directory() {
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let (what, is_replaced) = WAYS[round % WAYS.len()];
        let root = TempDir::new().unwrap();
        let base = root.path().join("up/base");
        fs::create_dir_all(&base).unwrap();
        let place = Place::of(&format!("file:{}", base.display()));
        let mut holder = Holder::start(&mut place.script_of(&[], "echo held; exec sleep 600"));
        let script = format!(r#"test -p "{}/queues/x/$LOCKKEEPER_CONTENDER" && echo mine"#, base.display());
        let waiter = place.start(&[], &script);
        place.until_contenders("x", 2);

        let from = root.path().join(what);
        let replaced_at = now();
        fs::rename(&from, from.with_extension("old")).unwrap();
        if is_replaced {
            // The waiter may have made it anew in between.
            fs::create_dir_all(&from).unwrap();
        }
        assert_eq!(holder.process.code(), Some(123), "{what}");
        let took = replaced_at.elapsed();
        assert!(!long::is_asked_for() || took < NOTICE_MAX, "{what}: the holder's end took {took:?}");
        let waiter = waiter.end();
        let waited = replaced_at.elapsed();
        assert_eq!((waiter.code, waiter.stdout.as_str()), (Some(0), "mine\n"), "{what}: {}", waiter.stderr);
        assert!(!long::is_asked_for() || waited < 2 * NOTICE_MAX, "{what}: the waiter's command took {waited:?}");
        longest = longest.max(took);
    }
    println!("the longest of {ROUNDS} ends took {longest:?}");
}
