//! Reads what the scripts show of a queue.

use lockkeeper_core::{ConnectionNumber, QueueView};
use lockkeeper_session::Failure;
use redis::Value;

use crate::answers::{list, number, text};
use crate::layout::{Member, mode_of};
use crate::queue::plain::Foreigner;

/// Reads a view as the scripts answer it. What is no contender is passed over.
pub(super) fn read(connection: ConnectionNumber, answer: Value) -> Result<QueueView, Failure> {
    read_with_foreigner(connection, answer).map(|(view, _)| view)
}

/// Reads a view, and of another client that it shows when its key ends.
pub(super) fn read_with_foreigner(
    connection: ConnectionNumber,
    answer: Value,
) -> Result<(QueueView, Option<Foreigner>), Failure> {
    let mut answer = list(answer)?.into_iter();
    let mut next = || answer.next().ok_or_else(Failure::unexpected);
    let (omitted, elsewhere) = (number(&next()?)?, text(next()?)?);
    let (mut members, mut foreigner) = (Vec::with_capacity(answer.len()), None);
    for shown in answer {
        let shown = text(shown)?;
        members.extend(Member::parse(&shown));
        foreigner = foreigner.or_else(|| Foreigner::read(&shown));
    }
    members.sort_unstable_by_key(|member| (member.place(), member.ticket));
    // It holds what our first contender waits for.
    let foreign = foreigner.iter().map(Foreigner::contender);
    let contenders: Vec<_> = foreign.chain(members.iter().map(Member::contender)).collect();
    let mut view = QueueView::new(connection, contenders);
    view.omitted = usize::try_from(omitted).map_err(|_| Failure::unexpected())?;
    view.elsewhere = mode_of(&elsewhere);
    Ok((view, foreigner))
}
