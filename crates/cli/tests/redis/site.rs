//! Simulated machines that use a server, and many commands that count.

use lockkeeper_faults::redis::availability;
use lockkeeper_faults::{figures, wait};

use crate::machine::{self, COUNT, Running, Site};
use crate::support::now;

/// Long enough for commands that are started fifty at once.
pub(crate) const SETTINGS: &str = "session_timeout=30s";

/// For how long a server is asked that refuses, and may be better later.
pub(crate) const BRIEFLY: &str = "connect_timeout=1s";

/// How many commands count at once.
const COUNTING: usize = 50;

/// How many of them have counted when a service changes, and how many have not.
pub(crate) const HALF_COUNTING: usize = COUNTING / 2;

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
    site.succeed(commands);
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    site.assert_nothing_left();
    figures::tell(&format!("redis, {who}: {COUNTING} counted in {:.1} s, none lost", begun.elapsed().as_secs_f64()));
}

/// The same while a service changes: when half have counted, and until it has changed, one command holds the lock.
pub(crate) async fn fifty_count_over(url: &str, who: &str, change: impl AsyncFnOnce()) {
    let site = Site::of(url);
    site.write("counter", "0\n");
    let begun = now();
    let half = HALF_COUNTING.to_string();
    let commands = (0..COUNTING).map(|_| site.start(&["-q"], "count", COUNT, std::slice::from_ref(&half))).collect();
    let reached = async || (site.read("counter").trim() == half).then_some(());
    wait::until("half of them", machine::SOON, reached).await.expect("they count");
    change().await;
    site.write("restarted", "");
    site.succeed(commands);
    assert_eq!(site.read("counter"), format!("{COUNTING}\n"));
    site.assert_nothing_left();
    figures::tell(&format!("redis, {who}: {COUNTING} counted in {:.1} s, none lost", begun.elapsed().as_secs_f64()));
}

/// Asserts that a command fails, with one line that has these words and no password. A URL with [`BRIEFLY`] is that of
/// a server that may be better later; where the machine is too busy for an answer by then, it is asked for longer.
pub(crate) fn assert_refused(url: &str, words: &[&str]) {
    let run = |url: &str| Site::of(url).place.run(&["run", "-n", "count", "--", "true"]);
    let mut ended = run(url);
    if url.contains(BRIEFLY) && ended.stderr.ends_with("not answered before the deadline\n") {
        ended = run(&url.replace(BRIEFLY, "connect_timeout=30s"));
    }
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(125), "", 1), "{ended:?}");
    assert!(ended.stderr.starts_with("lockkeeper: count: "), "{ended:?}");
    assert!(words.iter().all(|word| ended.stderr.contains(word)), "{words:?}: {ended:?}");
    assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
}
