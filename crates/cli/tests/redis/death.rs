//! Runners that are killed or stopped: their command is dead before the next one starts, and after a death the next one
//! starts in time.

use std::time::Duration;

use lockkeeper_faults::figures;
use lockkeeper_faults::redis::Server;
use rustix::process::Signal;

use crate::machine::{ALL_DEAD, Site, assert_in_time};
use crate::site::can_start;
use crate::support::{eventually, is_alive, now};

/// Short, since the tests wait for its end, and long enough for a command whose machine stands still for a moment.
const TIMEOUT_MS: u64 = 8_000;

/// How long after its holder's death a lock is handed on at the latest: the timeout, the time until the waiter's next
/// renewal, and half a second for a busy machine.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + TIMEOUT_MS / 6 + 500);

/// Has no child.
const SINGLE: &str = "echo $$ > child; exec sleep 600";

fn site(server: &Server) -> Site {
    Site::of(&format!("redis://{}?session_timeout={TIMEOUT_MS}ms", server.address()))
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_and_after_its_commands_death() {
    if !can_start("death::when_a_runner_is_killed_the_next_is_granted_in_time_and_after_its_commands_death") {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let site = site(&server);
    let holder = site.start(&["-q"], "job", SINGLE, &[]);
    let child = site.note("child");
    let next = site.join("job", 1, ALL_DEAD, &[child.to_string()]);
    assert!(is_alive(child));
    let killed_at = now();
    holder.send(Signal::KILL);
    let handed_on_after =
        eventually("the next command starts", || site.notes().join("next").exists().then(|| killed_at.elapsed()));
    figures::tell(&format!("redis runner killed: the next command started after {handed_on_after:?}"));
    assert_in_time(handed_on_after, HANDED_ON_WITHIN);
    let (code, said) = next.end();
    assert_eq!(code, Some(0), "the next command found processes alive: {said}");
    assert_eq!(holder.end().0, None);
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_stopped_its_command_is_dead_before_the_next_one_starts_and_it_exits_123() {
    if !can_start("death::when_a_runner_is_stopped_its_command_is_dead_before_the_next_one_starts_and_it_exits_123") {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let site = site(&server);
    let holder = site.start(&["-q"], "job", SINGLE, &[]);
    let child = site.note("child");
    let next = site.join("job", 1, ALL_DEAD, &[child.to_string()]);
    holder.send(Signal::STOP);
    let (code, said) = next.end();
    assert_eq!(code, Some(0), "the next command found processes alive: {said}");
    holder.send(Signal::CONT);
    let (code, said) = holder.end();
    assert_eq!(code, Some(123), "{said}");
    assert!(said.lines().last().unwrap().starts_with("lockkeeper: job: the lock was lost"), "{said}");
    site.assert_nothing_left();
}
