//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs. The plain run does a
//! tenth.
//!
//! The allocator counts, so this test has a separate binary, which is also the program of the ten processes.

#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::pgbouncer::{self, Lending, PgBouncer};
use lockkeeper_faults::server::Server;
use lockkeeper_faults::sql::{Setup, Sql};
use lockkeeper_faults::{Availability, mariadb, postgres};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::storm::{self, RealServer};
use lockkeeper_trials::{Service, outage, suite};
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::service::{MARIADB, POSTGRES};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const WAITERS: u32 = 10_000;

/// How much disk of the server a waiter may take, in bytes: its row with an owner's name, and four indexes.
const SERVER_BYTES_MAX: usize = 4_000;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

/// For how long a database grants nothing after a start that has lost nothing (`BRIEF` of `timing.rs`).
const RESTS_FOR: Duration = Duration::from_secs(5);

/// What the contenders take of the disk.
const POSTGRES_BYTES: &str = "SELECT pg_total_relation_size('lockkeeper.contender')";
const MARIADB_BYTES: &str =
    "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name = 'lockkeeper/contender'";

/// How many transactions it has ended, and how many statements it was sent.
const POSTGRES_REQUESTS: &str = "SELECT SUM(xact_commit + xact_rollback) FROM pg_stat_database";
const MARIADB_REQUESTS: &str =
    "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'";

fn main() -> ExitCode {
    let name = |kind| format!("{kind}::waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue");
    let after = |kind| format!("{kind}::after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once");
    let mut trials = vec![
        suite::measuring(name("postgres"), postgres::availability, || {
            in_order(&POSTGRES, postgres::Setup::new(), POSTGRES_BYTES)
        }),
        suite::measuring(name("mariadb"), mariadb::availability, || {
            in_order(&MARIADB, mariadb::Setup::new(), MARIADB_BYTES)
        }),
        suite::measuring(after("postgres"), postgres::availability, || {
            outage("postgres", &POSTGRES, postgres::Setup::new().durable())
        }),
        suite::measuring(after("mariadb"), mariadb::availability, || {
            outage("mariadb", &MARIADB, mariadb::Setup::new().durable())
        }),
    ];
    let storms = |kind| format!("{kind}::after_an_outage_the_sessions_of_twenty_processes_come_back_without_a_herd");
    trials.extend([
        suite::measuring(storms("postgres"), postgres::availability, || {
            storm("postgres", &POSTGRES, postgres::Setup::new(), POSTGRES_REQUESTS)
        }),
        suite::measuring(storms("mariadb"), mariadb::availability, || {
            storm("mariadb", &MARIADB, mariadb::Setup::new(), MARIADB_REQUESTS)
        }),
        suite::measuring(storms("pgbouncer"), pgbouncer_availability, pooled_storm),
    ]);
    // The URL says which kind it is of.
    suite::run_crowds(&POSTGRES, || ALLOCATOR.current_usage(), trials)
}

fn pgbouncer_availability() -> Availability {
    postgres::availability().and(pgbouncer::availability)
}

fn outage<Own>(kind: &str, service: &Service, setup: Setup<Own>) -> Result<(), Failed>
where
    Setup<Own>: Sql,
{
    let mut server = Runtime::new()?.block_on(setup.start())?;
    outage::live_through(kind, service, &mut server, RESTS_FOR)
}

/// How many connections a server has.
const CONNECTIONS: u32 = 700;

/// As many sessions as have two connections each when they come back, one to end the former session; some are left for
/// an operator.
const SESSIONS: u32 = 300;

fn storm<Own>(kind: &str, service: &Service, setup: Setup<Own>, requests: &str) -> Result<(), Failed>
where
    Setup<Own>: Sql,
{
    let setup = setup.durable().setting("max_connections", &CONNECTIONS.to_string());
    let requests = async |server: &Server<Setup<Own>>| Ok(server.value(requests).await?.parse()?);
    storm::live_through(kind, service, &mut RealServer::start(setup.start(), requests)?, SESSIONS, "")
}

/// How many sessions come through a pooler, and over how many connections of its own.
const POOLED_SESSIONS: u32 = 2_000;
const POOLED: u32 = 50;

fn pooled_storm() -> Result<(), Failed> {
    let requests = async |server: &postgres::Server| Ok(server.value(POSTGRES_REQUESTS).await?.parse()?);
    let mut server = RealServer::start(postgres::Setup::new().durable().start(), requests)?;
    let start = async |server: &postgres::Server| PgBouncer::start(server, Lending::Transaction, POOLED).await;
    let _pooler = server.behind(start, PgBouncer::address)?;
    storm::live_through("pgbouncer", &POSTGRES, &mut server, POOLED_SESSIONS, "")
}

fn in_order<Own>(service: &Service, setup: Setup<Own>, bytes: &str) -> Result<(), Failed>
where
    Setup<Own>: Sql,
{
    let runtime = Runtime::new()?;
    let server = runtime.block_on(setup.start())?;
    let crowd = Crowd {
        service,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| Ok(runtime.block_on(server.value(bytes))?.parse()?),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}
