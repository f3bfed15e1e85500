//! Runners on ZooKeeper that are killed, also with their watchdog, or stopped: their command is dead before the next
//! one starts, and that starts in time.

use std::time::Duration;

use lockkeeper_faults::zookeeper::Server;
use rustix::process::Signal;

use crate::death::{Queue, SINGLE};
use crate::site::assert_in_time;
use crate::support::{now, send};
use crate::zookeeper::{nodes, server, site};

/// The session's timeout is sixteen ticks, and is granted as it is asked for. It is short, since the tests wait for its
/// end, and long enough for a command whose machine stands still for a moment.
const SETTINGS: &str = "?session_timeout=8s&tick=500ms";

/// How long after its holder's death a lock is handed on at the latest: the timeout, 1.5 ticks and a second.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(8_000 + 750 + 1_000);

/// How long after its runner was stopped a command may live at the latest: half a second less than the timeout.
const DEAD_WITHIN: Duration = Duration::from_millis(8_000 - 500);

/// Ignores requests to end, and so does its child.
const STUBBORN: &str = r#"
    trap '' TERM
    echo $PPID > watchdog
    sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 600); do sleep 1; done' 2> /dev/null &
    echo $$ > child
    for second in $(seq 600); do sleep 1; done"#;

/// A server and a queue there; `None` where none can be started, and the test is skipped.
async fn queue(script: &str, processes: &[&str]) -> Option<(Server, Queue)> {
    let server = server().await?;
    let queue = Queue::start(site(&server, SETTINGS), script, processes);
    Some((server, queue))
}

#[tokio::test(flavor = "multi_thread")]
async fn when_runner_and_watchdog_are_killed_the_next_is_granted_in_time_and_after_the_commands_death() {
    let Some((server, queue)) = queue(SINGLE, &["child"]).await else { return };
    let watchdog = queue.site.note("watchdog");
    queue.holder.send(Signal::KILL);
    let killed = now();
    send(watchdog, Signal::KILL);
    assert_in_time(queue.hand_over("ZooKeeper runner and watchdog killed", killed).started_after, HANDED_ON_WITHIN);
    assert_eq!(queue.end().1.code, None);
    assert_eq!(nodes(&server).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_runner_is_killed_the_next_is_granted_in_time_and_after_the_death_of_all_processes() {
    let Some((server, queue)) = queue(STUBBORN, &["child", "grandchild"]).await else { return };
    queue.holder.send(Signal::KILL);
    assert_in_time(queue.hand_over("ZooKeeper runner killed", now()).started_after, HANDED_ON_WITHIN);
    assert_eq!(queue.end().1.code, None);
    assert_eq!(nodes(&server).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_runner_is_stopped_for_longer_than_its_timeout_its_command_is_dead_first_and_it_exits_123() {
    let Some((server, queue)) = queue(STUBBORN, &["child", "grandchild"]).await else { return };
    queue.holder.send(Signal::STOP);
    assert_in_time(queue.hand_over("ZooKeeper runner stopped", now()).dead_after, DEAD_WITHIN);
    queue.holder.send(Signal::CONT);
    queue.end_lost();
    assert_eq!(nodes(&server).await, [""; 0]);
}
