//! Statements that an operator ends, at any instruction of a procedure, under tasks that take turns at several locks.
//!
//! What was interrupted may have taken effect or not. No two hold at once, no caller is refused for good, none is told
//! that it lost a lock that it had, and in the end nothing is left. On MariaDB no handler of a procedure runs then.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_faults::long;

use crate::cuts::keeper;
use crate::harm::Need;
use crate::operator::Kind;
use crate::turns::{Ledger, mutex, name};

const INTERRUPTIONS_LONG: u32 = 5_000;

/// How many sessions take turns, with how many tasks each, and at how many locks.
const SESSIONS: usize = 4;
const TASKS: usize = 4;
const LOCKS: usize = 4;

/// Long, since none may end because the machine is busy.
const SETTINGS: &str = "session_timeout=30s";

/// The longest pause before two statements are ended: 5,000 take three minutes.
const PAUSE_MAX_MS: u64 = 40;

pub(crate) fn play(kind: Kind, random: Random) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(played(kind, random))
}

async fn played(kind: Kind, mut random: Random) -> Result<(), String> {
    let server = kind.start(Need::Nothing).await;
    let ledger = Arc::new(Ledger::new(LOCKS));
    let keepers: Vec<_> = (0..SESSIONS).map(|_| keeper(kind, &server, SETTINGS)).collect();
    let task = |number: usize| {
        let (keeper, ledger) = (keepers[number % SESSIONS].clone(), ledger.clone());
        tokio::spawn(async move { ledger.take_turns(&keeper, number, false).await })
    };
    let tasks: Vec<_> = (0..SESSIONS * TASKS).map(task).collect();
    let (wanted, mut ended) = (long::rounds(INTERRUPTIONS_LONG), 0);
    while ended < wanted && !tasks.iter().any(tokio::task::JoinHandle::is_finished) {
        tokio::time::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS))).await;
        let (one, other) = tokio::join!(server.interrupt_statement(), server.interrupt_statement());
        ended += u32::from(one) + u32::from(other);
    }
    ledger.end();
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
    let (turns, failed) = ledger.counts();
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
