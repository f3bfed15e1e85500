//! Prints what an uncontended place in a queue costs, beside the bare system calls that it cannot do without.
//!
//! `cargo run --release -p lockkeeper-file --example bare_calls [DIRECTORY]`. Both run in turns in the same directory;
//! the bare calls are the making, opening, renaming and unlinking of a named pipe under a flock.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Session, Ticket};
use lockkeeper_file::FileBackend;
use rustix::fs::{AtFlags, FlockOperation, OFlags};

/// How often the two take turns; the median turn counts.
const TURNS: usize = 31;

/// How many places are taken and left in one turn.
const PLACES_PER_TURN: u32 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent)?;
    let backend = FileBackend::open(directory.path(), Arc::new(SystemClock))?;
    let session = at_once(backend.session()).expect("a session of files opens at once")?;
    let queue = QueueName::new("bench")?;
    let owner = Arc::new(Owner::this_process());

    // The first entry makes the directories and raises the counter, and so may have to wait.
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(place(&*session, &queue, &owner))?;
    let (mut library, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        library.push(library_turn(&*session, &queue, &owner)?);
        bare.push(bare_turn(directory.path())?);
    }
    let (library, bare) = (median(library), median(bare));
    println!("directory                 {}", directory.path().display());
    println!("library, enter and leave  {:>8.2} µs", micros(library));
    println!("bare system calls         {:>8.2} µs", micros(bare));
    println!("ratio                     {:>8.2} (budget 3.00)", library.as_secs_f64() / bare.as_secs_f64());
    Ok(())
}

async fn place(session: &dyn Session, queue: &QueueName, owner: &Arc<Owner>) -> lockkeeper_core::Result<()> {
    let ticket = Ticket::mint()?;
    let joined = session.enqueue(queue, Entry { ticket, mode: Mode::Mutex, owner: owner.clone() }).await?;
    assert!(joined.standing.liveness().is_held());
    session.withdraw(queue, ticket).await
}

fn library_turn(session: &dyn Session, queue: &QueueName, owner: &Arc<Owner>) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    for _ in 0..PLACES_PER_TURN {
        let mut entered = pin!(place(session, queue, owner));
        let context = &mut Context::from_waker(Waker::noop());
        // One in a thousand is handed to a thread that flushes the counter, and is polled until it is through.
        while entered.as_mut().poll(context).map(|outcome| outcome.expect("nothing is in the way")).is_pending() {
            std::thread::yield_now();
        }
    }
    Ok(started.elapsed() / PLACES_PER_TURN)
}

fn bare_turn(directory: &Path) -> Result<Duration, Box<dyn Error>> {
    let path = directory.join("bare");
    std::fs::create_dir_all(&path)?;
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, empty())?;
    let lock = rustix::fs::openat(&opened, "lock", OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, private())?;
    let started = Instant::now();
    for number in 0..PLACES_PER_TURN {
        let name = format!("{number:020}-{:032x}-m-{}-host-command", u128::from(number), 4121);
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        rustix::fs::mkfifoat(&opened, ".new", private())?;
        let writer = rustix::fs::openat(&opened, ".new", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, empty())?;
        rustix::fs::renameat(&opened, ".new", &opened, &name)?;
        rustix::fs::flock(&lock, FlockOperation::Unlock)?;
        rustix::fs::unlinkat(&opened, &name, AtFlags::empty())?;
        drop(writer);
    }
    Ok(started.elapsed() / PLACES_PER_TURN)
}

fn private() -> rustix::fs::Mode {
    rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR
}

fn empty() -> rustix::fs::Mode {
    rustix::fs::Mode::empty()
}

fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn median(mut turns: Vec<Duration>) -> Duration {
    turns.sort_unstable();
    turns[turns.len() / 2]
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
