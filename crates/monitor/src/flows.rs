//! Contenders of one flow of control, and how sure that is.
//!
//! A flow does one thing after the other: while it waits, what it holds stays held. Contenders of the same owner key,
//! thread or task are of one flow. A contender that is nested in another one is of a flow for itself, for which the
//! other one's flow waits: two commands may run under one lock at a time, and then neither waits for the other. Of
//! contenders about which no more is known than their process or session, each hold may last until each later wait for
//! another lock is over.

use std::collections::BTreeMap;

use lockkeeper::backend::{Flow, FlowKind, ProcessId, TicketHead};

use crate::deadlock::Dependence;
#[cfg(test)]
use crate::tests::planted;
use crate::world::{World, WorldContender};

/// How many pairs of a hold and a wait of one process, session or run are looked at. One with more has so many tasks
/// that a circle through it says nothing.
const PAIRS_MAX: usize = 100_000;

/// How much is taken for one flow.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Sureness {
    /// Owner keys, threads, and what is nested.
    Owners,
    /// Tasks too.
    Tasks,
    /// Whatever may be.
    Possible,
}

/// All flows, by their numbers.
#[derive(Debug)]
pub(crate) struct Flows {
    /// The flow of each contender.
    pub(crate) of: Vec<usize>,
    /// The contenders of each flow.
    pub(crate) members: Vec<Vec<usize>>,
    /// For each flow, the contenders that wait until it is over.
    pub(crate) parents: Vec<Vec<usize>>,
    /// For each flow, the flows whose end it waits for.
    pub(crate) children: Vec<Vec<usize>>,
    /// For each hold, the waits during which it may be kept.
    pub(crate) kept_for: Vec<Vec<usize>>,
    /// For each wait, the holds that may be kept for it.
    pub(crate) keeps: Vec<Vec<usize>>,
}

impl Flows {
    pub(crate) fn new(world: &World<'_>, sureness: Sureness) -> Self {
        let count = world.contenders.len();
        let (of, members) = flows(world, sureness);
        let mut flows = Self {
            parents: vec![Vec::new(); members.len()],
            children: vec![Vec::new(); members.len()],
            kept_for: vec![Vec::new(); count],
            keeps: vec![Vec::new(); count],
            of,
            members,
        };
        flows.nest(world);
        if sureness == Sureness::Possible {
            flows.pair(world);
        }
        flows
    }

    /// Has the flow of each contender wait for those of the contenders that are nested in it.
    fn nest(&mut self, world: &World<'_>) {
        let with_ticket =
            |(number, contender): (usize, &WorldContender<'_>)| Some((contender.info.ticket?.head(), number));
        let by_ticket: BTreeMap<TicketHead, usize> =
            world.contenders.iter().enumerate().filter_map(with_ticket).collect();
        for (number, contender) in world.contenders.iter().enumerate() {
            let around = contender.info.caller.within.and_then(|within| by_ticket.get(&within));
            if let Some(&around) = around
                && self.of[around] != self.of[number]
            {
                self.children[self.of[around]].push(self.of[number]);
            }
        }
        for (flow, children) in self.children.iter_mut().enumerate() {
            children.sort_unstable();
            children.dedup();
            for &child in &*children {
                self.parents[child].push(flow);
            }
        }
    }

    fn pair(&mut self, world: &World<'_>) {
        let mut groups = BTreeMap::<FlowGroup<'_>, (Vec<usize>, Vec<usize>)>::new();
        for number in 0..world.contenders.len() {
            for group in groups_of(world, number) {
                let (holds, waits) = groups.entry(group).or_default();
                if world.waits(number) { waits.push(number) } else { holds.push(number) }
            }
        }
        for (holds, waits) in groups.into_values() {
            if holds.len().saturating_mul(waits.len()) > PAIRS_MAX {
                continue;
            }
            for &hold in &holds {
                let may_be_kept_for = |&&wait: &&usize| self.of[hold] != self.of[wait] && is_later(world, hold, wait);
                self.kept_for[hold].extend(waits.iter().filter(may_be_kept_for));
            }
        }
        for (hold, waits) in self.kept_for.iter_mut().enumerate() {
            waits.sort_unstable();
            waits.dedup();
            for &wait in &*waits {
                self.keeps[wait].push(hold);
            }
        }
    }
}

/// Numbers the flows.
fn flows(world: &World<'_>, sureness: Sureness) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut known = BTreeMap::<(ProcessId, Flow), usize>::new();
    let (mut of, mut members) = (Vec::new(), Vec::<Vec<usize>>::new());
    for (number, contender) in world.contenders.iter().enumerate() {
        let caller = &contender.info.caller;
        let counts = |flow: &Flow| flow.kind() != FlowKind::Task || sureness > Sureness::Owners;
        // What freezes a lock belongs to no flow.
        let flow = caller.flow.filter(|flow| contender.info.frozen.is_none() && counts(flow));
        #[cfg(test)]
        let flow = if planted::is(planted::Fault::ProcessAsFlow) { Flow::new(FlowKind::Thread, 0) } else { flow };
        let new = members.len();
        let flow = match caller.process.zip(flow) {
            Some(key) => *known.entry(key).or_insert(new),
            None => new,
        };
        if flow == new {
            members.push(Vec::new());
        }
        members[flow].push(number);
        of.push(flow);
    }
    (of, members)
}

/// What two contenders may have in common that are of different flows.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum FlowGroup<'a> {
    Run(TicketHead),
    Process(ProcessId),
    Session(&'a str),
}

fn groups_of<'a>(world: &World<'a>, number: usize) -> impl Iterator<Item = FlowGroup<'a>> {
    let info = world.contenders[number].info;
    let caller = info.caller;
    // A session is of one process, if that is known.
    let session = info.session.as_deref().filter(|_| caller.process.is_none()).map(FlowGroup::Session);
    let groups = [caller.within.map(FlowGroup::Run), caller.process.map(FlowGroup::Process), session];
    groups.into_iter().flatten().filter(move |_| info.frozen.is_none())
}

/// Tells whether a wait began after what is held was there, and is for another lock: who holds a lock and waits for it
/// is just two.
fn is_later(world: &World<'_>, hold: usize, wait: usize) -> bool {
    let [holds, waits] = [hold, wait].map(|number| world.contenders[number].info);
    let since = holds.granted_unix.or(holds.since_unix);
    let began_later = since.zip(waits.since_unix).is_some_and(|(since, began)| began >= since);
    began_later && world.contenders[hold].lock != world.contenders[wait].lock
}

/// Says what two contenders of different flows have in common.
pub(crate) fn in_common(world: &World<'_>, one: usize, other: usize) -> Dependence {
    let [one, other] = [one, other].map(|number| world.contenders[number].info.caller);
    if one.within.is_some() && one.within == other.within {
        Dependence::Run
    } else if one.process.is_some() && one.process == other.process {
        Dependence::Process
    } else {
        Dependence::Session
    }
}

/// Says how the contenders of one flow are known to be that.
pub(crate) fn of_one_flow(world: &World<'_>, member: usize) -> Dependence {
    match world.contenders[member].info.caller.flow.map(Flow::kind) {
        Some(FlowKind::OwnerKey) => Dependence::OwnerKey,
        Some(FlowKind::Thread) => Dependence::Thread,
        _ => Dependence::Task,
    }
}
