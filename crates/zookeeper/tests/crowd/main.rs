//! Very many waiters of one process in one queue: time, order, memory, and what the holder may believe meanwhile.
//!
//! The plain run lets 1,000 of them queue up beside 100; in `cargo xtask test --long` it is 10,000 beside 1,000. The
//! allocator counts, so these tests have a separate binary; the embedded server runs in a separate process, so that its
//! memory does not count.

mod crowd;
mod load;
mod server;

use std::process::ExitCode;
use std::sync::Mutex;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_faults::long;
use peak_alloc::PeakAlloc;

use crate::crowd::{Crowd, Figures};
use crate::load::Load;
use crate::server::Kind;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// How much longer ten times the waiters may take. It counts in the long run, beside which nothing else runs.
const TIMES_MAX: f64 = 13.0;

/// How much memory a waiter may take at the peak, in bytes, its part of what all share included: in a crowd of 100 too.
const WAITER_BYTES_MAX: usize = 20_000;

/// How much more memory may be in use afterwards than before, in bytes: what buffers and tables keep for the next
/// crowd.
const LEFT_BYTES_MAX: usize = 1_000_000;

/// How often each crowd is measured; the median of the times counts, and that of the peaks.
const ROUNDS: usize = 5;

/// One at a time, since each measures.
static TURN: Mutex<()> = Mutex::new(());

fn main() -> ExitCode {
    if server::is_asked_to_serve() {
        return server::serve();
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for kind in [Kind::Embedded, Kind::Apache] {
        let quiet = format!("ten_times_the_waiters_queue_up_and_drain_in_thirteen_times_the_time_{kind}");
        let busy = format!("a_holder_is_never_in_jeopardy_before_a_crowd_on_a_busy_machine_{kind}");
        trials.push(Trial::test(quiet.clone(), move || judged(&quiet, kind, Load::None)));
        trials.push(Trial::test(busy.clone(), move || judged(&busy, kind, Load::EveryCore)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn judged(name: &str, kind: Kind, load: Load) -> Result<(), Failed> {
    if !kind.can_start(name) {
        return Ok(());
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new()?;
    let (small, large) = runtime.block_on(measured(kind, load))?;
    let times = large.whole().as_secs_f64() / small.whole().as_secs_f64();
    println!("{name}: {small}\n{name}: {large}\n{name}: {times:.1} times");
    if matches!(load, Load::None) && times > TIMES_MAX && long::is_asked_for() {
        return Err(format!("ten times the waiters took {times:.1} times as long").into());
    }
    Ok(())
}

/// Measures a crowd, and one ten times as large, at one server.
async fn measured(kind: Kind, load: Load) -> Result<(Figures, Figures), Failed> {
    let count = if long::is_asked_for() { 1_000 } else { 100 };
    let server = kind.start().await?;
    let crowd = Crowd::open(server.address()).await?;
    // Warm: code that is loaded, tables that have grown.
    crowd.queue_up(count).await?;
    let _load = load.begin();
    let small = measure(&crowd, count).await?;
    let large = measure(&crowd, 10 * count).await?;
    crowd.close().await?;
    Ok((small, large))
}

/// Measures crowds of one size, and checks what each of them did.
async fn measure(crowd: &Crowd, count: usize) -> Result<Figures, Failed> {
    let mut measured = Vec::new();
    for _ in 0..ROUNDS {
        measured.push(crowd.queue_up(count).await?.checked()?);
    }
    measured.sort_by_key(Figures::peak_bytes);
    let peak_bytes = measured[ROUNDS / 2].peak_bytes();
    if peak_bytes > WAITER_BYTES_MAX * count {
        return Err(format!("{count} waiters took {peak_bytes} bytes at the peak, at the median").into());
    }
    measured.sort_by_key(Figures::whole);
    Ok(measured.swap_remove(ROUNDS / 2))
}
