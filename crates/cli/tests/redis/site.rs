//! Simulated machines that use a server, and many commands that count.

use lockkeeper_faults::figures;
use lockkeeper_faults::redis::availability;

use crate::machine::{COUNT, Running, Site};
use crate::support::now;

/// Long enough for commands that are started fifty at once.
pub(crate) const SETTINGS: &str = "session_timeout=10s";

/// How many commands count at once.
const COUNTING: u32 = 50;

/// Whether real servers can be started; if not, the test is skipped by name.
pub(crate) fn can_start(test: &str) -> bool {
    availability().or_skip(test)
}

/// Has fifty commands count at once, and asserts that none is lost and that nothing is left.
pub(crate) fn fifty_count(url: &str, who: &str) {
    let site = Site::of(url);
    site.write("counter", "0\n");
    let begun = now();
    // No command waits for a server that comes back.
    let commands: Vec<Running> =
        (0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, &["never".to_owned()])).collect();
    end(commands);
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    site.assert_nothing_left();
    figures::tell(&format!("redis, {who}: {COUNTING} counted in {:.1} s, none lost", begun.elapsed().as_secs_f64()));
}

/// Asserts that all commands succeed and say nothing.
pub(crate) fn end(commands: Vec<Running>) {
    for command in commands {
        let (code, said) = command.end();
        assert_eq!((code, said.as_str()), (Some(0), ""));
    }
}

/// Asserts that a command fails at once, with one line that has these words and no password.
pub(crate) fn assert_refused(url: &str, words: &[&str]) {
    let ended = Site::of(url).place.run(&["run", "-n", "count", "--", "true"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(125), "", 1), "{ended:?}");
    assert!(ended.stderr.starts_with("lockkeeper: count: "), "{ended:?}");
    assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?}: {ended:?}");
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}
