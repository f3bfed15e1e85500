//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs; what a join costs
//! behind 5,000 others; and thousands of waits of one session. The plain run does a tenth.
//!
//! The allocator counts, so these tests have a separate binary, which is also the program of the ten processes.

#[path = "../support/service.rs"]
mod service;

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_core::{QueueName, Session};
use lockkeeper_faults::etcd::{self, Server};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::storm::{self, RealServer};
use lockkeeper_trials::waist::{entry, ticket};
use lockkeeper_trials::{Cost, outage, suite, waist};
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::service::ETCD;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WAITERS: u32 = 10_000;

/// How much memory of the server a waiter may take, in bytes: its key with an owner's name, a lease's entry and two
/// watches. What a server that runs without compaction keeps of what went before comes on top.
const SERVER_BYTES_MAX: usize = 40_000;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

const COST: Cost = Cost { what: "a join", unit: "ms", ahead: 5_000, rounds: 200, times_max: 4.0 };

const WAITS: u32 = 5_000;

/// How long after a departure was asked for the wait behind it is told, at the median.
const TOLD_WITHIN_MEDIAN: Duration = Duration::from_millis(5);

fn in_order() -> Result<(), Failed> {
    let server = Runtime::new()?.block_on(Server::standalone())?;
    let crowd = Crowd {
        service: &ETCD,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| resident_bytes(&server),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}

fn resident_bytes(server: &Server) -> Result<usize, Failed> {
    let pid = server.pid().ok_or("the server runs")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel says so")?;
    Ok(kilobytes.trim().trim_end_matches("kB").trim().parse::<usize>()? * 1_024)
}

fn outage() -> Result<(), Failed> {
    let mut server = Runtime::new()?.block_on(Server::standalone())?;
    outage::live_through("etcd", &ETCD, &mut server, Duration::ZERO)
}

/// A lone etcd beside its clients on a few cores opens some hundred sessions a second. Calls that were given up before
/// their turn would be made again, and put off the others.
const STORM_SETTINGS: &str = "&connect_timeout=60s&operation_timeout=60s";

fn storm() -> Result<(), Failed> {
    let mut server = RealServer::start(Server::standalone(), async |server: &Server| Ok(server.messages().await?))?;
    storm::live_through("etcd", &ETCD, &mut server, storm::SESSIONS, STORM_SETTINGS)
}

/// Joins, and returns how long that took, in milliseconds; then leaves.
#[expect(clippy::disallowed_methods, reason = "a test measures how long a join takes")]
async fn join(session: &dyn Session, queue: &QueueName, ahead: usize) -> Result<f64, Failed> {
    let ticket = ticket();
    let begun = Instant::now();
    let joined = session.enqueue_one(queue, entry(ticket)).await?;
    let took = begun.elapsed();
    assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
    session.withdraw(queue, ticket).await?;
    Ok(took.as_secs_f64() * 1e3)
}

fn join_behind_thousands() -> Result<(), Failed> {
    Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        COST.compare(&*ETCD.backend(&[server.address()], SETTINGS), join).await
    })
}

fn waits_of_one_session() -> Result<(), Failed> {
    Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        waist::each_is_told(&ETCD, &[server.address()], WAITS, TOLD_WITHIN_MEDIAN).await;
        Ok(())
    })
}

fn main() -> ExitCode {
    let trial = |name, test: fn() -> Result<(), Failed>| suite::measuring(name, etcd::availability, test);
    let trials = vec![
        trial("waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue", in_order),
        trial("after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once", outage),
        trial("after_an_outage_the_sessions_of_twenty_processes_come_back_without_a_herd", storm),
        trial("a_join_behind_thousands_costs_at_most_four_times_one_behind_none", join_behind_thousands),
        trial("each_departure_is_told_to_the_one_wait_for_it_within_milliseconds", waits_of_one_session),
    ];
    suite::run_crowds(&ETCD, || ALLOCATOR.current_usage(), trials)
}
