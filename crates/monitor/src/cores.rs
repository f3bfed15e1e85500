//! The stuck parts that block themselves, independent of the others.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper::ContenderInfo;
use lockkeeper::backend::{ProcessId, Ticket, TicketHead};

use crate::breaches::Shown;
use crate::flows::Flows;
use crate::graph::{Graph, WaitNode};
use crate::reduction::reduce;
use crate::world::World;

/// A part that blocks itself.
#[derive(Debug)]
pub(crate) struct DeadlockCore {
    /// Its contenders.
    pub(crate) contenders: BTreeSet<usize>,
    /// One circle in it, from a wait on.
    pub(crate) circle: Vec<WaitNode>,
    /// How many others wait for it.
    pub(crate) behind: usize,
}

/// Finds the parts that block themselves.
pub(crate) fn cores(world: &World<'_>, flows: &Flows) -> Vec<DeadlockCore> {
    let outcome = reduce(world, flows, vec![true; world.contenders.len()]);
    if !outcome.is_stuck() {
        return Vec::new();
    }
    let graph = Graph::new(world, flows, &outcome);
    let mut cores = Vec::new();
    collect(world, flows, &graph, &mut cores);
    let in_cores: BTreeSet<usize> = cores.iter().flat_map(|core| &core.contenders).copied().collect();
    let needed_by = graph.reversed();
    for core in &mut cores {
        core.behind = behind(&graph, &needed_by, &core.contenders, &in_cores);
    }
    cores.sort_by(|one, other| one.contenders.cmp(&other.contenders));
    cores
}

/// Collects them out of the strong parts of a graph. A part that could go on if others did is looked at alone: without
/// these, less of it may be stuck, or nothing.
fn collect(world: &World<'_>, flows: &Flows, graph: &Graph, cores: &mut Vec<DeadlockCore>) {
    for part in graph.strong_parts() {
        let nodes: BTreeSet<usize> = part.iter().copied().collect();
        let Some(wait) = nodes.iter().copied().find(|&node| matches!(graph.node(node), WaitNode::Grant(_))) else {
            // Flows that name each other as nested, and wait for nothing.
            continue;
        };
        let contenders: BTreeSet<usize> = nodes.iter().filter_map(|&node| contender(graph, node)).collect();
        let has_way_out = |node: usize| {
            matches!(graph.node(node), WaitNode::Permit(_))
                && graph.needs[node].iter().any(|need| !nodes.contains(need))
        };
        if !nodes.iter().copied().any(has_way_out) {
            let circle = graph.circle(wait, |node| nodes.contains(&node));
            let circle = circle.into_iter().map(|node| graph.node(node)).collect();
            cores.push(DeadlockCore { contenders, circle, behind: 0 });
            continue;
        }
        let inside = (0..world.contenders.len()).map(|number| contenders.contains(&number)).collect();
        let outcome = reduce(world, flows, inside);
        if outcome.is_stuck() {
            collect(world, flows, &Graph::new(world, flows, &outcome), cores);
        }
    }
}

fn contender(graph: &Graph, node: usize) -> Option<usize> {
    match graph.node(node) {
        WaitNode::Grant(number) | WaitNode::Leave(number) => Some(number),
        WaitNode::Finish(_) | WaitNode::Permit(_) => None,
    }
}

/// Counts the waiters that need a core to go on, and are in none.
fn behind(graph: &Graph, needed_by: &[Vec<usize>], core: &BTreeSet<usize>, in_cores: &BTreeSet<usize>) -> usize {
    let of_core = core.iter().flat_map(|&number| [WaitNode::Grant(number), WaitNode::Leave(number)]);
    let mut reached: Vec<usize> = of_core.map(|node| graph.index(node)).collect();
    let mut seen: BTreeSet<usize> = reached.iter().copied().collect();
    let mut waiters = 0;
    while let Some(node) = reached.pop() {
        if let WaitNode::Grant(number) = graph.node(node) {
            waiters += usize::from(!in_cores.contains(&number));
        }
        reached.extend(needed_by[node].iter().filter(|&&next| seen.insert(next)));
    }
    waiters
}

/// What two contenders may have in common: at least what `flows` knows them by.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Tie {
    /// One is nested in the other, or both in a third one.
    Run(TicketHead),
    Process(ProcessId),
    Session(String),
}

impl Tie {
    const fn is_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

/// How many contenders have it.
#[derive(Clone, Copy, Debug, Default)]
struct TieCount {
    all: usize,
    waiting: usize,
}

/// The ties of all contenders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ties {
    counts: BTreeMap<Tie, TieCount>,
    /// How many runs have more than one contender. Most services have none, and no lock is searched for one then.
    nests: usize,
}

impl Ties {
    /// Takes in how the contenders of a queue have changed, each with whether it holds. Most often the first has left,
    /// or one has joined, and the others stand as before.
    pub(crate) fn change(&mut self, before: &[Shown<'_>], now: &[Shown<'_>]) {
        let is_first = |one: &Shown<'_>| now.first().is_some_and(|(first, _)| first.id == one.0.id);
        let (left, stayed) = before.split_at(before.iter().position(is_first).unwrap_or(before.len()));
        let mut stayed = stayed.iter();
        for one in now {
            let old = stayed.next();
            if old != Some(one) {
                old.into_iter().for_each(|&(info, holds)| self.remove(info, holds));
                self.add(one.0, one.1);
            }
        }
        left.iter().chain(stayed).for_each(|&(info, holds)| self.remove(info, holds));
    }

    fn add(&mut self, info: &ContenderInfo, holds: bool) {
        for tie in ties_of(info) {
            let is_run = tie.is_run();
            let count = self.counts.entry(tie).or_default();
            count.all += 1;
            count.waiting += usize::from(!holds);
            self.nests += usize::from(is_run && count.all == 2);
        }
    }

    /// Takes back what was added.
    fn remove(&mut self, info: &ContenderInfo, holds: bool) {
        for tie in ties_of(info) {
            if let Some(count) = self.counts.get_mut(&tie) {
                count.all -= 1;
                count.waiting -= usize::from(!holds);
                self.nests -= usize::from(tie.is_run() && count.all == 1);
                if count.all == 0 {
                    self.counts.remove(&tie);
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.nests == 0
    }

    /// Tells whether a contender is nested in another.
    pub(crate) const fn has_nested(&self) -> bool {
        self.nests > 0
    }

    /// Tells whether a circle of waits may lead over a contender from one lock to another: it has something in common
    /// with another one, and one of those who have it waits, or it [is nested](Self::is_nested).
    pub(crate) fn may_block(&self, info: &ContenderInfo) -> bool {
        let is_waiting = |tie: &Tie| self.counts.get(tie).is_some_and(|count| count.all > 1 && count.waiting > 0);
        ties_of(info).any(|tie| is_waiting(&tie)) || self.is_nested(info)
    }

    /// Tells whether a contender is nested in another one, or another one in it. Such a one may join a hold with a wait
    /// though nothing waits for it: what is nested in it waits.
    pub(crate) fn is_nested(&self, info: &ContenderInfo) -> bool {
        self.has_nested()
            && ties_of(info).filter(Tie::is_run).any(|tie| self.counts.get(&tie).is_some_and(|count| count.all > 1))
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
