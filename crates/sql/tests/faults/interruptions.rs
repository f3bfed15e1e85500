//! Statements that an operator ends, at any instruction of a procedure, under tasks that take turns at several locks.
//!
//! What was interrupted may have taken effect or not. No two hold at once, no caller is refused for good, none is told
//! that it lost a lock that it had, and in the end nothing is left. On MariaDB no handler of a procedure runs then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_core::{Advice, ErrorKind};
use lockkeeper_faults::long;
use lockkeeper_recipes::{Keeper, Mutex};

use crate::cuts::keeper;
use crate::database::Kind;
use crate::harm::Need;

/// How many statements are ended.
const INTERRUPTIONS_LONG: u32 = 5_000;

/// How many sessions take turns, with how many tasks each, and at how many locks.
const SESSIONS: usize = 4;
const TASKS: usize = 4;
const LOCKS: usize = 4;

/// Long, since none may end because the machine is busy.
const SETTINGS: &str = "session_timeout=30s";

/// The longest pause before two statements are ended: 5,000 take three minutes.
const PAUSE_MAX_MS: u64 = 40;

/// What the tasks share.
#[derive(Debug, Default)]
struct Ledger {
    is_over: AtomicBool,
    inside: [AtomicUsize; LOCKS],
    turns: AtomicUsize,
    /// How many calls failed in passing.
    failed: AtomicUsize,
}

pub(crate) fn play(kind: Kind, random: Random) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(played(kind, random))
}

async fn played(kind: Kind, mut random: Random) -> Result<(), String> {
    let server = kind.start(Need::Nothing).await;
    let ledger = Arc::new(Ledger::default());
    let keepers: Vec<_> = (0..SESSIONS).map(|_| keeper(kind, &server, SETTINGS)).collect();
    let task = |number: usize| {
        let (keeper, ledger) = (keepers[number % SESSIONS].clone(), ledger.clone());
        tokio::spawn(async move { take_turns(&keeper, number, &ledger).await })
    };
    let tasks: Vec<_> = (0..SESSIONS * TASKS).map(task).collect();
    let (wanted, mut ended) = (long::rounds(INTERRUPTIONS_LONG), 0);
    while ended < wanted && !tasks.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS))).await;
        let (one, other) = tokio::join!(server.interrupt_statement(), server.interrupt_statement());
        ended += u32::from(one) + u32::from(other);
    }
    ledger.is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        soon("the end of a task", task).await.map_err(|error| error.to_string())??;
    }
    let other = keeper(kind, &server, SETTINGS);
    let mut left = Vec::new();
    for at in 0..LOCKS {
        // One that was forgotten would stand ahead of it.
        let guard =
            soon("a lock that none has", mutex(&other, at)?.lock()).await.map_err(|error| format!("{error:#}"))?;
        guard.release().await.map_err(|error| format!("{error:#}"))?;
        left.extend(other.contenders(&name(at)).await.map_err(|error| format!("{error:#}"))?);
    }
    let (turns, failed) = (ledger.turns.load(Ordering::SeqCst), ledger.failed.load(Ordering::SeqCst));
    println!(
        "faults: {kind:?}, {ended} statements interrupted in {turns} turns, {failed} calls failed in passing; \
         {} contenders left",
        left.len()
    );
    if !left.is_empty() || turns == 0 {
        return Err(format!("{left:?} is left, or {turns} turns are too few"));
    }
    Ok(())
}

fn name(at: usize) -> String {
    format!("ledger {at}")
}

fn mutex(keeper: &Keeper, at: usize) -> Result<Mutex, String> {
    keeper.mutex(&name(at)).map_err(|error| format!("{error:#}"))
}

/// Takes one lock after the other, and makes sure that it is alone with each.
async fn take_turns(keeper: &Keeper, number: usize, ledger: &Ledger) -> Result<(), String> {
    let mut at = number % LOCKS;
    while !ledger.is_over.load(Ordering::SeqCst) {
        at = (at + 1) % LOCKS;
        let guard = match mutex(keeper, at)?.lock().await {
            Ok(guard) => guard,
            Err(error) if error.advice() == Advice::Permanent || is_loss(&error) => {
                return Err(format!("no lock: {error:#}"));
            }
            Err(_) => {
                ledger.failed.fetch_add(1, Ordering::SeqCst);
                continue;
            }
        };
        let others = ledger.inside[at].fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        let inside = ledger.inside[at].fetch_sub(1, Ordering::SeqCst);
        if (others, inside) != (0, 1) {
            return Err(format!("two hold {}, one of them with token {}", name(at), guard.fencing_token()));
        }
        ledger.turns.fetch_add(1, Ordering::SeqCst);
        match guard.release().await {
            Err(error) if error.advice() == Advice::Permanent || is_loss(&error) => {
                return Err(format!("no release: {error:#}"));
            }
            Err(_) => drop(ledger.failed.fetch_add(1, Ordering::SeqCst)),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// No contender is removed here but by its owner, and no session is given up.
fn is_loss(error: &lockkeeper_core::Error) -> bool {
    matches!(error.kind(), ErrorKind::Lost(_))
}
