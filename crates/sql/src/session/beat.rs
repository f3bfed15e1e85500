//! Proofs of a session over one connection: it is taken over to it, and beats there. What comes with the answers is
//! taken in.
//!
//! Behind a takeover nothing that was sent over an older connection takes effect any more, and it is known which of our
//! contenders stand.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Bug, Failure, News, Server, SessionTiming as _};
use tokio::sync::mpsc;

use crate::engine::{Connected, Hint};
use crate::look::{GreetedWire, SqlLink};
use crate::session::Core;
use crate::session::others::Others;
use crate::session::settling::{self, DataState, Unsettled, greet};
use crate::statement::{AnswerRow, Argument, RowKind, Statement, status, tickets, word};

/// Beats until the connection fails, or the service has ended the session: then the failure's kind is
/// [`SessionGone`](lockkeeper_session::FailureKind::SessionGone). The last beat was sent at `sent_at`.
pub(super) async fn run(core: &Core, link: &Arc<SqlLink>, others: &Others, mut sent_at: BootInstant) -> Failure {
    loop {
        until_next(core, sent_at).await;
        sent_at = core.life.clock.now();
        while let Err(failure) = beat(core, link, others, sent_at).await {
            if !failure.keeps_connection() {
                return failure;
            }
            core.life.set_trouble(Some(failure));
            core.life.clock.sleep_until(sent_at.saturating_add(core.timing.again_interval())).await;
            sent_at = core.life.clock.now();
        }
    }
}

/// Waits until the next beat is due, or is asked for.
async fn until_next(core: &Core, sent_at: BootInstant) {
    let due = async {
        core.life.clock.sleep_until(sent_at.saturating_add(core.timing.holding_interval())).await;
        if !core.is_busy() {
            core.life.clock.sleep_until(sent_at.saturating_add(core.timing.idle_interval())).await;
        }
    };
    tokio::select! {
        biased;
        () = core.life.urged() => {}
        () = due => {}
    }
}

async fn beat(core: &Core, link: &Arc<SqlLink>, others: &Others, sent_at: BootInstant) -> Result<(), Failure> {
    let ours: Vec<_> = core.contenders.next().into_iter().map(|(ticket, ())| ticket).collect();
    let awaited = core.waits.on_table(|table, _| table.next_awaited());
    // What begins while this is under way is not meant by its answer.
    let should_listen = core.waits.on_table(|table, _| table.must_be_told());
    let state = link.connection.served.get().map(String::as_str);
    let arguments = vec![
        core.id.into(),
        Argument::Int(core.epoch(link.number)),
        Argument::Int(core.next_beat()),
        Argument::from(&ours[..]),
        Argument::from(&awaited[..]),
        Argument::Int(others.ring(sent_at)),
    ];
    let asking = core.ask(link, Statement::new("beat", arguments));
    let rows = core.patiently(asking).await?;
    stand(core, link, &rows).await?;
    core.proven(sent_at);
    if core.life.present_link().is_some() {
        core.life.set_trouble(None);
    }
    let living = others.shown(&rows, core.life.clock.now(), core.life.clock.unix_time());
    core.waits.on_table(|table, _| table.stay(&living));
    if should_listen && status(&rows)?.epoch != Some(1) {
        core.waits.mark_unnotified();
    }
    let served = state.map_or(Ok(()), |state| settling::still_served(state, &rows));
    if let (Some(_), Ok(()), Some(timeout_max_ms)) = (state, &served, status(&rows)?.timeout_ms) {
        core.timeout_max_ms.store(timeout_max_ms, Ordering::Relaxed);
    }
    let missing: Vec<_> = tickets(&rows, RowKind::Missing).filter(|ticket| ours.contains(ticket)).collect();
    settling::miss_contenders(core, link, &rows, &missing).await?;
    if served.is_err() {
        core.displaced.lock().extend(&missing);
    }
    core.contenders.tell_missing(missing);
    tickets(&rows, RowKind::Missing)
        .filter(|ticket| awaited.contains(ticket))
        .for_each(|gone| core.waits.departed(gone));
    note_ours(core, &rows);
    served
}

/// Takes in whether the session stands, and goes on over this connection, as an answer says.
async fn stand(core: &Core, link: &Arc<SqlLink>, rows: &[AnswerRow]) -> Result<(), Failure> {
    match word(rows)? {
        "ok" => Ok(()),
        "gone" => Err(settling::miss_session(core, link).await),
        _ => Err(Failure::superseded()),
    }
}

/// A connection that the session has.
pub(super) struct TakenConnection {
    pub(super) link: Arc<SqlLink>,
    pub(super) hints: mpsc::Receiver<Hint>,
    pub(super) state: DataState,
    /// When the beat was sent with which it was taken.
    pub(super) proven_at: BootInstant,
}

/// Takes a session over to this connection. `unsettled` is what was known over an earlier one.
pub(super) async fn restore(
    core: &Core,
    connected: Connected,
    number: u64,
    server: Server,
    unsettled: Option<&Unsettled>,
) -> Result<TakenConnection, Failure> {
    let Connected { wire, greeting, hints } = connected;
    let link = SqlLink::new(GreetedWire::new(wire, server, greeting), number, ());
    let greeted = core.ask(&link, greet(&link.connection.instance));
    let (proven_at, kept) = (core.life.clock.now(), core.contenders.kept());
    let resumed = core.ask(&link, resume(core, number, &kept));
    let greeted = core.patiently(greeted).await?;
    let state = DataState::read(&greeted, core.life.clock.now(), unsettled)?;
    let rows = core.patiently(resumed).await?;
    stand(core, &link, &rows).await?;
    core.proven(proven_at);
    let missing: Vec<Ticket> =
        if core.epoch(number) > 1 { not_standing(&rows, kept) } else { tickets(&rows, RowKind::Missing).collect() };
    settling::miss_contenders(core, &link, &rows, &missing).await?;
    note_ours(core, &rows);
    if state.unsettled().is_some() {
        core.displaced.lock().extend(&missing);
    }
    core.contenders.tell_missing(missing);
    Ok(TakenConnection { link, hints, state, proven_at })
}

/// Those of the kept contenders that do not stand, as the answer to a takeover says.
pub(super) fn not_standing(rows: &[AnswerRow], kept: Vec<Ticket>) -> Vec<Ticket> {
    let standing: BTreeSet<_> = tickets(rows, RowKind::Stands).collect();
    kept.into_iter().filter(|ticket| !standing.contains(ticket)).collect()
}

fn resume(core: &Core, number: u64, kept: &[Ticket]) -> Statement {
    let (epoch, beat) = (Argument::Int(core.epoch(number)), Argument::Int(core.next_beat()));
    let mut arguments = vec![core.id.into(), epoch, beat, kept.into()];
    if core.life.testing.has(Bug::IgnoresEpochs) {
        arguments.extend([Argument::Ids(Vec::new()), Argument::Int(0)]);
        return Statement::new("beat", arguments);
    }
    Statement::new("resume", arguments)
}

/// Takes in which of our contenders were broken, or are asked to give up.
fn note_ours(core: &Core, rows: &[AnswerRow]) {
    tickets(rows, RowKind::Broken).for_each(|ticket| core.contenders.tell(News::Broken(ticket)));
    for row in rows.iter().filter(|row| row.says(RowKind::Asked)) {
        if let (Some(ticket), Some(ask)) = (row.ticket, &row.ask) {
            core.contenders.tell(News::Asked(Ticket::from_bits(ticket), ask.clone()));
        }
    }
}
