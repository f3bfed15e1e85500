//! Serves the waits of a session over a connection: by what the server tells, by one named lock at a time, and by looks
//! where nothing tells, or before anything does.
//!
//! It has the server tell of departures while it waits, or holds for longer than most locks are held: each listener
//! costs the server at every hand-off. So it rests while its turn is far off in a queue that moves quickly.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Failure, Link as _, SessionTiming as _, or_never};
use tokio::sync::mpsc;

use crate::engine::{Hint, NamedLockWait, WakeMethod};
use crate::look::SqlLink;
use crate::session::Core;
use crate::session::waits::{COUNTED_MAX, ListenPause, WaitLine, WakeState};
use crate::statement::{Argument, RowKind, Statement, part_number, status, tickets, word};

/// The pause after a wait for a named lock was given up before its time: it was disturbed, and might be again.
const DISTURBED_PAUSE: Duration = Duration::from_millis(20);

/// How long a session holds before it listens: a hold that ends sooner ends before a request to give it up matters.
const HELD_FOR: Duration = Duration::from_millis(100);

/// How long it neither holds nor waits before it listens no more: one that waits now and then does not begin each time.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// How often it is found out whether it is idle.
const IDLE_CHECK: Duration = Duration::from_secs(15);

/// The same two where it waited in a crowd that moves quickly: there each listener costs the others more.
const CROWD_IDLE_FOR: Duration = Duration::from_millis(200);
const CROWD_IDLE_CHECK: Duration = Duration::from_millis(100);

/// The pause before it asks again if too many listen, or it could not be asked.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// How long after its last turn it finds out whether the next one is far: the turn itself comes first.
const COUNTED_AFTER: Duration = Duration::from_millis(20);

/// For how long it is measured first how quickly a queue moves; …
const MEASURED_FOR: Duration = Duration::from_millis(100);

/// … twice as long each time, up to this.
const MEASURED_MAX: Duration = Duration::from_secs(2);

/// Serves the waits over a connection. It never returns; all waits end when the connection is detached.
pub(super) async fn serve(core: &Arc<Core>, link: &Arc<SqlLink>, hints: mpsc::Receiver<Hint>) -> Infallible {
    let wake_method = async {
        match link.connection.wake_method {
            WakeMethod::Notified => listen(core, link).await,
            WakeMethod::NamedLocks => wait_for_named_locks(core, link).await,
            WakeMethod::Polled => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        never = hear(core, hints) => never,
        never = wake_method => never,
        never = look_at_due(core, link) => never,
    }
}

async fn hear(core: &Core, mut hints: mpsc::Receiver<Hint>) -> Infallible {
    while let Some(hint) = hints.recv().await {
        match hint {
            Hint::Departed(ticket) => core.waits.departed(ticket),
            Hint::Changed { name, part } => core.waits.on_table(|table, _| table.changed(&name, part)),
            Hint::Asked => core.life.urge(),
        }
    }
    // They end with the connection, of which the driver hears.
    std::future::pending().await
}

async fn look_at_due(core: &Arc<Core>, link: &Arc<SqlLink>) -> Infallible {
    loop {
        let due = core.waits.on_table(|table, _| table.next_due());
        let turn = or_never(due.map(|due| core.life.clock.sleep_until(due)));
        tokio::select! {
            biased;
            () = turn => {}
            () = core.waits.until_looks_change() => continue,
        }
        let due = core.waits.on_table(|table, now| table.take_due(now));
        if !due.is_empty() {
            look(core, link, &due).await;
        }
    }
}

async fn look(core: &Core, link: &Arc<SqlLink>, due: &[Ticket]) {
    let statement = Statement::new("missing", vec![Argument::from(due)]);
    match core.ask(link, statement).await {
        Ok(rows) => tickets(&rows, RowKind::Missing).for_each(|gone| core.waits.departed(gone)),
        // If the connection is of no use any more, the waits end with it.
        Err(_) => core.waits.on_table(|table, now| table.look_again(due, now)),
    }
}

async fn wait_for_named_locks(core: &Arc<Core>, link: &Arc<SqlLink>) -> Infallible {
    loop {
        let next = core.waits.on_table(|table, now| table.next_named_lock(now));
        match next.ticket {
            Some(ticket) => wait_at(core, link, ticket).await,
            None => until_another(core, next.changes_at).await,
        }
    }
}

async fn until_another(core: &Core, changes_at: Option<BootInstant>) {
    let turn = or_never(changes_at.map(|changes_at| core.life.clock.sleep_until(changes_at)));
    tokio::select! {
        biased;
        () = turn => {}
        () = core.waits.until_named_locks_change() => {}
    }
}

/// Waits for one named lock until it opens, the time is up, or another one is next.
async fn wait_at(core: &Core, link: &SqlLink, ticket: Ticket) {
    let ends_at = core.life.clock.now().saturating_add(core.timing.holding_interval());
    let mut named_lock = link.connection.wire.await_named_lock(ticket, core.timing.holding_interval());
    let ended = loop {
        let next = core.waits.on_table(|table, now| table.next_named_lock(now));
        if next.ticket != Some(ticket) {
            return;
        }
        tokio::select! {
            biased;
            ended = &mut named_lock => break ended,
            () = until_another(core, next.changes_at) => {}
        }
    };
    match ended {
        Ok(NamedLockWait::GivenUp) if core.life.clock.now() < ends_at => {
            pause(core, DISTURBED_PAUSE).await;
        }
        Ok(NamedLockWait::GivenUp) => {}
        Ok(NamedLockWait::Free) => core.waits.opened(ticket),
        Err(failure) => {
            tracing::debug!(target: "lockkeeper", %failure, "no wait for a named lock: this wait is looked at");
            core.waits.opened(ticket);
        }
    }
}

/// Why a session listens no more.
enum ListenEnd {
    /// It has neither held nor waited for a while.
    Idle,
    /// It hears nothing.
    NoNotifications,
    /// The turn of its first wait is far, and the server knows.
    Far(WaitLine, ListenPause),
}

/// Listens while that is worth it, over one connection.
async fn listen(core: &Arc<Core>, link: &Arc<SqlLink>) -> Infallible {
    loop {
        until_wanted(core).await;
        match link.connection.wire.listen(core.id).await {
            Ok(true) => {
                core.waits.tell_by(|since| WakeState::Told { since });
                match until_over(core, link).await {
                    // A pooler serves each statement over another connection: the server tells this session nothing.
                    ListenEnd::NoNotifications => return std::future::pending().await,
                    ListenEnd::Idle => {
                        core.waits.tell_by(|_| WakeState::Soon);
                        let _ = link.connection.wire.unlisten(core.id).await;
                    }
                    ListenEnd::Far(line, until) => rest(core, link, &line, until).await,
                }
                continue;
            }
            Ok(false) => tracing::debug!(target: "lockkeeper", "too many sessions listen: waits are looked at"),
            Err(failure) => {
                tracing::debug!(target: "lockkeeper", %failure, "the session cannot listen: waits are looked at");
                if failure.needs_another() {
                    link.shut();
                }
            }
        }
        core.waits.tell_by(|_| WakeState::Looks);
        pause(core, REFUSED_PAUSE).await;
    }
}

/// Waits until the session waits, or has held something for a while.
async fn until_wanted(core: &Core) {
    let held = async {
        loop {
            core.contenders.until_standing().await;
            core.contenders.has_lasting();
            pause(core, HELD_FOR).await;
            if core.contenders.has_lasting() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = core.waits.while_so(|table| table.is_empty()) => {}
        () = held => {}
    }
}

/// Waits until the session listens no more.
async fn until_over(core: &Core, link: &Arc<SqlLink>) -> ListenEnd {
    let mut idle = std::pin::pin!(until_idle(core));
    let mut measured_for = MEASURED_FOR;
    // Where it is known already how quickly the queue moves, those ahead of a wait are counted once.
    let mut measures = !core.waits.on_table(|table, now| table.is_quick(now));
    loop {
        tokio::select! {
            biased;
            over = &mut idle => return over,
            () = until_far(core) => measured_for = MEASURED_FOR,
            () = pause(core, measured_for), if measures && is_counted_far(core) => {
                measured_for = MEASURED_MAX.min(measured_for * 2);
            }
        }
        let Some(line) = core.waits.on_table(|table, _| table.far().or_else(|| table.counted_far())) else { continue };
        let was_quick = core.waits.on_table(|table, now| table.is_quick(now));
        if let Some(rest) = count(core, link, &line).await {
            return ListenEnd::Far(line, rest);
        }
        measures = !was_quick;
        if measures && core.waits.on_table(|table, now| table.is_quick(now)) {
            measured_for = MEASURED_FOR;
        }
    }
}

/// Whether the first wait was counted, and was far.
fn is_counted_far(core: &Core) -> bool {
    core.waits.on_table(|table, _| table.counted_far()).is_some()
}

/// Waits until the first wait may be far, and is not counted yet.
async fn until_far(core: &Core) {
    core.waits.while_so(|table| table.far().is_none()).await;
    pause(core, COUNTED_AFTER).await;
}

/// Rests until the wait is near its turn, or another one is the first.
async fn rest(core: &Core, link: &Arc<SqlLink>, line: &WaitLine, mut rest: ListenPause) {
    loop {
        tokio::select! {
            biased;
            () = core.life.clock.sleep_until(rest.until) => {}
            () = core.waits.while_so(|table| table.are_behind(line)) => return,
        }
        if rest.is_near_then {
            return;
        }
        let Some(next) = count(core, link, line).await else { return };
        rest = next;
    }
}

/// Finds out how many stand ahead of a wait. If they are many, in a quick queue, the session is told no more, and it is
/// returned how long it rests.
async fn count(core: &Core, link: &Arc<SqlLink>, line: &WaitLine) -> Option<ListenPause> {
    let asked_at = core.life.clock.now();
    let far = core.waits.on_table(|table, now| table.count(line, now));
    let (queue, token) = line;
    let number = |far: usize| i64::try_from(far).unwrap_or(i64::MAX);
    let arguments = vec![
        core.id.into(),
        Argument::Text(queue.as_str().to_owned()),
        Argument::Int(part_number(queue.part())),
        Argument::Int(token.as_i64()),
        Argument::Int(far.map_or(i64::MAX, number)),
        Argument::Int(number(COUNTED_MAX)),
    ];
    let counted = async {
        let rows = core.ask(link, Statement::new("rest", arguments)).await?;
        let ahead = status(&rows)?.number.and_then(|ahead| usize::try_from(ahead).ok());
        Ok((word(&rows)? == "ok", ahead.ok_or_else(Failure::unexpected)?))
    };
    match counted.await {
        Ok((is_far, ahead)) => {
            let rest = core.waits.on_table(|table, _| table.counted(line, ahead, asked_at));
            core.waits.on_table(|table, _| table.rests(is_far));
            is_far.then_some(rest)
        }
        Err(failure) => {
            let failure: Failure = failure;
            tracing::debug!(target: "lockkeeper", %failure, "it is not known how far a wait is");
            if failure.needs_another() {
                link.shut();
            }
            // Where it may have been done, it listens again.
            core.waits.on_table(|table, _| table.rests(far.is_some()));
            far.map(|_| ListenPause { until: asked_at, is_near_then: true })
        }
    }
}

/// Waits until the session has neither held nor waited for a while, or hears nothing.
async fn until_idle(core: &Core) -> ListenEnd {
    let mut idle_since = None;
    loop {
        let in_crowd = core.waits.on_table(|table, now| table.is_quick(now));
        let (check, idle_for) = if in_crowd { (CROWD_IDLE_CHECK, CROWD_IDLE_FOR) } else { (IDLE_CHECK, IDLE_FOR) };
        pause(core, check).await;
        let now = core.life.clock.now();
        let since = *idle_since.get_or_insert(now);
        if core.is_busy() {
            idle_since = None;
        } else if now.saturating_duration_since(since) >= idle_for {
            return ListenEnd::Idle;
        }
        if !core.waits.on_table(|table, _| table.is_told()) {
            return ListenEnd::NoNotifications;
        }
    }
}

async fn pause(core: &Core, duration: Duration) {
    core.life.clock.sleep_until(core.life.clock.now().saturating_add(duration)).await;
}
