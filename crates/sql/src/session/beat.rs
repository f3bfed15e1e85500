//! Beats: proves that the session lives, and takes in what is told with the answers.

use std::sync::Arc;

use lockkeeper_core::Ticket;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, News};

use crate::session::Link;
use crate::session::core::Core;
use crate::session::others::Others;
use crate::session::settling;
use crate::statement::{Argument, Row, Statement, What, status, tickets, word};

/// Beats until the connection fails, or the service has ended the session: then the failure's kind is
/// [`FailureKind::SessionGone`]. The last beat was sent at `sent_at`.
pub(super) async fn run(core: &Core, link: &Arc<Link>, others: &Others, mut sent_at: BootInstant) -> Failure {
    loop {
        until_next(core, sent_at).await;
        sent_at = core.life.clock.now();
        while let Err(failure) = beat(core, link, others, sent_at).await {
            if !failure.is_passing() || failure.effect == Effect::Unknown || failure.needs_another() {
                return failure;
            }
            // The server turns us away for now; the session may still be proven in time.
            core.life.set_trouble(Some(failure));
            core.life.clock.sleep_until(sent_at.saturating_add(core.timing.busy_interval() / 4)).await;
            sent_at = core.life.clock.now();
        }
    }
}

/// Waits until the next beat is due, or is asked for.
async fn until_next(core: &Core, sent_at: BootInstant) {
    let due = async {
        core.life.clock.sleep_until(sent_at.saturating_add(core.timing.busy_interval())).await;
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

async fn beat(core: &Core, link: &Arc<Link>, others: &Others, sent_at: BootInstant) -> Result<(), Failure> {
    let ours: Vec<_> = core.contenders.next().into_iter().map(|(ticket, ())| ticket).collect();
    let awaited = core.waits.next_awaited();
    // What begins while this is under way is not meant by its answer.
    let should_listen = core.waits.must_be_told();
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
    match word(&rows)? {
        "ok" => {}
        "gone" => return Err(settling::miss_session(core, link).await),
        _ => return Err(Failure::superseded()),
    }
    core.proven(sent_at);
    if core.life.present_link().is_some() {
        core.life.set_trouble(None);
    }
    others.shown(&rows, core.life.clock.now());
    if should_listen && status(&rows)?.epoch != Some(1) {
        core.waits.deafen();
    }
    let missing: Vec<_> = tickets(&rows, What::Missing).filter(|ticket| ours.contains(ticket)).collect();
    settling::miss_contenders(core, link, &rows, &missing).await?;
    core.contenders.tell_missing(missing);
    tickets(&rows, What::Missing).filter(|ticket| awaited.contains(ticket)).for_each(|gone| core.waits.departed(gone));
    note_ours(core, &rows);
    Ok(())
}

/// Takes in which of our contenders were broken, or are asked to give up.
pub(super) fn note_ours(core: &Core, rows: &[Row]) {
    tickets(rows, What::Broken).for_each(|ticket| core.contenders.tell(News::Broken(ticket)));
    for row in rows.iter().filter(|row| row.says(What::Asked)) {
        if let (Some(ticket), Some(ask)) = (row.ticket, &row.ask) {
            core.contenders.tell(News::Asked(Ticket::from_bits(ticket), ask.clone()));
        }
    }
}
