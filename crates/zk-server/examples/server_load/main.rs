//! Measures the embedded server beside Apache ZooKeeper standalone, both with their logs flushed before an answer, and
//! fails if a budget is missed. `cargo xtask bench server` runs it; it needs Java and Debian's `libzookeeper-java`.
//!
//! The two take turns, and the first turn is not counted: by then Java has compiled what it runs.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

mod client;
mod large;
mod servers;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockkeeper_zk_proto::message::Request;
use lockkeeper_zk_server::EmbeddedServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use client::{Client, Load, operations_per_second};
use large::Costs;
use servers::{APACHE_SNAPSHOT_AFTER, Server};

/// How often they take turns; the median counts.
const TURNS: usize = 6;
/// How long one server is loaded in one turn.
const TURN: Duration = Duration::from_secs(3);
/// How often the embedded server is started to see how long that takes; the median counts.
const STARTS: usize = 9;
const SESSIONS: usize = 10_000;
const SESSIONS_AT_A_TIME: usize = 50;
const WATCHES_PER_SESSION: usize = 10;
/// How many sessions watch one and the same path.
const SESSIONS_PER_PATH: usize = 10;

/// At least this many times Apache's operations per second.
const SPEED_BUDGET: f64 = 3.0;
/// At most this part of Apache's memory.
const MEMORY_BUDGET: f64 = 1.0 / 20.0;
const READY_BUDGET: Duration = Duration::from_millis(50);
/// How often both are filled with a large tree; the median counts.
const LARGE_TURNS: usize = 3;
/// At most this part of Apache's memory for a large tree.
const LARGE_MEMORY_BUDGET: f64 = 0.5;
/// At most this much memory while a snapshot is taken, as a multiple of that before.
const PEAK_BUDGET: f64 = 1.3;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [] => measure(),
        [word, directory] if word == "serve" => serve(Path::new(directory)),
        _ => Err("this takes no arguments".into()),
    }
}

/// The part of the process that is measured.
fn serve(directory: &Path) -> Result<ExitCode, Box<dyn Error>> {
    // One thread, as `lockkeeper server` has it.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let server = EmbeddedServer::builder().data_dir(directory).start().await?;
        println!("{}", server.address().ok_or("it listens")?);
        std::io::stdout().flush()?;
        server.stopped().await;
        Err("the server has stopped".into())
    })
}

fn measure() -> Result<ExitCode, Box<dyn Error>> {
    // Each session takes a descriptor here and one in the server, which inherits the limit.
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let program = std::env::current_exe()?;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(Server::embedded(&program)?.ready.as_secs_f64());
    }
    let (embedded, apache) = (Server::embedded(&program)?, Server::apache(APACHE_SNAPSHOT_AFTER)?);
    println!("32 clients with up to 32 requests under way each, both servers flush; median of {} turns", TURNS - 1);
    println!("{:<32} {:>12} {:>12} {:>10}", "", "embedded", "Apache", "ratio");
    let mut is_met = compare_speed(&embedded, &apache, Load::Writes, "create + delete, per second")?;
    is_met &= compare_speed(&embedded, &apache, Load::Reads, "reads, per second")?;
    let (ours, theirs) = (embedded.resident_mib()?, apache.resident_mib()?);
    let part = ours / theirs;
    let name = "resident after that, MiB";
    println!("{name:<32} {ours:>12.1} {theirs:>12.1} {part:>9.3}x (budget {MEMORY_BUDGET:.3}x or less)");
    is_met &= part <= MEMORY_BUDGET;
    let ready = median(starts);
    let apache_ready = apache.ready.as_secs_f64();
    println!(
        "{:<32} {:>12.1} {:>12.1} {:>9.3}x (budget {} ms or less)",
        "process started to serving, ms",
        ready * 1e3,
        apache_ready * 1e3,
        ready / apache_ready,
        READY_BUDGET.as_millis()
    );
    is_met &= ready <= READY_BUDGET.as_secs_f64();
    // One after the other: all descriptors this process may have are needed for each.
    let (ours, theirs) = (crowd(&embedded)?, crowd(&apache)?);
    println!("{:<32} {:>12.2} {:>12.2}", "10,000 sessions opened, s", ours.opened_seconds, theirs.opened_seconds);
    println!("{:<32} {:>12.2} {:>12.2}", "100,000 watches set, s", ours.watching_seconds, theirs.watching_seconds);
    println!("{:<32} {:>12.1} {:>12.1}", "resident with these, MiB", ours.resident_mib, theirs.resident_mib);
    // Nothing else takes memory and processors meanwhile.
    drop((embedded, apache));
    is_met &= compare_large(&program)?;
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints both medians; returns whether the budget is met.
fn compare_speed(embedded: &Server, apache: &Server, load: Load, name: &str) -> Result<bool, Box<dyn Error>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(operations_per_second(embedded.address, load, TURN)?);
        theirs.push(operations_per_second(apache.address, load, TURN)?);
    }
    let (ours, theirs) = (median(ours.split_off(1)), median(theirs.split_off(1)));
    let ratio = ours / theirs;
    println!("{name:<32} {ours:>12.0} {theirs:>12.0} {ratio:>9.2}x (budget {SPEED_BUDGET:.0}x or more)");
    Ok(ratio >= SPEED_BUDGET)
}

/// Prints what a large tree costs both; returns whether all budgets are met.
fn compare_large(program: &Path) -> Result<bool, Box<dyn Error>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..LARGE_TURNS {
        ours.push(large::costs(Server::embedded(program)?, program)?);
        theirs.push(large::costs(Server::apache(large::SNAPSHOT_AFTER)?, program)?);
    }
    println!("{} nodes of 100 bytes; median of {LARGE_TURNS} turns", large::NODES);
    let row = |name: &str, of: &dyn Fn(&Costs) -> f64, budget: Option<f64>| {
        let median = |costs: &[Costs]| median(costs.iter().map(of).collect());
        let (ours, theirs) = (median(&ours), median(&theirs));
        let ratio = ours / theirs;
        let text = budget.map_or(String::new(), |budget| format!(" (budget {budget:.2}x or less)"));
        println!("{name:<32} {ours:>12.1} {theirs:>12.1} {ratio:>9.3}x{text}");
        budget.is_none_or(|budget| ratio <= budget)
    };
    let mut is_met = row("resident, MiB", &|costs| costs.resident_mib, Some(LARGE_MEMORY_BUDGET));
    is_met &= row("longest write in a snapshot, ms", &|costs| costs.longest_write.as_secs_f64() * 1e3, Some(1.0));
    row("median write meanwhile, ms", &|costs| costs.write.as_secs_f64() * 1e3, None);
    row("filled, s", &|costs| costs.filled.as_secs_f64(), None);
    row("started on it, s", &|costs| costs.started.as_secs_f64(), None);
    let peak = |costs: &[Costs]| median(costs.iter().map(|costs| costs.peak).collect());
    let (ours, theirs) = (peak(&ours), peak(&theirs));
    let name = "peak meanwhile, x resident";
    println!("{name:<32} {ours:>12.2} {theirs:>12.2}            (budget {PEAK_BUDGET}x of its own or less)");
    Ok(is_met && ours <= PEAK_BUDGET)
}

/// Many sessions with watches, all at once.
struct Crowd {
    opened_seconds: f64,
    watching_seconds: f64,
    resident_mib: f64,
}

fn crowd(server: &Server) -> Result<Crowd, Box<dyn Error>> {
    let start = Instant::now();
    let mut clients = Vec::new();
    while clients.len() < SESSIONS {
        // Some at a time: a server's queue of connections that it has not accepted yet is short.
        let mut some: Vec<_> =
            (0..SESSIONS_AT_A_TIME).map(|_| Client::start(server.address)).collect::<Result<_, _>>()?;
        some.iter_mut().try_for_each(Client::connected)?;
        clients.append(&mut some);
    }
    let opened_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for (number, client) in clients.iter_mut().enumerate() {
        let path = |part| format!("/locks/lock-{}/contender-{part}", number / SESSIONS_PER_PATH);
        let exists = |part| Request::Exists { path: path(part), watch: true };
        let requests: Vec<_> = (0..WATCHES_PER_SESSION).map(exists).collect();
        client.round(&client::encoded(&requests)?, WATCHES_PER_SESSION)?;
    }
    let watching_seconds = start.elapsed().as_secs_f64();
    Ok(Crowd { opened_seconds, watching_seconds, resident_mib: server.resident_mib()? })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
