//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs. The plain run does a
//! tenth.
//!
//! The allocator counts, so this test has a separate binary, which is also the program of the ten processes.

#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::sql::{Setup, Sql};
use lockkeeper_faults::{mariadb, postgres};
use lockkeeper_trials::crowd::Crowd;
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

fn main() -> ExitCode {
    let name = |kind| format!("{kind}::waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue");
    let after = |kind| format!("{kind}::after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once");
    let trials = vec![
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
    // The URL says which kind it is of.
    suite::run_crowds(&POSTGRES, || ALLOCATOR.current_usage(), trials)
}

fn outage<Own>(kind: &str, service: &Service, setup: Setup<Own>) -> Result<(), Failed>
where
    Setup<Own>: Sql,
{
    let mut server = Runtime::new()?.block_on(setup.start())?;
    outage::live_through(kind, service, &mut server, RESTS_FOR)
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
