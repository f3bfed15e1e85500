//! An outage of a service that the waiters of ten processes live through: how soon the next is granted the lock.
//!
//! The processes are those of `crowd`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_conformance::crowd::LOCK;
use lockkeeper_faults::server::{Kind, Server};
use lockkeeper_faults::{figures, long};
use tokio::runtime::Runtime;

use crate::Service;
use crate::crowd::{Member, PROCESSES, tokens};

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
    let count = usize::try_from(long::rounds(WAITERS))? / PROCESSES * PROCESSES;
    let folder = tempfile::tempdir()?;
    let grants = folder.path().join("grants");
    fs::write(&grants, "")?;
    let servers = [server.address()];
    let keeper = service.keeper(&servers, SETTINGS);
    let mutex = keeper.mutex(LOCK)?;
    let holder = runtime.block_on(mutex.lock())?;
    let url = (service.url)(&servers, SETTINGS);
    let member = |_| Member::start(&url, count / PROCESSES, &grants.display().to_string());
    let mut members = (0..PROCESSES).map(member).collect::<Result<Vec<_>, _>>()?;
    for member in &mut members {
        member.says("joined")?;
    }
    runtime.block_on(server.stop());
    thread::sleep(long::time(AWAY));
    server.start()?;
    runtime.block_on(server.serving())?;
    let back = Instant::now();
    while fs::read_to_string(&grants)?.is_empty() && back.elapsed() < rests_for + AWAY {
        thread::sleep(Duration::from_millis(5));
    }
    let next = back.elapsed();
    for member in &mut members {
        member.says("done")?;
    }
    let all = back.elapsed().as_secs_f64();
    figures::tell(&format!(
        "outage: {kind} was away for {:?}; of {count} waiters of {PROCESSES} processes the next was granted the lock \
         {:.2} s after its return, and all were {all:.1} s after it",
        long::time(AWAY),
        next.as_secs_f64(),
    ));
    let tokens = tokens(&fs::read_to_string(&grants)?)?;
    assert_eq!(tokens.len(), count, "each was granted the lock once");
    assert!(tokens.is_sorted_by(|one, next| one < next), "one after the other");
    assert!(!long::is_asked_for() || next <= rests_for + NEXT_WITHIN, "{next:?} after its return");
    assert!(runtime.block_on(holder.release()).is_err(), "the hold went with its session");
    runtime.block_on(keeper.close())?;
    Ok(())
}
