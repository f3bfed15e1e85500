//! Ties between contenders that may be of one flow of control, counted as locks change: a search for deadlocks need not
//! look at a lock none of whose contenders has anything in common with one that waits.

use std::collections::BTreeMap;

use lockkeeper::ContenderInfo;
use lockkeeper::backend::{ProcessId, Ticket, TicketHead};

/// What two contenders may have in common: at least what `flows` knows them by.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Tie {
    /// One is nested in the other, or both in a third one.
    Run(TicketHead),
    Process(ProcessId),
    Session(String),
}

/// How many contenders have it.
#[derive(Clone, Copy, Debug, Default)]
struct TieCount {
    all: usize,
    waiting: usize,
}

/// The ties of all contenders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ties(BTreeMap<Tie, TieCount>);

impl Ties {
    pub(crate) fn add(&mut self, info: &ContenderInfo, holds: bool) {
        for tie in ties_of(info) {
            let count = self.0.entry(tie).or_default();
            count.all += 1;
            count.waiting += usize::from(!holds);
        }
    }

    /// Takes back what was added.
    pub(crate) fn remove(&mut self, info: &ContenderInfo, holds: bool) {
        for tie in ties_of(info) {
            if let Some(count) = self.0.get_mut(&tie) {
                count.all -= 1;
                count.waiting -= usize::from(!holds);
                if count.all == 0 {
                    self.0.remove(&tie);
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether a circle of waits may lead over a contender from one lock to another: it has something in common
    /// with another one, and one of those who have it waits, or it [is nested](Self::is_nested).
    pub(crate) fn may_block(&self, info: &ContenderInfo) -> bool {
        let is_waiting = |tie: &Tie| self.0.get(tie).is_some_and(|count| count.all > 1 && count.waiting > 0);
        ties_of(info).any(|tie| is_waiting(&tie)) || self.is_nested(info)
    }

    /// Tells whether a contender is nested in another one, or another one in it. Such a one may join a hold with a wait
    /// though nothing waits for it: what is nested in it waits.
    pub(crate) fn is_nested(&self, info: &ContenderInfo) -> bool {
        let is_run = |tie: &Tie| matches!(tie, Tie::Run(_));
        ties_of(info).filter(is_run).any(|tie| self.0.get(&tie).is_some_and(|count| count.all > 1))
    }
}

fn ties_of(info: &ContenderInfo) -> impl Iterator<Item = Tie> {
    let caller = info.caller;
    // A session is of one process, if that is known.
    let session = info.session.as_ref().filter(|_| caller.process.is_none());
    let ties = [
        info.ticket.map(Ticket::head).map(Tie::Run),
        caller.within.map(Tie::Run),
        caller.process.map(Tie::Process),
        session.cloned().map(Tie::Session),
    ];
    // What freezes a lock belongs to no flow.
    let is_of_a_flow = info.frozen.is_none();
    ties.into_iter().flatten().filter(move |_| is_of_a_flow)
}
