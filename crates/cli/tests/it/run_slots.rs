//! `lockkeeper run --once-per` and `--slot`: the command is run once for each slot.

use lockkeeper_faults::long;

use crate::support::{Place, finish, slots};

#[test]
fn the_command_of_a_slot_is_run_once_and_others_end_with_0_and_say_nothing() {
    let place = Place::new();
    let script = r#"echo "$LOCKKEEPER_SLOT"; exit 7"#;
    let run = |options: &[&str]| finish(&mut place.script_of(options, script));
    for (slot, expected) in [("2026-11-28", "2026-11-28\n"), ("2026-11-29", "2026-11-29\n")] {
        let first = run(&["--slot", slot]);
        assert_eq!((first.code, first.stdout.as_str(), first.stderr.as_str()), (Some(7), expected, ""));
        for options in [&["--slot", slot][..], &["--slot", slot, "--retry-failed"], &["--slot", slot, "-n"]] {
            let again = run(options);
            assert_eq!((again.code, again.stdout.as_str(), again.stderr.as_str()), (Some(0), "", ""), "{options:?}");
        }
    }
    // It lasts for longer than any test, and begins with 1970.
    let age = ["--once-per", "36500d"];
    assert_eq!(run(&age).stdout, "@0\n");
    assert_eq!(run(&age).code, Some(0));
    assert_ne!(run(&["--once-per", "1s"]).stdout, "");
    let older = run(&age);
    assert_eq!((older.code, older.stdout.as_str()), (Some(124), ""));
    assert!(older.stderr.contains("begins later than this one; the command was not run"), "{older:?}");
    assert_eq!(run(&["--once-per", "36500d", "-E", "0"]).stderr, "");
}

#[test]
fn with_retry_failed_a_command_that_failed_is_run_again_and_one_that_ended_with_0_is_not() {
    let place = Place::new();
    let codes = ["exit 7", "kill -9 $$", "exit 0"]
        .map(|script| finish(&mut place.script_of(&["--slot", "a", "--retry-failed"], script)).code);
    assert_eq!(codes, [Some(7), Some(137), Some(0)]);
    let over = finish(&mut place.script_of(&["--slot", "a", "--retry-failed"], "exit 7"));
    assert_eq!(over.code, Some(0));
}

#[test]
fn options_that_say_no_slot_are_refused() {
    let place = Place::new();
    for (options, words) in [
        (&["--slot", "a b"][..], "a blank"),
        (&["--once-per", "500ms"], "full seconds"),
        (&["--once-per", "0"], "full seconds"),
        (&["--retry-failed"], "--once-per or --slot"),
        (&["--slot", "a", "--once-per", "1h"], "cannot be used with"),
        (&["--slot", "a", "--restart"], "cannot be used with"),
    ] {
        finish(&mut place.script_of(options, "true")).assert_refused(125, &[words]);
    }
}

#[test]
fn of_runs_that_are_killed_and_stopped_none_repeats_a_slot_and_with_retry_failed_each_slot_is_done() {
    // In the long run as many as on the other services.
    slots::play(&Place::new(), if long::is_asked_for() { [50, 100] } else { [20, 4] });
}
