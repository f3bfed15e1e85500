//! Prints what an uncontended lock costs, beside the bare system calls that it cannot do without.
//!
//! `cargo run --release -p lockkeeper-file --example bare_calls [DIRECTORY]`. All run in turns in the same directory;
//! the bare calls are the making, opening, renaming and unlinking of a named pipe under a flock.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Session, Ticket};
use lockkeeper_file::FileBackend;
use lockkeeper_recipes::{Keeper, Mutex};
use rustix::fs::{AtFlags, FlockOperation, OFlags};

/// How many turns they take; the median turn counts.
const TURNS: usize = 31;

/// How many locks are taken and given back in one turn.
const LOCKS_PER_TURN: u32 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent)?;
    let backend = Arc::new(FileBackend::open(directory.path(), Arc::new(SystemClock))?);
    let session = backend.session().await?;
    let queue = QueueName::new("places")?;
    let owner = Arc::new(Owner::this_process());
    let mutex = Keeper::new(backend).mutex("locks")?;

    let (mut locks, mut places, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        locks.push(lock_turn(&mutex).await?);
        places.push(place_turn(&*session, &queue, &owner).await?);
        bare.push(bare_turn(directory.path())?);
    }
    let (locks, places, bare) = (median(locks), median(places), median(bare));
    println!("in {}, median of {TURNS} turns of {LOCKS_PER_TURN}:", directory.path().display());
    println!("{:<34} {:>8.2} µs", "bare system calls", micros(bare));
    println!("{:<34} {:>8.2} µs {:>5.2} ×", "session: enter and leave", micros(places), ratio(places, bare));
    println!("{:<34} {:>8.2} µs {:>5.2} × (budget 3)", "mutex: lock and release", micros(locks), ratio(locks, bare));
    Ok(())
}

async fn lock_turn(mutex: &Mutex) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    for _ in 0..LOCKS_PER_TURN {
        mutex.lock().await?.release().await?;
    }
    Ok(started.elapsed() / LOCKS_PER_TURN)
}

async fn place_turn(session: &dyn Session, queue: &QueueName, owner: &Arc<Owner>) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    for _ in 0..LOCKS_PER_TURN {
        let ticket = Ticket::mint()?;
        session.enqueue_one(queue, Entry::new(ticket, Mode::Mutex, owner.clone())).await?;
        session.withdraw(queue, ticket).await?;
    }
    Ok(started.elapsed() / LOCKS_PER_TURN)
}

fn bare_turn(directory: &Path) -> Result<Duration, Box<dyn Error>> {
    let (private, none) = (rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, rustix::fs::Mode::empty());
    let path = directory.join("bare");
    std::fs::create_dir_all(&path)?;
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, none)?;
    let lock = rustix::fs::openat(&opened, "lock", OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, private)?;
    let started = Instant::now();
    for number in 0..LOCKS_PER_TURN {
        let name = format!("{number:020}-{:032x}-mutex-{}-host-command", u128::from(number), 4121);
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        rustix::fs::mkfifoat(&opened, ".new", private)?;
        let writer = rustix::fs::openat(&opened, ".new", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, none)?;
        rustix::fs::renameat(&opened, ".new", &opened, &name)?;
        rustix::fs::flock(&lock, FlockOperation::Unlock)?;
        rustix::fs::unlinkat(&opened, &name, AtFlags::empty())?;
        drop(writer);
    }
    Ok(started.elapsed() / LOCKS_PER_TURN)
}

fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns[turns.len() / 2]
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn ratio(ours: Duration, bare: Duration) -> f64 {
    ours.as_secs_f64() / bare.as_secs_f64()
}
