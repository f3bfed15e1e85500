//! Very many waiters for one lock: 10,000 of ten processes, in order, and what each of them costs. The plain run does a
//! tenth.
//!
//! The allocator counts, so this test has a separate binary, which is also the program of the ten processes. The
//! embedded server runs in this process.

#[path = "../support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Failed;
use lockkeeper_faults::Availability;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::{outage, suite};
use lockkeeper_zk_server::EmbeddedServer;
use peak_alloc::PeakAlloc;
use tokio::runtime::Runtime;

use crate::service::ZOOKEEPER;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// How many wait in all in the long run.
const WAITERS: u32 = 10_000;

/// How much memory of the embedded server a waiter may take, in bytes: its node with an owner's name, and two watches.
const SERVER_BYTES_MAX: usize = 10_000;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=40s&operation_timeout=240s";

fn main() -> ExitCode {
    let name = |make| format!("{make}::waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue");
    let trials = vec![
        suite::measuring(name("embedded"), || Availability::Present, embedded),
        suite::measuring(name("apache"), zookeeper::availability, apache),
        suite::measuring(
            "apache::after_an_outage_the_waiters_of_ten_processes_are_granted_the_lock_at_once",
            zookeeper::availability,
            after_an_outage,
        ),
    ];
    suite::run_crowds(&ZOOKEEPER, || ALLOCATOR.current_usage(), trials)
}

fn embedded() -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(EmbeddedServer::start())?;
    in_order(server.address().expect("it listens"), &|| ALLOCATOR.current_usage())
}

fn apache() -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(Server::standalone(Setup::new()))?;
    // What Java takes says nothing of a waiter.
    in_order(server.address(), &|| 0)
}

fn after_an_outage() -> Result<(), Failed> {
    let mut server = Runtime::new()?.block_on(Server::standalone(Setup::new()))?;
    outage::live_through("zookeeper", &ZOOKEEPER, &mut server, Duration::ZERO)
}

fn in_order(server: SocketAddr, server_bytes: &dyn Fn() -> usize) -> Result<(), Failed> {
    let crowd = Crowd {
        service: &ZOOKEEPER,
        servers: &[server],
        settings: SETTINGS,
        waiters: WAITERS,
        server_bytes: &|| Ok(server_bytes()),
        server_bytes_max: SERVER_BYTES_MAX,
    };
    crowd.in_order()
}
