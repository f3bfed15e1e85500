//! The cost for a server that 10,000 locks are followed, of which 100 change each second: the same changes without a
//! follower and with one, in turns. How soon a change is told is measured by `cargo xtask bench following`.
//!
//! Apache's server is another process, and the embedded one has its own thread, so that its work can be told apart from
//! that of its clients. In the plain run changes are made for some seconds, in `cargo xtask test --long` for some
//! minutes. What it costs is judged in an optimised build alone: `cargo test --release -p lockkeeper-zookeeper --test
//! following`.

mod locks;

use std::fs;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed};
use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Follower, Picture, Scope};
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_faults::{Availability, figures, long};
use lockkeeper_trials::suite;
use lockkeeper_zk_server::EmbeddedServer;
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::runtime::{Builder, Runtime};

use crate::locks::{LOCKS, Locks};

/// How often both are measured; the median of the differences counts.
const ROUNDS: usize = 5;

/// How long changes are made in one measurement, in the long run.
const ROUND_TIME: Duration = Duration::from_secs(20);

/// How long changes are made before the first one, in the long run, so that a virtual machine knows its hot code.
const WARM_TIME: Duration = Duration::from_secs(60);

const THREAD: &str = "zk-server";

fn main() -> ExitCode {
    let name = |make| format!("{make}::following_ten_thousand_locks_costs_little");
    let trials = vec![
        suite::measuring(name("embedded"), || Availability::Present, embedded),
        suite::measuring(name("apache"), zookeeper::availability, apache),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

#[derive(Clone, Copy)]
struct Subject {
    address: SocketAddr,
    process: u32,
    /// The thread that is meant, if not all are.
    thread: Option<&'static str>,
}

fn embedded() -> Result<(), Failed> {
    let (tell, address) = mpsc::channel();
    // It ends with the process.
    std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(async {
            let server = EmbeddedServer::start().await.expect("a server");
            tell.send(server.address().expect("it listens")).expect("the test waits");
            std::future::pending::<()>().await;
        });
    })?;
    judge(Subject { address: address.recv()?, process: std::process::id(), thread: Some(THREAD) }, 0.01)
}

fn apache() -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let server = runtime.block_on(Server::standalone(Setup::new()))?;
    let process = server.pid().ok_or("the server runs")?;
    // The plain run is too short to warm a virtual machine.
    let added_max = if long::is_asked_for() { 0.03 } else { 0.06 };
    judge(Subject { address: server.address(), process, thread: None }, added_max)
}

/// Watches may add this part of a processor to a server's work at most.
fn judge(server: Subject, added_max: f64) -> Result<(), Failed> {
    let added = Runtime::new()?.block_on(measure(server))?;
    let told = format!("watches of {LOCKS} locks add {:.2} % of a core to the server's work", added * 100.0);
    figures::tell(&format!("following, {}: {told}", server.thread.unwrap_or("Apache's server")));
    // Unoptimised code of ours takes many times the work of what users run, and says nothing of it.
    if added > added_max && !cfg!(debug_assertions) {
        return Err(format!("{told}, and {added_max} is the bound").into());
    }
    Ok(())
}

/// What a follower adds to the server's work, as a part of one processor.
async fn measure(server: Subject) -> Result<f64, Failed> {
    let url = format!("zk://{}", server.address);
    let mut locks = Locks::make(&url).await?;
    locks.change_for(long::time(WARM_TIME)).await?;
    let mut added = Vec::new();
    for _ in 0..ROUNDS {
        let without = load(&mut locks, server).await?;
        let follower =
            ZooKeeperBackend::open(&url.parse()?)?.admin().follow(&Scope::default()).ok_or("it can be followed")?;
        let following = follow(follower).await;
        added.push(load(&mut locks, server).await? - without);
        following.abort();
    }
    added.sort_unstable_by(f64::total_cmp);
    Ok(added[ROUNDS / 2])
}

/// Hears all that a follower tells, once it has told of all locks.
async fn follow(mut follower: Follower) -> tokio::task::JoinHandle<()> {
    let mut picture = Picture::default();
    while !picture.is_whole() {
        picture.take(soon("the first look at all locks", follower.next()).await.expect("it goes on"));
    }
    assert_eq!(picture.locks().len(), LOCKS);
    tokio::spawn(async move { while follower.next().await.is_some() {} })
}

/// Makes changes for a round; returns which part of a processor the server has had meanwhile.
#[expect(clippy::disallowed_methods, reason = "a test measures work over time")]
async fn load(locks: &mut Locks, server: Subject) -> Result<f64, Failed> {
    let (before, begun) = (effort(server)?, Instant::now());
    locks.change_for(long::time(ROUND_TIME)).await?;
    Ok(effort(server)?.saturating_sub(before).div_duration_f64(begun.elapsed()))
}

/// How long the processors have worked for the server's threads.
fn effort(server: Subject) -> Result<Duration, Failed> {
    let mut effort = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{}/task", server.process))? {
        let task = task?.path();
        // A thread may end meanwhile.
        let read = |file| fs::read_to_string(task.join(file)).unwrap_or_default();
        if server.thread.is_none_or(|thread| read("comm").trim() == thread) {
            effort += read("schedstat")
                .split(' ')
                .next()
                .and_then(|nanos| nanos.parse().ok())
                .map_or(Duration::ZERO, Duration::from_nanos);
        }
    }
    Ok(effort)
}
