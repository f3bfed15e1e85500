//! Runners that are killed, stopped, or have their place taken away: their command is dead before the next one starts,
//! and the next one starts in time.

use std::fs;
use std::time::{Duration, Instant};

use lockkeeper_faults::zookeeper::Server;
use lockkeeper_zookeeper::{Client, Config};
use rustix::process::Signal;

use crate::machine::assert_in_time;
use crate::site::{ALL_DEAD, LONG, Running, Site, can_start, nodes, server};
use crate::support::{eventually, is_alive, now, send};

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

/// Has no child.
const SINGLE: &str = "echo $PPID > watchdog; echo $$ > child; exec sleep 600";

/// A holder, the processes of its command, and the contender behind it, whose command tells whether it found any of
/// them alive.
struct Queue {
    server: Server,
    site: Site,
    holder: Running,
    pids: Vec<i32>,
    next: Running,
}

/// When things happened, from the fault on.
#[derive(Debug)]
struct HandOver {
    dead_after: Duration,
    started_after: Duration,
}

impl Queue {
    async fn start(script: &str, processes: &[&str]) -> Self {
        let server = server().await;
        let site = Site::new(&server.address().to_string(), SETTINGS);
        let holder = site.start(&[], "job", script, &[]);
        let pids: Vec<i32> = processes.iter().map(|name| site.note(name)).collect();
        let arguments: Vec<String> = pids.iter().map(i32::to_string).collect();
        let next = site.join("job", 1, ALL_DEAD, &arguments);
        assert!(pids.iter().copied().all(is_alive));
        Self { server, site, holder, pids, next }
    }

    /// Watches until the next command starts.
    fn hand_over(&self, since: Instant) -> HandOver {
        let mut dead_after = None;
        let started_after = eventually("the next command starts", || {
            if dead_after.is_none() && !self.pids.iter().copied().any(is_alive) {
                dead_after = Some(since.elapsed());
            }
            self.site.notes().join("next").exists().then(|| since.elapsed())
        });
        // Whether they were dead before it started, the next command says; this may have looked too late for both.
        HandOver { dead_after: dead_after.unwrap_or(started_after), started_after }
    }

    /// Waits for the end of all, and asserts that nothing of them is left; returns how the holder ended.
    async fn end(self) -> (Option<i32>, String) {
        let (code, said) = self.next.end();
        assert_eq!(code, Some(0), "the next command found processes alive: {said}");
        let ended = self.holder.end();
        assert_eq!(nodes(&self.server).await, [""; 0]);
        self.site.assert_nothing_left();
        ended
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_runner_and_watchdog_are_killed_the_next_is_granted_in_time_and_after_the_commands_death() {
    if !can_start("death::when_runner_and_watchdog_are_killed_the_next_is_granted_in_time_and_after_the_commands_death")
    {
        return;
    }
    let queue = Queue::start(SINGLE, &["child"]).await;
    let watchdog = queue.site.note("watchdog");
    queue.holder.send(Signal::KILL);
    let killed = now();
    send(watchdog, Signal::KILL);
    let hand_over = queue.hand_over(killed);
    eprintln!("runner and watchdog killed: {hand_over:?}");
    assert_in_time(hand_over.started_after, HANDED_ON_WITHIN);
    assert_eq!(queue.end().await.0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_runner_is_killed_the_next_is_granted_in_time_and_after_the_death_of_all_processes() {
    if !can_start("death::when_the_runner_is_killed_the_next_is_granted_in_time_and_after_the_death_of_all_processes") {
        return;
    }
    let queue = Queue::start(STUBBORN, &["child", "grandchild"]).await;
    queue.holder.send(Signal::KILL);
    let hand_over = queue.hand_over(now());
    eprintln!("runner killed: {hand_over:?}");
    assert_in_time(hand_over.started_after, HANDED_ON_WITHIN);
    assert_eq!(queue.end().await.0, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_runner_is_stopped_for_longer_than_its_timeout_its_command_is_dead_first_and_it_exits_123() {
    if !can_start(
        "death::when_the_runner_is_stopped_for_longer_than_its_timeout_its_command_is_dead_first_and_it_exits_123",
    ) {
        return;
    }
    let queue = Queue::start(STUBBORN, &["child", "grandchild"]).await;
    queue.holder.send(Signal::STOP);
    let hand_over = queue.hand_over(now());
    eprintln!("runner stopped: {hand_over:?}");
    assert_in_time(hand_over.dead_after, DEAD_WITHIN);
    queue.holder.send(Signal::CONT);
    let (code, said) = queue.end().await;
    assert_eq!(code, Some(123), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("lockkeeper: job: the lock was lost"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("lockkeeper: job: ")).count(), 1, "told once: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_an_operator_deletes_the_node_the_command_is_ended_and_the_runner_exits_123() {
    if !can_start("death::when_an_operator_deletes_the_node_the_command_is_ended_and_the_runner_exits_123") {
        return;
    }
    let server = server().await;
    let site = Site::new(&server.address().to_string(), LONG);
    let script = "echo $LOCKKEEPER_CONTENDER > contender; echo $$ > child; exec sleep 600";
    let holder = site.start(&[], "job", script, &[]);
    let child = site.note("child");
    delete_node(&server, &site).await;
    let deleted = now();
    let (code, said) = holder.end();
    eprintln!("node deleted: the runner ended after {:?}", deleted.elapsed());
    assert_eq!(code, Some(123), "{said}");
    assert!(said.contains("removed from the queue"), "{said}");
    assert!(!is_alive(child));
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_outlives_its_lock_is_told_of_the_loss_by_check() {
    if !can_start("death::a_command_that_outlives_its_lock_is_told_of_the_loss_by_check") {
        return;
    }
    let server = server().await;
    let site = Site::new(&server.address().to_string(), LONG);
    let script = r#"
        echo $LOCKKEEPER_CONTENDER > contender
        while "$LOCKKEEPER" check; do echo $$ > child; sleep 0.05; done
        "$LOCKKEEPER" check
        exit $((40 + $?))"#;
    let holder = site.start(&["--on-loss", "warn"], "job", script, &[]);
    site.note("child");
    delete_node(&server, &site).await;
    let (code, said) = holder.end();
    assert_eq!(code, Some(41), "{said}");
    // The runner may notice the command's end before the loss, and tells of that all the same.
    assert!(said.contains("lost"), "{said}");
}

/// Deletes the node of the command that has noted its contender.
async fn delete_node(server: &Server, site: &Site) {
    let contender = fs::read_to_string(site.notes().join("contender")).unwrap();
    let config = Config::from_url(&format!("zk://{}", server.address()).parse().unwrap()).unwrap();
    let client = Client::connect(&config).await.unwrap();
    client.delete(&format!("/lockkeeper/job/{}", contender.trim()), None).await.unwrap();
    client.close().await.unwrap();
}
