//! `cargo xtask test` as a developer runs it, with stand-ins for cargo and for the programs that install: what it
//! installs, what it leaves out, and how it ends.

mod stage;

use stage::{Stage, is_root};

/// The last lines of a run without a failure: one test of the workspace, and one of its documentation.
const ALL_PASSED: &str = "\n2 passed, 0 failed, 0 skipped\n";

/// Two tests of which one skips itself, and one of the documentation.
const SKIPPING_TESTS: &str = r#"case "$*" in *--doc) say 1 0; exit ;; esac
    echo "pairs: kazoo is not there" >> "$LOCKKEEPER_TEST_SKIPS"
    say 2 0"#;

#[test]
fn the_plain_command_installs_kazoo_into_an_empty_target_directory() {
    const NAME: &str = "the_plain_command_installs_kazoo_into_an_empty_target_directory";
    let stage = Stage::with_this_machines_programs();
    if let Some(reason) = stage.cannot_reach_pypi() {
        return stage::skip(NAME, &reason);
    }
    // Passes if Python finds kazoo where the tests look for it.
    stage.tests(
        r#"if PYTHONPATH="$CARGO_TARGET_DIR/lockkeeper-python/kazoo" python3 -c 'import kazoo.client'
        then say 1 0; else say 0 1; fi"#,
    );
    let ended = stage.run(&["test"]);
    assert!(ended.is_success && ended.output.ends_with(ALL_PASSED), "{ended:?}");
    assert!(ended.output.contains("missing: kazoo from PyPI"), "{ended:?}");
    let again = stage.run(&["test"]);
    assert!(again.output.contains("Python parts that tests use are in the target directory\n"), "{again:?}");
}

#[test]
fn as_root_what_is_missing_is_installed_without_being_asked_for() {
    if !is_root() {
        return stage::skip("as_root_what_is_missing_is_installed_without_being_asked_for", "needs root");
    }
    let stage = Stage::bare();
    stage.program("apt-get", r#"echo "$*" >> "$NOTES/apt-get"; test "$1" != install || touch "$PROGRAMS/go""#);
    let ended = stage.run(&["test"]);
    assert!(ended.is_success && ended.output.ends_with(ALL_PASSED), "{ended:?}");
    let orders = stage.note("apt-get");
    assert!(orders.starts_with("update\ninstall --yes --no-install-recommends "), "{orders}");
    assert!(orders.lines().nth(1).is_some_and(|line| line.contains("golang-go")), "{orders}");
    // A package that apt-get says it installed, but that is missing, is left out with a reason.
    assert!(ended.output.contains("left out: procps: it is installed, but ps is missing"), "{ended:?}");
    assert!(!ended.output.contains("left out: golang-go:"), "{ended:?}");
}

#[test]
fn a_package_that_cannot_be_had_keeps_no_other_away() {
    if !is_root() {
        return stage::skip("a_package_that_cannot_be_had_keeps_no_other_away", "needs root");
    }
    let stage = Stage::bare();
    let script = r#"case "$*" in *procps*) exit 100 ;; install*golang-go) touch "$PROGRAMS/go" ;; esac"#;
    stage.program("apt-get", script);
    let ended = stage.run(&["test"]);
    assert!(ended.is_success, "{ended:?}");
    assert!(ended.output.contains("left out: procps: apt-get install"), "{ended:?}");
    assert!(!ended.output.contains("left out: golang-go:"), "{ended:?}");
}

#[test]
fn nothing_is_installed_if_that_is_wished_and_what_is_missing_is_named_with_its_cure() {
    let stage = Stage::bare();
    stage.program("apt-get", r#"echo "$*" >> "$NOTES/apt-get""#);
    stage.program("python3", r#"echo "$*" >> "$NOTES/python3""#);
    let ended = stage.run(&["test", "--no-install"]);
    assert!(ended.is_success && ended.output.ends_with(ALL_PASSED), "{ended:?}");
    assert!(ended.output.contains("as --no-install says; as root: apt-get install"), "{ended:?}");
    assert!(ended.output.contains("kazoo from PyPI: not installed, as --no-install says"), "{ended:?}");
    assert!(!stage.has_note("apt-get") && !stage.has_note("python3"), "something was installed");
}

#[test]
fn a_user_who_is_not_root_is_told_what_is_missing_and_the_run_goes_on_to_list_what_was_skipped() {
    const NAME: &str = "a_user_who_is_not_root_is_told_what_is_missing_and_the_run_goes_on_to_list_what_was_skipped";
    let stage = Stage::bare();
    stage.program("apt-get", r#"echo "$*" >> "$NOTES/apt-get""#);
    stage.tests(SKIPPING_TESTS);
    let ended = match stage.run_as_another_user(&["test"]) {
        Ok(ended) => ended,
        Err(reason) => return stage::skip(NAME, &reason),
    };
    assert!(ended.is_success, "{ended:?}");
    assert!(ended.output.contains("installing needs root; as root: apt-get install"), "{ended:?}");
    assert!(
        ended.output.ends_with("\nskipped:\n  pairs: kazoo is not there\n\n2 passed, 0 failed, 1 skipped\n"),
        "{ended:?}"
    );
    assert!(!stage.has_note("apt-get"), "apt-get was called without being root");
}

#[test]
fn a_run_that_requires_all_fails_for_a_skip() {
    let stage = Stage::bare();
    stage.tests(SKIPPING_TESTS);
    let ended = stage.run(&["test", "--no-install", "--require-all"]);
    assert!(!ended.is_success && ended.output.ends_with("\n2 passed, 0 failed, 1 skipped\n"), "{ended:?}");
}

/// Notes what is run and how long the rounds are to be, and tells figures.
const NOTING_TESTS: &str = r#"echo "$* long=$LOCKKEEPER_TEST_LONG" >> "$NOTES/tests"
    echo "rounds: 50, violations: 0" >> "$LOCKKEEPER_TEST_FIGURES"
    say 1 0"#;

#[test]
fn the_long_run_plays_long_rounds_and_ends_with_their_figures() {
    let stage = Stage::bare();
    stage.tests(NOTING_TESTS);
    let ended = stage.run(&["test", "--long", "--no-install"]);
    assert!(ended.is_success && ended.output.contains("\nfigures:\n  rounds: 50, violations: 0\n"), "{ended:?}");
    assert_eq!(stage.note("tests"), " long=1\n");
    assert!(stage.note("builds").contains(" --test it --no-run"), "{}", stage.note("builds"));
    assert!(ended.output.ends_with("\n1 passed, 0 failed, 0 skipped\n"), "{ended:?}");
}

#[test]
fn the_plain_run_plays_short_rounds_and_tells_their_figures_too() {
    let stage = Stage::bare();
    stage.tests(NOTING_TESTS);
    let ended = stage.run(&["test", "--no-install"]);
    assert!(ended.output.contains("\nfigures:\n  rounds: 50, violations: 0\n"), "{ended:?}");
    let orders = stage.note("tests");
    assert!(orders.lines().count() == 2 && orders.lines().all(|line| line.ends_with("long=")), "{orders}");
}

#[test]
fn the_whole_run_has_the_tests_with_few_features_too() {
    let ended = Stage::bare().run(&["test", "--all", "--no-install"]);
    assert!(ended.is_success && ended.output.ends_with("\n3 passed, 0 failed, 0 skipped\n"), "{ended:?}");
}

#[test]
fn test_binaries_run_at_the_same_time() {
    let stage = Stage::bare();
    stage.tests(
        r#"case "$*" in *--doc) own=doc other=code ;; *) own=code other=doc ;; esac
        touch "$NOTES/$own"; tries=0
        until test -e "$NOTES/$other"; do tries=$((tries + 1)); test $tries -lt 100000 || break; done
        say $((tries < 100000)) 0"#,
    );
    let ended = stage.run(&["test", "--no-install"]);
    assert!(ended.is_success && ended.output.ends_with(ALL_PASSED), "{ended:?}");
}

#[test]
fn what_passed_is_not_listed_and_what_failed_is_shown_at_once_and_at_the_end() {
    let stage = Stage::bare();
    stage.tests(
        r#"echo 'test good ... ok'; echo 'test bad ... FAILED'; echo; echo 'failures:'; echo
        echo '---- bad stdout ----'; echo wrong; echo; say 1 1; exit 101"#,
    );
    let ended = stage.run(&["test", "--no-install"]);
    assert!(!ended.is_success && !ended.output.contains("test good"), "{ended:?}");
    assert!(ended.output.contains("it: test bad ... FAILED\n"), "{ended:?}");
    assert!(ended.output.contains("\nfailed:\n  bad\n    wrong\n"), "{ended:?}");
    let verbose = stage.run(&["test", "--no-install", "--verbose"]);
    assert!(verbose.output.contains("\ntest good ... ok\n"), "{verbose:?}");
}

#[test]
fn tests_run_with_the_default_signals_though_the_run_was_started_with_ignored_ones() {
    let stage = Stage::bare();
    // A signal that a shell was started with as ignored cannot be caught by it.
    stage.tests(r#"trap 'touch "$NOTES/$1caught"' HUP INT; kill -HUP $$; kill -INT $$; say 1 0"#);
    let ended = stage.run_with_ignored_signals(&["test", "--no-install"]);
    assert!(ended.is_success && stage.has_note("caught"), "{ended:?}");
}

#[test]
fn what_is_wrong_with_dependencies_packages_features_or_lints_fails_the_check_in_its_stage() {
    let stage = Stage::bare();
    for (pattern, failed) in [
        ("metadata*", &["dependencies", "packages"][..]),
        ("package*--workspace*", &["packages"]),
        ("clippy*--package*--features*tls*", &["features"]),
        ("clippy*--workspace*", &["clippy"]),
    ] {
        stage.cargo_fails_at(pattern);
        let ended = stage.run(&["check"]);
        assert!(
            !ended.is_success && ended.output.ends_with("\n1 passed, 0 failed, 0 skipped\n"),
            "{pattern}: {ended:?}"
        );
        let failures: Vec<&str> = ended
            .output
            .lines()
            .filter_map(|line| line.strip_prefix("== ")?.split_once(" FAILED"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(failures, failed, "{pattern}");
    }
}

#[test]
fn tests_that_cannot_be_built_fail_the_run() {
    let stage = Stage::bare();
    stage.cargo_fails_at("*--no-run*");
    let ended = stage.run(&["test", "--no-install"]);
    assert!(!ended.is_success && ended.output.ends_with("\n0 passed, 0 failed, 0 skipped\n"), "{ended:?}");
}

#[test]
fn an_oldest_rust_that_cannot_be_had_is_skipped_with_the_cure_and_listed_and_fails_no_run() {
    let ended = Stage::bare().run(&["test", "--long", "--require-all"]);
    assert!(ended.is_success, "{ended:?}");
    assert!(ended.output.contains("there is no apt-get here; install by hand"), "{ended:?}");
    let skipped = ended.output.lines().find(|line| line.starts_with("== oldest Rust skipped: "));
    assert!(skipped.is_some_and(|line| line.contains(": rustup toolchain install ")), "{ended:?}");
    let (_, report) = ended.output.split_once("\nleft out of the set-up:\n").unwrap_or_else(|| panic!("{ended:?}"));
    let listed = report.lines().take_while(|line| line.starts_with("  ")).find(|line| line.starts_with("  Rust "));
    assert!(listed.is_some_and(|line| line.contains("there is no rustup here")), "{ended:?}");
}

#[test]
fn a_missing_oldest_rust_is_installed_through_rustup_and_compiles_the_workspace() {
    let stage = Stage::bare();
    stage.program(
        "rustup",
        r#"echo "$*" >> "$NOTES/rustup"
        case "$1" in toolchain) touch "$NOTES/installed" ;; *) test -e "$NOTES/installed" ;; esac"#,
    );
    let ended = stage.run(&["test", "--long"]);
    assert!(ended.is_success && !ended.output.contains("oldest Rust skipped"), "{ended:?}");
    let orders = stage.note("rustup");
    assert!(orders.contains("\ntoolchain install "), "{orders}");
    assert!(orders.ends_with(" cargo check --workspace --exclude lockkeeper-sqlx --all-features\n"), "{orders}");
}

#[test]
fn a_workspace_that_the_oldest_rust_does_not_compile_fails_the_run() {
    let stage = Stage::bare();
    stage.program("rustup", r#"case "$*" in *check*) exit 101 ;; esac"#);
    let ended = stage.run(&["test", "--long", "--no-install"]);
    assert!(!ended.is_success && ended.output.contains("== oldest Rust FAILED"), "{ended:?}");
}
