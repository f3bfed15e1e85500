//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs. The plain run does a
//! tenth.
//!
//! The allocator counts, so this test has a separate binary, which is also the program of the ten processes.

#[path = "../support/service.rs"]
mod service;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::crowd;
use lockkeeper_faults::{mariadb, postgres};
use lockkeeper_trials::crowd::Crowd;
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::service::{MARIADB, POSTGRES};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One at a time, since each measures.
static TURN: Mutex<()> = Mutex::new(());

/// How many wait in all in the long run.
const WAITERS: u32 = 10_000;

/// How much disk of the server a waiter may take, in bytes: its row with an owner's name, and four indexes.
const SERVER_BYTES_MAX: usize = 4_000;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=60s&operation_timeout=240s";

fn main() -> ExitCode {
    if let Some(asked) = crowd::asked() {
        // The URL says which kind it is of.
        return asked.take_part(POSTGRES.open, || ALLOCATOR.current_usage());
    }
    let arguments = Arguments::from_args();
    let name = |kind| format!("{kind}::waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue");
    let trials = vec![
        Trial::test(name("postgres"), move || {
            if !postgres::availability().or_skip(&name("postgres")) {
                return Ok(());
            }
            on_postgres()
        }),
        Trial::test(name("mariadb"), move || {
            if !mariadb::availability().or_skip(&name("mariadb")) {
                return Ok(());
            }
            on_mariadb()
        }),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn on_postgres() -> Result<(), Failed> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::new()?;
    let server = runtime.block_on(postgres::Server::standalone())?;
    let bytes = "SELECT pg_total_relation_size('lockkeeper.contender')";
    let crowd = Crowd {
        service: &POSTGRES,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| Ok(runtime.block_on(server.value(bytes))?.parse()?),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}

fn on_mariadb() -> Result<(), Failed> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::new()?;
    let server = runtime.block_on(mariadb::Server::standalone())?;
    let bytes =
        "SELECT SUM(file_size) FROM information_schema.innodb_sys_tablespaces WHERE name = 'lockkeeper/contender'";
    let crowd = Crowd {
        service: &MARIADB,
        servers: &[server.address()],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| Ok(runtime.block_on(server.value(bytes))?.parse()?),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}
