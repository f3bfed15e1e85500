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
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_faults::{Availability, process};
use lockkeeper_trials::crowd::Crowd;
use lockkeeper_trials::storm::{self, RealServer, StormServer};
use lockkeeper_trials::{outage, suite};
use lockkeeper_zk_server::{EmbeddedServer, ServerError};
use peak_alloc::PeakAlloc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::service::ZOOKEEPER;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// How many wait in all in the long run.
const WAITERS: u32 = 10_000;

/// How much memory of the embedded server a waiter may take, in bytes: its node with an owner's name, and two watches.
const SERVER_BYTES_MAX: usize = 10_000;

/// What the embedded server may take in a storm: a sixteenth is for connections, of 8 KiB each.
const STORM_BYTES: usize = 2 << 30;

/// Long enough for thousands of calls of one process that are made at once, each behind the other, on a busy machine.
const SETTINGS: &str = "session_timeout=40s&operation_timeout=240s";

fn main() -> ExitCode {
    let name = |make| format!("{make}::waiters_of_ten_processes_are_granted_one_lock_in_the_order_of_the_queue");
    let storm = |make| format!("{make}::after_an_outage_the_sessions_of_twenty_processes_come_back_without_a_herd");
    let trials = vec![
        suite::measuring(name("embedded"), || Availability::Present, embedded),
        suite::measuring(name("apache"), zookeeper::availability, apache),
        suite::measuring(storm("embedded"), || Availability::Present, embedded_storm),
        suite::measuring(storm("apache"), zookeeper::availability, apache_storm),
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

fn apache_storm() -> Result<(), Failed> {
    // All clients of this machine come from one address, of which Apache's server takes 60 connections.
    let starting = Server::standalone(Setup::new().entry("maxClientCnxns", "0"));
    let received = async |server: &Server| Ok(server.packets().await?.received);
    let mut server = RealServer::start(starting, received)?;
    storm::live_through("zookeeper", &ZOOKEEPER, &mut server, storm::SESSIONS, "")
}

fn embedded_storm() -> Result<(), Failed> {
    let mut server = Embedded::start()?;
    storm::live_through("embedded", &ZOOKEEPER, &mut server, storm::SESSIONS, "")
}

/// The embedded server, in this process, with its data in a folder.
struct Embedded {
    runtime: Runtime,
    folder: TempDir,
    address: SocketAddr,
    running: Option<EmbeddedServer>,
}

impl Embedded {
    fn start() -> Result<Self, Failed> {
        let (runtime, folder) = (Runtime::new()?, tempfile::tempdir()?);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = runtime.block_on(Self::serving(&folder, any))?;
        let address = server.address().ok_or("it listens")?;
        Ok(Self { runtime, folder, address, running: Some(server) })
    }

    async fn serving(folder: &TempDir, address: SocketAddr) -> Result<EmbeddedServer, ServerError> {
        let builder = EmbeddedServer::builder().listen(address).data_dir(folder.path());
        builder.memory_bytes(STORM_BYTES).start().await
    }

    fn server(&self) -> Result<&EmbeddedServer, Failed> {
        Ok(self.running.as_ref().ok_or("it is away")?)
    }
}

impl StormServer for Embedded {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn stop(&mut self) -> Result<(), Failed> {
        self.runtime.block_on(self.running.take().ok_or("it is away")?.shutdown());
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failed> {
        self.running = Some(self.runtime.block_on(Self::serving(&self.folder, self.address))?);
        Ok(())
    }

    fn requests(&self) -> Result<u64, Failed> {
        Ok(self.runtime.block_on(self.server()?.counters()).received)
    }

    fn processor_time(&self) -> Result<Duration, Failed> {
        Ok(process::processor_time(std::process::id())?)
    }
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
