//! Runners that are killed: their command is dead before the next one starts, and the next one starts in time.

use std::time::Duration;

use lockkeeper_faults::{figures, mariadb, postgres};
use rustix::process::Signal;

use crate::machine::{ALL_DEAD, Site, assert_in_time};
use crate::support::{eventually, is_alive, now};

/// Short, since the tests wait for its end, and long enough for a command whose machine stands still for a moment.
const TIMEOUT_MS: u64 = 8_000;

/// How long after its holder's death a lock is handed on at the latest: 1.25 session timeouts and a second.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + TIMEOUT_MS / 4 + 1_000);

/// Has no child.
const SINGLE: &str = "echo $$ > child; exec sleep 600";

/// Kills a runner, and asserts that the next one is granted in time and after its command's death.
fn next_is_granted(url: &str, who: &str) {
    let site = Site::of(&format!("{url}?session_timeout={TIMEOUT_MS}ms"));
    let holder = site.start(&["-q"], "job", SINGLE, &[]);
    let child = site.note("child");
    let next = site.join("job", 1, ALL_DEAD, &[child.to_string()]);
    assert!(is_alive(child));
    let killed_at = now();
    holder.send(Signal::KILL);
    let handed_on_after =
        eventually("the next command starts", || site.notes().join("next").exists().then(|| killed_at.elapsed()));
    figures::tell(&format!("{who}: runner killed: the next command started after {handed_on_after:?}"));
    assert_in_time(handed_on_after, HANDED_ON_WITHIN);
    let (code, said) = next.end();
    assert_eq!(code, Some(0), "the next command found processes alive: {said}");
    assert_eq!(holder.end().0, None);
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_on_postgresql() {
    if !postgres::availability().or_skip("death::when_a_runner_is_killed_the_next_is_granted_in_time_on_postgresql") {
        return;
    }
    let server = postgres::Server::standalone().await.expect("a server");
    next_is_granted(&server.url("postgres"), "PostgreSQL");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_on_mariadb() {
    if !mariadb::availability().or_skip("death::when_a_runner_is_killed_the_next_is_granted_in_time_on_mariadb") {
        return;
    }
    let server = mariadb::Server::standalone().await.expect("a server");
    next_is_granted(&server.url(""), "MariaDB");
}
