//! Round trips of a `run` over a slow way to its service: until its command starts, and until it has ended.
//!
//! Both are counted from what passed through the proxy, and checked against the clock: a count cannot be too small, and
//! neither can a time, so the smaller one holds, and a busy machine changes nothing.

use std::time::Duration;

use lockkeeper_faults::figures;
use lockkeeper_faults::proxy::{Burst, Direction, Proxy};

use crate::services::{Server, Service, on_each};
use crate::site::{SOON, Site};
use crate::support::{Running, now};

/// How long anything is on its way, in each direction, in milliseconds. At a busy moment a client sends late what it
/// could have sent at once, and it is tried again over a way beside which that is short.
const ONE_WAYS_MS: [u64; 4] = [20, 100, 400, 800];

/// How many round trips a `run` may need on a service, as `docs/performance.md` says.
#[derive(Clone, Copy, Debug)]
struct Most {
    /// Until the service knows who we are, where that is not with the greeting.
    login: u32,
    /// From the login to the command's start. On no service it is more than four.
    until_start: u32,
    /// From the command's end to the runner's.
    until_end: u32,
}

/// What one `run` needed.
struct Needed {
    /// From the login to the command's start.
    until_start: u32,
    /// From the command's end to the runner's.
    until_end: u32,
    /// What passed, for the reader of a failure.
    passed: Vec<Burst>,
}

on_each! { assert_few:
    Etcd "etcd" a_command_on_a_free_lock_starts_within_four_round_trips_on_etcd;
    Redis "redis" a_command_on_a_free_lock_starts_within_four_round_trips_on_redis;
    PostgreSql "postgres" a_command_on_a_free_lock_starts_within_four_round_trips_on_postgresql;
    MariaDb "mysql" a_command_on_a_free_lock_starts_within_four_round_trips_on_mariadb;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_free_lock_starts_within_four_round_trips_on_zookeeper() {
    if let Some(server) = Service::ZooKeeper.start().await {
        assert_few(Service::ZooKeeper, server).await;
    }
}

/// Asserts that a `run` on a free lock starts its command, and ends after it, within so many round trips.
async fn assert_few(service: Service, server: Server) {
    let most = match service {
        Service::ZooKeeper => Most { login: 0, until_start: 2, until_end: 1 },
        Service::Etcd => Most { login: 0, until_start: 3, until_end: 2 },
        Service::Redis => Most { login: 0, until_start: 3, until_end: 1 },
        Service::PostgreSql => Most { login: 1, until_start: 3, until_end: 1 },
        Service::MariaDb => Most { login: 2, until_start: 3, until_end: 1 },
    };
    let ((proxy, url), who) = (server.proxied().await, service.name());
    // What every lock needs is there from now on.
    let site = Site::of(&url);
    assert_eq!(site.run(&["run", "-q", "before", "--", "true"]).code, Some(0));
    let mut passed = Vec::new();
    for one_way in ONE_WAYS_MS.map(Duration::from_millis) {
        wait_until_closed(&proxy).await;
        proxy.set_delay(one_way);
        let found = measure(&proxy, &site, &format!("job-{}", one_way.as_millis()), 2 * one_way, most.login);
        let Needed { until_start, until_end, .. } = found;
        figures::tell(&format!(
            "{who}: round trips: until the command's start {until_start}, from its end {until_end}"
        ));
        if until_start <= most.until_start && until_end <= most.until_end {
            return;
        }
        passed = found.passed;
    }
    panic!("{who}: too many round trips; in the end this passed: {passed:#?}");
}

async fn wait_until_closed(proxy: &Proxy) {
    let closed = async || (proxy.connections() == 0).then_some(());
    lockkeeper_faults::wait::until("the end of all connections", SOON, closed).await.unwrap();
}

fn measure(proxy: &Proxy, site: &Site, name: &str, round_trip: Duration, login: u32) -> Needed {
    proxy.forget();
    let script = "echo started; read line";
    let mut run = Running::with_input(&mut site.command(&["run", "-q", name, "--", "sh", "-c", script]));
    assert_eq!(run.line(), "started\n");
    let (started, before) = (proxy.since_first_connection(), proxy.bursts());
    let ending = now();
    run.close_input();
    run.code();
    let (took, after) = (ending.elapsed(), proxy.bursts());
    let until_start = counted(&before).min(in_round_trips(started, round_trip)).saturating_sub(login);
    let until_end = (counted(&after) - counted(&before)).min(in_round_trips(took, round_trip));
    Needed { until_start, until_end, passed: after }
}

/// The longest chain of requests and answers.
fn counted(bursts: &[Burst]) -> u32 {
    let answers = bursts.iter().filter(|burst| burst.direction == Direction::ToClient);
    answers.map(|answer| answer.round_trips).max().unwrap_or(0)
}

/// How many round trips there can have been in this time.
fn in_round_trips(time: Duration, round_trip: Duration) -> u32 {
    u32::try_from(time.as_millis() / round_trip.as_millis()).unwrap_or(u32::MAX)
}
