//! An outage of a service that the waiters of ten processes live through: how soon the next is granted the lock.
//!
//! The processes are those of `crowd`.

use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_conformance::crowd::LOCK;
use lockkeeper_faults::server::{Kind, Server};
use lockkeeper_faults::{figures, long};
use tokio::runtime::Runtime;

use crate::Service;
use crate::crowd::{PROCESSES, Waiters};

/// How many wait in all in the long run; the plain one has a tenth.
const WAITERS: u32 = 1_000;

/// How long the service is away in the long run.
const AWAY: Duration = Duration::from_secs(60);

/// Shorter than each outage. A session that were left to its timeout would keep the next one waiting for longer than
/// [`NEXT_WITHIN`].
const SETTINGS: &str = "session_timeout=4s";

/// How soon the next is granted the lock once the service grants any: half a second for the pauses of those who
/// connect, a beat of sessions on a database, and what a thousand joins take on two cores. Judged in the long run.
const NEXT_WITHIN: Duration = Duration::from_secs(2);

/// Has all wait behind a holder, stops the server for a while, and starts it again. It grants no lock before it has
/// rested for so long.
#[expect(clippy::disallowed_methods, reason = "a test measures how long the waiters are kept")]
pub fn live_through<K: Kind>(
    kind: &str,
    service: &Service,
    server: &mut Server<K>,
    rests_for: Duration,
) -> Result<(), Failed> {
    let runtime = Runtime::new()?;
    let servers = [server.address()];
    let keeper = service.keeper(&servers, SETTINGS);
    let holder = runtime.block_on(keeper.mutex(LOCK)?.lock())?;
    let mut waiters = Waiters::start(&(service.url)(&servers, SETTINGS), WAITERS)?;
    waiters.say("joined")?;
    runtime.block_on(server.stop());
    thread::sleep(long::time(AWAY));
    server.start()?;
    runtime.block_on(server.serving())?;
    let back = Instant::now();
    while waiters.grants()?.is_empty() && back.elapsed() < rests_for + AWAY {
        thread::sleep(Duration::from_millis(5));
    }
    let next = back.elapsed();
    waiters.say("done")?;
    let (all, count) = (back.elapsed().as_secs_f64(), waiters.count);
    figures::tell(&format!(
        "outage: {kind} was away for {:?}; of {count} waiters of {PROCESSES} processes the next was granted the lock \
         {:.2} s after its return, and all were {all:.1} s after it",
        long::time(AWAY),
        next.as_secs_f64(),
    ));
    waiters.check_grants()?;
    assert!(!long::is_asked_for() || next <= rests_for + NEXT_WITHIN, "{next:?} after its return");
    assert!(runtime.block_on(holder.release()).is_err(), "the hold went with its session");
    runtime.block_on(keeper.close())?;
    Ok(())
}
