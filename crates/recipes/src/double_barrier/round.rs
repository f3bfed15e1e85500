//! One attempt at entering a double barrier, and one at seeing all of a round leave it.
//!
//! Members stand in the line. A member that sees enough of them that are not inside yet notes all of these in the
//! value, and so lets them in: members wait for the value, not for each other, and a wake-up without cause lets no
//! member in. Each new member looks, so no other has to: if the last one needed dies before it has written, one is
//! missing again.

use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, Caller, ContenderId, Expected, Extent, Freshness, Mode, QueueName, QueueView, Result, Session, Ticket,
    Value, ValueVersion,
};

use crate::contend::{
    GrantAttempt, Granted, JoinedPlace, OnePlace, WaitProgress, check_with_reason, kind_mismatch, onlooker_error,
    refused, removed, until_answered,
};
use crate::decide;
use crate::shared::{KeeperStage, Shared};

/// The members that were let in, as the value lists them: `ticket,ticket;ticket,ticket;`, the last round first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Rounds {
    /// All members of the last round, as they came in, whether still there or not.
    current: Vec<Ticket>,
    /// Each earlier round that had not left when the next one began: the member that came in first, by which its
    /// members identify the round, and all that were still there, since a member may not know those that came in after
    /// it.
    earlier: Vec<Vec<Ticket>>,
}

impl Rounds {
    /// Reads what a value says; `None` if it is not a double barrier's.
    fn read(bytes: &[u8]) -> Option<Self> {
        let tickets = |text: &str| -> Option<Vec<Ticket>> {
            let texts = text.split(',').filter(|text| !text.is_empty());
            texts.map(|text| u128::from_str_radix(text, 16).ok().map(Ticket::from_bits)).collect()
        };
        let mut rounds = std::str::from_utf8(bytes).ok()?.strip_suffix(';')?.split(';');
        Some(Self { current: tickets(rounds.next()?)?, earlier: rounds.map(tickets).collect::<Option<_>>()? })
    }

    fn to_bytes(&self) -> Arc<[u8]> {
        let text = |round: &Vec<Ticket>| round.iter().map(Ticket::to_string).collect::<Vec<_>>().join(",") + ";";
        self.all().map(text).collect::<String>().into_bytes().into()
    }

    fn all(&self) -> impl Iterator<Item = &Vec<Ticket>> {
        std::iter::once(&self.current).chain(&self.earlier)
    }

    fn is_inside(&self, ticket: &Ticket) -> bool {
        self.round_of(ticket).is_some()
    }

    /// Returns the round of this member, if it went in.
    fn round_of(&self, ticket: &Ticket) -> Option<&[Ticket]> {
        self.all().find(|round| round.contains(ticket)).map(Vec::as_slice)
    }

    /// Returns the members that go in together now, given the line; `None` while more are needed.
    ///
    /// Enough must have come that are not inside yet. While the whole round is there, a new member joins it; once one
    /// of its members has left, a new member is of the next round.
    fn admits(&self, members: usize, line: &[Ticket]) -> Option<Vec<Ticket>> {
        let fresh: Vec<_> = line.iter().copied().filter(|ticket| !self.is_inside(ticket)).collect();
        let is_whole = !self.current.is_empty() && self.current.iter().all(|ticket| line.contains(ticket));
        (fresh.len() >= members || is_whole).then_some(fresh)
    }

    /// Notes these as inside.
    fn admit(&self, admitted: &[Ticket], line: &[Ticket]) -> Self {
        let is_same_round =
            self.current.iter().any(|ticket| admitted.contains(ticket)) || self.admits(usize::MAX, line).is_some();
        let Self { mut current, mut earlier } = self.clone();
        if !is_same_round {
            earlier.push(std::mem::take(&mut current));
        }
        let fresh: Vec<_> = admitted.iter().copied().filter(|ticket| !current.contains(ticket)).collect();
        current.extend(fresh);
        let is_there = |ticket: &Ticket| line.contains(ticket) && !current.contains(ticket);
        earlier.retain(|round| round.iter().any(is_there));
        for round in &mut earlier {
            let first = round[0];
            round.retain(|ticket| *ticket == first || is_there(ticket));
        }
        Self { current, earlier }
    }
}

/// Asks to go in as one of `members` members.
#[derive(Debug)]
pub(crate) struct OneRound<'a> {
    pub(crate) queue: &'a QueueName,
    pub(crate) members: u32,
    pub(crate) caller: Caller,
}

/// A place inside a double barrier.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) granted: Granted,
    /// The members that went in together, as far as known then; in the order of coming in.
    pub(crate) round: Vec<Ticket>,
}

impl GrantAttempt for OneRound<'_> {
    type Granted = Inside;

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<Inside> {
        let (session, member, value) = self.join(shared).await?;
        *progress = WaitProgress::Placed;
        let value = match value.await {
            Ok(value) => value,
            // Another member may have counted on this place already, so a failure that may pass must not cost it.
            Err(error) => {
                let standing = &*member.granted.grant.standing;
                until_answered(shared, self.queue, standing, Some(error), || session.values().get(self.queue)).await?
            }
        };
        let inside = self.enter(shared, &session, member, value, true).await?;
        Ok(inside.expect("a waiting member goes in, or an error ends the wait"))
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<Inside>> {
        let (session, member, value) = self.join(shared).await?;
        let value = value.await.map_err(|error| error.at(self.queue))?;
        self.enter(shared, &session, member, value, false).await
    }
}

impl OneRound<'_> {
    /// Joins the line, and asks for the value after that.
    async fn join(&self, shared: &Shared) -> Result<(Arc<dyn Session>, JoinedPlace, BoxFuture<Result<Option<Value>>>)> {
        let session = shared.session().await.map_err(|error| error.at(self.queue))?;
        let member = OnePlace::new(self.queue, Mode::Member, self.caller);
        let sent = member.send(shared, session.clone())?;
        // Sent right after the join, so the member that completes a round needs no second round trip.
        let value = session.values().get(self.queue);
        let joined = member.joined(shared, sent).await?;
        Ok((session, joined, value))
    }

    /// Goes in, or waits until that is possible; `None` if it may not wait.
    async fn enter(
        &self,
        shared: &Shared,
        session: &Arc<dyn Session>,
        member: JoinedPlace,
        mut value: Option<Value>,
        waits: bool,
    ) -> Result<Option<Inside>> {
        let JoinedPlace { granted, view, .. } = member;
        let (id, standing) = (&granted.grant.id, &*granted.grant.standing);
        if let Some(found) = decide::kind_mismatch(Mode::Member, &view) {
            return Err(kind_mismatch(self.queue, Mode::Member, found));
        }
        let ticket = ticket_of(&view, id).ok_or_else(|| removed(self.queue))?;
        let mut line = tickets(&view);
        drop(view);
        // Once enough were seen, they go in, even if some of them leave before it is written.
        let mut admitted: Option<Vec<Ticket>> = None;
        let round = loop {
            check_with_reason(self.queue, standing).await?;
            if !line.contains(&ticket) {
                return Err(removed(self.queue));
            }
            let rounds = read(self.queue, value.as_ref())?;
            if let Some(round) = rounds.round_of(&ticket) {
                break round.to_vec();
            }
            admitted = admitted.or_else(|| rounds.admits(self.members as usize, &line));
            let seen = value.map(|value| value.version);
            let failure = match &admitted {
                Some(admitted) => match self.note(session, seen, rounds.admit(admitted, &line)).await {
                    Ok(Some(round)) => break round,
                    Ok(None) => None,
                    Err(error) => Some(error),
                },
                None if !waits => return Ok(None),
                None => tokio::select! {
                    biased;
                    _ = standing.lost() => None,
                    change = session.values().until_changed(self.queue, seen) => change.err(),
                },
            };
            let look = || self.look(session);
            let (view, newest) = until_answered(shared, self.queue, standing, failure, look).await?;
            (line, value) = (tickets(&view), newest);
        };
        check_with_reason(self.queue, standing).await?;
        Ok(Some(Inside { granted, round }))
    }

    /// Notes the members that are inside now, and returns the last round; `None` if another client wrote meanwhile.
    async fn note(
        &self,
        session: &Arc<dyn Session>,
        seen: Option<ValueVersion>,
        rounds: Rounds,
    ) -> Result<Option<Vec<Ticket>>> {
        let expected = seen.map_or(Expected::Absent, Expected::Version);
        let written = session.values().set(self.queue, expected, Some(rounds.to_bytes())).await?;
        Ok(written.map(|_| rounds.current))
    }

    fn look(&self, session: &Arc<dyn Session>) -> BoxFuture<Result<(QueueView, Option<Value>)>> {
        let (view, value) =
            (session.view(self.queue, Freshness::Latest, Extent::Whole), session.values().get(self.queue));
        Box::pin(async move { Ok((view.await?, value.await?)) })
    }
}

/// Waits until all of a round have left.
#[derive(Debug)]
pub(crate) struct RoundGone<'a> {
    pub(crate) queue: &'a QueueName,
    /// The members known to have gone in together, in the order of coming in.
    pub(crate) round: Vec<Ticket>,
}

impl GrantAttempt for RoundGone<'_> {
    type Granted = ();

    /// It is how a member that is inside leaves.
    fn refused_from(&self) -> KeeperStage {
        KeeperStage::Closed
    }

    async fn wait(&mut self, shared: &Shared, progress: &mut WaitProgress) -> Result<()> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        loop {
            let (view, last) = self.look(&session).await?;
            *progress = WaitProgress::Placed;
            let Some(last) = last else {
                return Ok(());
            };
            let departure = session.departure(self.queue, None, &last, view.connection).await;
            departure.map_err(|error| onlooker_error(self.queue, error))?;
        }
    }

    async fn try_once(&mut self, shared: &Shared) -> Result<Option<()>> {
        let session = shared.session().await.map_err(|error| onlooker_error(self.queue, error))?;
        let (_, last) = self.look(&session).await?;
        Ok(last.is_none().then_some(()))
    }
}

impl RoundGone<'_> {
    /// Finds the last member of the round that is still there. Members that joined it late belong to it too.
    async fn look(&self, session: &Arc<dyn Session>) -> Result<(QueueView, Option<ContenderId>)> {
        // Whichever is read first: while one of the round has left, as we have, no member joins it any more.
        let (value, view) =
            (session.values().get(self.queue), session.view(self.queue, Freshness::Latest, Extent::Whole));
        let value = value.await.map_err(|error| onlooker_error(self.queue, error))?;
        let view = view.await.map_err(|error| onlooker_error(self.queue, error))?;
        let rounds = read(self.queue, value.as_ref())?;
        let round = self.round.first().and_then(|first| rounds.round_of(first)).unwrap_or(&self.round);
        let is_of_it = |ticket: Option<Ticket>| ticket.is_some_and(|ticket| round.contains(&ticket));
        let last = view.contenders.iter().rev().find(|other| is_of_it(other.ticket)).map(|other| other.id.clone());
        if let (None, Some(value)) = (&last, value)
            && self.is_deserted(session, &rounds, &view).await
        {
            // The first caller here clears the note away; otherwise the next round replaces it.
            let _ = session.values().set(self.queue, Expected::Version(value.version), None).await;
        }
        Ok((view, last))
    }

    /// Whether no member of these rounds is inside. A view that was asked for together with the value may be older than
    /// it, and lack a member that came in between.
    async fn is_deserted(&self, session: &Arc<dyn Session>, rounds: &Rounds, seen: &QueueView) -> bool {
        let has_members = |view: &QueueView| tickets(view).iter().any(|ticket| rounds.is_inside(ticket));
        !has_members(seen)
            && session.view(self.queue, Freshness::Latest, Extent::Whole).await.is_ok_and(|view| !has_members(&view))
    }
}

fn read(queue: &QueueName, value: Option<&Value>) -> Result<Rounds> {
    match value {
        None => Ok(Rounds::default()),
        Some(value) if value.bytes.is_empty() => Ok(Rounds::default()),
        Some(value) => Rounds::read(&value.bytes).ok_or_else(|| refused(queue, "its value is not a double barrier's")),
    }
}

fn tickets(view: &QueueView) -> Vec<Ticket> {
    view.contenders.iter().filter_map(|contender| contender.ticket).collect()
}

fn ticket_of(view: &QueueView, id: &ContenderId) -> Option<Ticket> {
    view.contenders.iter().find(|contender| contender.id == *id)?.ticket
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets<const N: usize>(numbers: [u128; N]) -> Vec<Ticket> {
        numbers.map(Ticket::from_bits).to_vec()
    }

    fn rounds<const N: usize, const M: usize>(current: [u128; N], earlier: [&[u128]; M]) -> Rounds {
        let earlier = earlier.map(|round| round.iter().copied().map(Ticket::from_bits).collect());
        Rounds { current: tickets(current), earlier: earlier.to_vec() }
    }

    #[test]
    fn no_member_goes_in_before_enough_have_come() {
        assert_eq!(Rounds::default().admits(3, &tickets([1, 2])), None);
        assert_eq!(Rounds::default().admits(3, &tickets([1, 2, 3])), Some(tickets([1, 2, 3])));
    }

    #[test]
    fn members_that_are_inside_already_do_not_count_for_the_next_round() {
        // 1 has left, so 3 is of the next round, which 2 is not.
        assert_eq!(rounds([1, 2], []).admits(2, &tickets([2, 3])), None);
        assert_eq!(rounds([1, 2], []).admits(2, &tickets([2, 3, 4])), Some(tickets([3, 4])));
        // A straggler of an earlier round counts for none.
        assert_eq!(rounds([3, 4], [&[2]]).admits(2, &tickets([2, 4, 5])), None);
    }

    #[test]
    fn a_member_that_comes_while_the_whole_round_is_there_joins_it() {
        let before = rounds([1, 2], []);
        let line = tickets([1, 2, 3]);
        assert_eq!(before.admits(2, &line), Some(tickets([3])));
        assert_eq!(before.admit(&tickets([3]), &line), rounds([1, 2, 3], []));
    }

    #[test]
    fn a_new_round_remembers_the_members_still_inside_the_one_before_and_forgets_the_others() {
        let line = tickets([2, 3, 4]);
        // Its first member is kept with it, so that the others can identify it.
        assert_eq!(rounds([1, 2], [&[0]]).admit(&tickets([3, 4]), &line), rounds([3, 4], [&[1, 2]]));
        let line = tickets([8, 9]);
        assert_eq!(rounds([5, 6], [&[1, 2, 8]]).admit(&tickets([9]), &line), rounds([9], [&[1, 8]]));
    }

    /// Two complete a round at the same time; the second one adds itself to what the first has written.
    #[test]
    fn a_member_that_was_seen_with_enough_others_goes_in_though_some_have_left_meanwhile() {
        assert_eq!(rounds([1, 2], []).admit(&tickets([1, 2, 3]), &tickets([3])), rounds([1, 2, 3], []));
        assert_eq!(Rounds::default().admit(&tickets([1, 2, 3]), &tickets([3])), rounds([1, 2, 3], []));
        // And no member can follow it into a round of which some have left.
        assert_eq!(rounds([1, 2, 3], []).admits(2, &tickets([3, 4])), None);
    }

    #[test]
    fn what_is_written_is_read_back_and_anything_else_is_not_taken_for_it() {
        for written in [Rounds::default(), rounds([1, u128::MAX], []), rounds([7], [&[8, 9], &[5]])] {
            assert_eq!(Rounds::read(&written.to_bytes()), Some(written));
        }
        for foreign in [&b""[..], b"5", b"\xff;", b"x;", b"5;x;", b"5;6"] {
            assert_eq!(Rounds::read(foreign), None);
        }
    }
}
