//! Runners that are killed or stopped: their command is dead before the next one starts, and after a death the next one
//! starts in time. `zookeeper_death` has more ways to die.

use std::time::{Duration, Instant};

use lockkeeper_faults::figures;
use rustix::process::Signal;

use crate::services::Service;
use crate::site::{ALL_DEAD, Site, assert_in_time};
use crate::support::{Ended, Running, eventually, is_alive, now};

/// Short, since the tests wait for its end, and long enough for a command whose machine stands still for a moment.
const TIMEOUT_MS: u64 = 8_000;

/// Has no child.
pub(crate) const SINGLE: &str = "echo $PPID > watchdog; echo $$ > child; exec sleep 600";

/// A holder, the processes of its command, and the contender behind it, whose command tells whether it found any of
/// them alive.
pub(crate) struct Queue {
    pub(crate) site: Site,
    pub(crate) holder: Running,
    pids: Vec<i32>,
    next: Running,
}

/// When things happened, from the fault on.
#[derive(Debug)]
pub(crate) struct HandOver {
    pub(crate) dead_after: Duration,
    pub(crate) started_after: Duration,
}

impl Queue {
    /// `processes` are the notes with the numbers of those that belong to the command.
    pub(crate) fn start(site: Site, script: &str, processes: &[&str]) -> Self {
        let holder = site.start(&[], "job", script, &[]);
        let pids: Vec<i32> = processes.iter().map(|name| site.note(name)).collect();
        let arguments: Vec<String> = pids.iter().map(i32::to_string).collect();
        let next = site.join("job", 1, ALL_DEAD, &arguments);
        assert!(pids.iter().copied().all(is_alive));
        Self { site, holder, pids, next }
    }

    /// Watches until the next command starts, after `who` was struck.
    pub(crate) fn hand_over(&self, who: &str, since: Instant) -> HandOver {
        let mut dead_after = None;
        let started_after = eventually("the next command starts", || {
            if dead_after.is_none() && !self.pids.iter().copied().any(is_alive) {
                dead_after = Some(since.elapsed());
            }
            self.site.notes().join("next").exists().then(|| since.elapsed())
        });
        figures::tell(&format!("{who}: the next command started after {started_after:?}"));
        // Whether they were dead before it started, the next command says; this may have looked too late for both.
        HandOver { dead_after: dead_after.unwrap_or(started_after), started_after }
    }

    /// Waits for the end of all, and asserts that nothing of them is left; returns how the holder ended.
    pub(crate) fn end(self) -> (Site, Ended) {
        let next = self.next.end();
        assert_eq!(next.code, Some(0), "the next command found processes alive: {next:?}");
        let ended = self.holder.end();
        self.site.assert_nothing_left();
        (self.site, ended)
    }

    /// The same, of a holder that has lost its lock while it stood still.
    pub(crate) fn end_lost(self) -> Site {
        let (site, ended) = self.end();
        assert_eq!(ended.code, Some(123), "{ended:?}");
        let last = ended.stderr.lines().last().unwrap();
        assert!(last.starts_with("lockkeeper: job: the lock was lost"), "{ended:?}");
        let told = ended.stderr.lines().filter(|line| line.starts_with("lockkeeper: job: ")).count();
        assert_eq!(told, 1, "told once: {ended:?}");
        site
    }

    /// Kills the runner, and waits for the next command; answers how long after the death that started.
    fn kill(self, who: &str, and: impl FnOnce()) -> (Site, Duration) {
        let killed_at = now();
        self.holder.send(Signal::KILL);
        and();
        let HandOver { started_after, .. } = self.hand_over(&format!("{who} killed"), killed_at);
        let (site, ended) = self.end();
        assert_eq!(ended.code, None);
        (site, started_after)
    }

    /// Stops the runner, waits for the next command, and has the runner go on.
    fn stop(self) -> Site {
        self.holder.send(Signal::STOP);
        self.hand_over("runner stopped", now());
        self.holder.send(Signal::CONT);
        self.end_lost()
    }
}

/// A server of a service, and a queue there; answers what the test plays with it.
async fn with_queue<T>(service: Service, play: impl FnOnce(Queue) -> T) -> Option<T> {
    let server = service.start().await?;
    let site = Site::of(&format!("{}?session_timeout={TIMEOUT_MS}ms", server.url()));
    Some(play(Queue::start(site, SINGLE, &["child"])))
}

async fn next_is_granted_in_time(service: Service, within_ms: u64) {
    let killed = with_queue(service, |queue| queue.kill(&format!("{} runner", service.name()), || ())).await;
    if let Some((_, after)) = killed {
        assert_in_time(after, Duration::from_millis(within_ms));
    }
}

/// The timeout, the time until the waiter's next renewal, and half a second for a busy machine.
#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_on_redis() {
    next_is_granted_in_time(Service::Redis, TIMEOUT_MS + TIMEOUT_MS / 6 + 500).await;
}

/// What databases promise: 1.25 session timeouts and a second.
const ON_DATABASES_WITHIN_MS: u64 = TIMEOUT_MS + TIMEOUT_MS / 4 + 1_000;

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_on_postgresql() {
    next_is_granted_in_time(Service::PostgreSql, ON_DATABASES_WITHIN_MS).await;
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread")]
async fn when_a_runner_is_killed_the_next_is_granted_in_time_on_mariadb() {
    next_is_granted_in_time(Service::MariaDb, ON_DATABASES_WITHIN_MS).await;
}

#[cfg(feature = "etcd")]
mod on_etcd {
    use lockkeeper_faults::etcd::Cluster;

    use super::*;
    use crate::etcd_access::{assert_nothing_left, cluster, cluster_site};

    /// How long after its holder's death a lock is handed on at the latest while the leader stays: the timeout, and the
    /// time between two looks of etcd at its leases.
    const HANDED_ON_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + 500);

    /// The same if the leader dies with the holder: an election, and the time by which a new leader prolongs each
    /// lease.
    const HANDED_ON_WITHOUT_LEADER_WITHIN: Duration = Duration::from_millis(TIMEOUT_MS + 3_500);

    /// How often the leader is killed at most until an election has a winner at once: one without a winner is followed
    /// by another, which the bound does not count.
    const ATTEMPTS_MAX: u32 = 3;

    fn queue(cluster: &Cluster) -> Queue {
        let site = cluster_site(cluster, &format!("session_timeout={TIMEOUT_MS}ms"));
        Queue::start(site, SINGLE, &["child"])
    }

    /// Kills a runner, and the leader with it if that is asked for; answers after which time the next command started,
    /// and how many elections there were meanwhile, won or not.
    async fn kill(kills_leader: bool) -> (Duration, u64) {
        let mut cluster = cluster().await;
        let queue = queue(&cluster);
        let leader = cluster.leader().await.unwrap();
        let term = cluster.servers()[leader].term().await.unwrap();
        let who = if kills_leader { "etcd runner and leader" } else { "etcd runner" };
        let (site, after) = queue.kill(who, || {
            if kills_leader {
                cluster.server_mut(leader).kill();
            }
        });
        assert_nothing_left(&cluster, &site).await;
        let leader = cluster.leader().await.unwrap();
        (after, cluster.servers()[leader].term().await.unwrap() - term)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn when_a_runner_is_killed_the_next_is_granted_in_time_and_after_its_commands_death() {
        if Service::Etcd.can_start() {
            assert_in_time(kill(false).await.0, HANDED_ON_WITHIN);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn when_runner_and_leader_are_killed_the_next_is_granted_in_time_and_after_the_commands_death() {
        if !Service::Etcd.can_start() {
            return;
        }
        for _ in 0..ATTEMPTS_MAX {
            let (after, elections) = kill(true).await;
            if elections == 1 {
                return assert_in_time(after, HANDED_ON_WITHOUT_LEADER_WITHIN);
            }
        }
        panic!("{ATTEMPTS_MAX} times an election had no winner");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn when_a_runner_is_stopped_its_command_is_dead_before_the_next_one_starts_and_it_exits_123() {
        if !Service::Etcd.can_start() {
            return;
        }
        let cluster = cluster().await;
        let site = queue(&cluster).stop();
        assert_nothing_left(&cluster, &site).await;
    }
}
