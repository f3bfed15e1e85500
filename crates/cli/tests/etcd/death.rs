//! Runners that are killed or stopped: their command is dead before the next one starts, and after a death the next one
//! starts in time.

use std::time::Duration;

use lockkeeper_faults::figures;
use rustix::process::Signal;

use crate::machine::{ALL_DEAD, assert_in_time};
use crate::site::{assert_nothing_left, can_start, cluster, site};
use crate::support::{eventually, is_alive, now};

/// Short, since the tests wait for its end, and long enough for a command whose machine stands still for a moment.
const TIMEOUT_MS: u64 = 8_000;

/// How long after its holder's death a lock is handed on at the latest while the leader stays: the timeout, and the
/// time between two looks of etcd at its leases.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + 500);

/// The same if the leader dies with the holder: an election, and the time by which a new leader prolongs each lease.
const HANDED_ON_WITHOUT_LEADER_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + 3_500);

/// How often the leader is killed at most until an election has a winner at once: one without a winner is followed by
/// another, which the bound does not count.
const ATTEMPTS_MAX: u32 = 3;

/// Has no child.
const SINGLE: &str = "echo $$ > child; exec sleep 600";

/// What came of a runner's death.
struct HandedOn {
    after: Duration,
    /// How many elections there were meanwhile, won or not.
    elections: u64,
}

/// Kills a runner, and the leader with it if that is asked for, and waits for the next command.
async fn kill(kills_leader: bool) -> HandedOn {
    let mut cluster = cluster().await;
    let site = site(&cluster, &format!("?session_timeout={TIMEOUT_MS}ms"));
    let holder = site.start(&[], "job", SINGLE, &[]);
    let child = site.note("child");
    let next = site.join("job", 1, ALL_DEAD, &[child.to_string()]);
    assert!(is_alive(child));
    let leader = cluster.leader().await.unwrap();
    let term = cluster.servers()[leader].term().await.unwrap();
    let killed_at = now();
    holder.send(Signal::KILL);
    if kills_leader {
        cluster.server_mut(leader).kill();
    }
    let after =
        eventually("the next command starts", || site.notes().join("next").exists().then(|| killed_at.elapsed()));
    let with = if kills_leader { " with the leader" } else { "" };
    figures::tell(&format!("etcd runner killed{with}: the next command started after {after:?}"));
    let (code, said) = next.end();
    assert_eq!(code, Some(0), "the next command found processes alive: {said}");
    assert_eq!(holder.end().0, None);
    assert_nothing_left(&cluster, &site).await;
    let leader = cluster.leader().await.unwrap();
    HandedOn { after, elections: cluster.servers()[leader].term().await.unwrap() - term }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_and_after_its_commands_death() {
    if can_start("death::when_a_runner_is_killed_the_next_is_granted_in_time_and_after_its_commands_death") {
        let handed_on = kill(false).await;
        assert_in_time(handed_on.after, HANDED_ON_WITHIN);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_runner_and_leader_are_killed_the_next_is_granted_in_time_and_after_the_commands_death() {
    if !can_start("death::when_runner_and_leader_are_killed_the_next_is_granted_in_time_and_after_the_commands_death") {
        return;
    }
    for _ in 0..ATTEMPTS_MAX {
        let handed_on = kill(true).await;
        if handed_on.elections == 1 {
            assert_in_time(handed_on.after, HANDED_ON_WITHOUT_LEADER_WITHIN);
            return;
        }
    }
    panic!("{ATTEMPTS_MAX} times an election had no winner");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_stopped_its_command_is_dead_before_the_next_one_starts_and_it_exits_123() {
    if !can_start("death::when_a_runner_is_stopped_its_command_is_dead_before_the_next_one_starts_and_it_exits_123") {
        return;
    }
    let cluster = cluster().await;
    let site = site(&cluster, &format!("?session_timeout={TIMEOUT_MS}ms"));
    let holder = site.start(&[], "job", SINGLE, &[]);
    let child = site.note("child");
    let next = site.join("job", 1, ALL_DEAD, &[child.to_string()]);
    holder.send(Signal::STOP);
    let (code, said) = next.end();
    assert_eq!(code, Some(0), "the next command found processes alive: {said}");
    holder.send(Signal::CONT);
    let (code, said) = holder.end();
    assert_eq!(code, Some(123), "{said}");
    assert!(said.lines().last().unwrap().starts_with("lockkeeper: job: the lock was lost"), "{said}");
    assert_nothing_left(&cluster, &site).await;
}
