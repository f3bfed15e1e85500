//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs; what a join and a
//! leave cost the server behind 10,000 others; how long the server is busy with the end of 10,000; thousands of waits
//! of one session; and which of many waiters a departure wakes. The plain run does a tenth.
//!
//! The allocator counts, so these tests have a separate binary, which is also the program of the ten processes.

mod removal;
#[path = "../support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_conformance::soon;
use lockkeeper_core::{Departure, QueueName, Session};
use lockkeeper_faults::figures;
use lockkeeper_faults::redis::{self, Flush, Server, Setup};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::storm::{self, RealServer};
use lockkeeper_trials::waist::{door, entry, ticket};
use lockkeeper_trials::{Cost, outage, suite, waist};
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::service::REDIS;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Long enough for thousands of calls that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

const WAITERS: u32 = 10_000;

/// How much memory of the server a waiter may take, in bytes: its record with an owner's name, its entries in the queue
/// and the session, and the two records that are watched for it.
const SERVER_BYTES_MAX: usize = 4_000;

fn in_order() -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(Server::standalone())?;
    let crowd = Crowd {
        service: &REDIS,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| Ok(runtime.block_on(server.info("used_memory"))?.parse()?),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}

fn outage() -> Result<(), Failed> {
    let mut server = Runtime::new()?.block_on(Setup::new().append_only(Flush::Always).start())?;
    outage::live_through("redis", &REDIS, &mut server, Duration::ZERO)
}

/// Each session has a connection, and the tests have some.
const CLIENTS_MAX: u32 = 12_000;

fn storm() -> Result<(), Failed> {
    let setup = Setup::new().append_only(Flush::Always).clients_max(CLIENTS_MAX);
    // What came in one piece is one: a pipeline of calls.
    let requests = async |server: &Server| Ok(server.info("total_reads_processed").await?.parse()?);
    let mut server = RealServer::start(setup.start(), requests)?;
    storm::live_through("redis", &REDIS, &mut server, storm::SESSIONS, "")
}

const WAITS: u32 = 20_000;

/// How long after a departure was asked for the wait behind it is told, at the median.
const TOLD_WITHIN_MEDIAN: Duration = Duration::from_millis(5);

fn waits_of_one_session() -> Result<(), Failed> {
    Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        waist::each_is_told(&REDIS, &[server.address()], WAITS, TOLD_WITHIN_MEDIAN).await;
        Ok(())
    })
}

async fn session(address: SocketAddr, settings: &str) -> Result<Arc<dyn Session>, Failed> {
    Ok(REDIS.backend(&[address], settings).session().await?)
}

/// How often a command was called, and how many microseconds the server has worked on it, since its start.
async fn work(server: &Server, command: &str) -> Result<(u64, u64), Failed> {
    let text: String = server.ask(&["INFO", "commandstats"]).await?;
    let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(':'));
    let Some(line) = line else {
        return Ok((0, 0));
    };
    let number = |name: &str| {
        let field = line.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        field.and_then(|number| number.trim().parse().ok()).ok_or_else(|| format!("{line} has no {name}"))
    };
    Ok((number("calls")?, number("usec")?))
}

/// A renewal or another process may fall into one of the rounds.
const COST: Cost = Cost { what: "a join and a leave", unit: "us", ahead: 10_000, rounds: 21, times_max: 2.5 };

/// How many joins and leaves are measured together: the server counts in microseconds.
const AT_ONCE: u32 = 50;

/// Joins and leaves; returns how long the server has worked on that, in microseconds.
async fn join_and_leave(
    server: &Server,
    session: &dyn Session,
    queue: &QueueName,
    ahead: usize,
) -> Result<f64, Failed> {
    let (_, before) = work(server, "evalsha").await?;
    for _ in 0..AT_ONCE {
        let ticket = ticket();
        let joined = session.enqueue_one(queue, entry(ticket)).await?;
        assert_eq!(joined.view.ahead_of(&joined.id), Some(ahead), "so many are ahead");
        session.withdraw(queue, ticket).await?;
    }
    let (_, after) = work(server, "evalsha").await?;
    Ok((after - before) as f64 / f64::from(AT_ONCE))
}

fn cost_behind_thousands() -> Result<(), Failed> {
    Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let measure = async |session: &dyn Session, queue: &QueueName, ahead: usize| {
            join_and_leave(&server, session, queue, ahead).await
        };
        COST.compare(&*REDIS.backend(&[server.address()], SETTINGS), measure).await
    })
}

const HERD: usize = 200;

/// How long those that are told too often may take to show themselves.
const LOOKED_FOR: Duration = Duration::from_secs(1);

/// How many records may be read: one by the one that leaves, three by the one behind: of the one ahead, of its session,
/// and its own.
const READS_MAX: u64 = 4;

fn one_of_many() -> Result<(), Failed> {
    Runtime::new()?.block_on(async {
        let server = Server::standalone().await?;
        let mut sessions = Vec::with_capacity(HERD + 1);
        let mut tickets = Vec::with_capacity(HERD + 1);
        let (told, mut tellings) = mpsc::unbounded_channel();
        let mut last = None;
        for number in 0..=HERD {
            let session = session(server.address(), SETTINGS).await?;
            let ticket = ticket();
            tickets.push(ticket);
            let joined = session.enqueue_one(&door(), entry(ticket)).await?;
            if let Some(ahead) = last.replace(joined.id.clone()) {
                let waiting = session.departure(&door(), Some(&joined.id), &ahead, joined.view.connection);
                let told = told.clone();
                tokio::spawn(async move { told.send((number, waiting.await)) });
            }
            sessions.push(session);
        }
        let none = tokio::time::timeout(LOOKED_FOR, tellings.recv()).await;
        assert!(none.is_err(), "none has departed: {none:?}");
        let (before, _) = work(&server, "get").await?;
        sessions[0].withdraw(&door(), tickets[0]).await?;
        let (number, departure) = soon("the word of the departure", tellings.recv()).await.ok_or("all wait")?;
        assert_eq!((number, departure?), (1, Departure::Gone));
        let more = tokio::time::timeout(LOOKED_FOR, tellings.recv()).await;
        assert!(more.is_err(), "a second one was told: {more:?}");
        let reads = work(&server, "get").await?.0 - before;
        figures::tell(&format!("crowd: one departure among {HERD} waiters woke 1, which made {reads} reads with it"));
        assert!(reads <= READS_MAX, "{reads} records were read after one departure");
        for session in sessions {
            session.close().await?;
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    let trial = |name, test: fn() -> Result<(), Failed>| suite::measuring(name, redis::availability, test);
    let trials = vec![
        trial("waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue", in_order),
        trial("after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once", outage),
        trial("after_an_outage_the_sessions_of_twenty_processes_come_back_without_a_herd", storm),
        trial(
            "a_join_and_a_leave_behind_thousands_cost_the_server_little_more_than_behind_none",
            cost_behind_thousands,
        ),
        trial("no_call_takes_long_while_thousands_of_the_dead_are_removed", removal::in_pieces),
        trial("a_removal_in_one_piece_is_seen", removal::in_one_piece),
        trial("one_departure_among_200_waiters_wakes_one", one_of_many),
        trial("each_departure_is_told_to_the_one_wait_for_it_within_milliseconds", waits_of_one_session),
    ];
    suite::run_crowds(&REDIS, || ALLOCATOR.current_usage(), trials)
}
