//! Three searches, each less sure than the one before, and what they find.

use std::collections::BTreeSet;

use lockkeeper::backend::{Part, Ticket};
use lockkeeper::{ContenderId, Mode, QueueName};

use crate::cores::{DeadlockCore, cores};
use crate::deadlock::{AheadRole, Certainty, ChainLink, Deadlock, Dependence, way_out};
use crate::flows::{Flows, Sureness, in_common, of_one_flow};
use crate::graph::WaitNode;
use crate::snapshot::ServiceSnapshot;
use crate::world::{World, WorldPlace};

/// Finds the deadlocks in what was seen, the surest first.
///
/// What was seen of different locks may be of different moments, so a deadlock may be none:
/// [`Confirmation`](crate::Confirmation) tells. One that is part of a surer one is not named again.
///
/// Of a semaphore it must be known how many permits there are, and each waiter is taken to want one. A process, session
/// or run with very many holds and waits is left out of what is possible.
pub fn find(snapshot: &ServiceSnapshot) -> Vec<Deadlock> {
    let world = World::new(snapshot);
    let mut named = BTreeSet::new();
    let mut found = Vec::new();
    for sureness in [Sureness::Owners, Sureness::Tasks, Sureness::Possible] {
        let flows = Flows::new(&world, sureness);
        let mut of_this = Vec::new();
        for core in cores(&world, &flows) {
            if core.contenders.is_disjoint(&named) {
                of_this.push(deadlock(&world, &flows, &core, sureness));
            }
            named.extend(core.contenders);
        }
        of_this.sort_by_key(|deadlock| deadlock.certainty);
        found.extend(of_this);
    }
    found
}

fn deadlock(world: &World<'_>, flows: &Flows, core: &DeadlockCore, sureness: Sureness) -> Deadlock {
    let chain = chain(world, flows, &core.circle);
    let least = match sureness {
        Sureness::Owners => Certainty::SameOwner,
        Sureness::Tasks => Certainty::SameTask,
        Sureness::Possible => Certainty::SameRun,
    };
    // A circle that is surer than the search is blocked by more than itself.
    let certainty = chain.iter().map(|link| Certainty::from(link.joined)).max().unwrap_or(least).max(least);
    let waits = core.contenders.iter().filter(|&&number| world.waits(number));
    Deadlock {
        certainty,
        core: core.contenders.iter().map(|&number| id(world, number)).collect(),
        behind: core.behind,
        ends_unix: waits.filter_map(|&number| world.contenders[number].info.caller.until_unix).min(),
        way_out: way_out(world, &core.contenders),
        chain,
    }
}

/// Names a contender for good: an identity is of one queue, and a semaphore has two.
fn id(world: &World<'_>, number: usize) -> (QueueName, ContenderId) {
    let info = world.contenders[number].info;
    let part = match info.mode {
        Mode::Acquire => Part::Waiters,
        Mode::Permit => Part::Permits,
        _ => Part::Line,
    };
    (world.lock(number).name.with_part(part), info.id.clone())
}

/// Reads a circle as waits, one after the other.
fn chain(world: &World<'_>, flows: &Flows, circle: &[WaitNode]) -> Vec<ChainLink> {
    let waits: Vec<usize> = (0..circle.len()).filter(|&at| matches!(circle[at], WaitNode::Grant(_))).collect();
    let ends = waits.iter().skip(1).copied().chain([circle.len()]);
    let first = circle.first().copied();
    let link = |(from, to): (&usize, usize)| {
        let WaitNode::Grant(waiter) = circle[*from] else { return None };
        let Some(WaitNode::Grant(next)) = circle.get(to).copied().or(first) else { return None };
        Some(link(world, flows, waiter, &circle[from + 1..to], next))
    };
    shortened(waits.iter().zip(ends).filter_map(link).collect())
}

/// Leaves out those of a chain that wait where the one before them does, for the same one: it is enough to say how many
/// they are.
fn shortened(mut links: Vec<ChainLink>) -> Vec<ChainLink> {
    let count = links.len();
    let leads_on = |link: &ChainLink, next: &ChainLink| {
        let is_between = link.state == AheadRole::Waits && link.joined == Dependence::Itself && link.lock == next.lock;
        // Readers wait for the writer between them, and not for each other.
        is_between && !(link.waiter.mode == Mode::Read && next.ahead.mode == Mode::Read)
    };
    let first = (0..count).find(|&at| !leads_on(&links[(at + count - 1) % count], &links[at]));
    links.rotate_left(first.unwrap_or(0));
    let mut short: Vec<ChainLink> = Vec::new();
    for link in links {
        match short.last_mut() {
            Some(last) if leads_on(last, &link) => {
                let ChainLink { state, ahead, joined, .. } = link;
                *last = ChainLink { between: last.between + 1, state, ahead, joined, ..last.clone() };
            }
            _ => short.push(link),
        }
    }
    short
}

/// Describes a wait by what lies between it and the next one.
fn link(world: &World<'_>, flows: &Flows, waiter: usize, between: &[WaitNode], next: usize) -> ChainLink {
    let left = between.iter().find_map(|node| match node {
        WaitNode::Leave(number) => Some(*number),
        _ => None,
    });
    // At a gate it may be the turn of the one ahead that is needed, and not its end.
    let ahead = left.unwrap_or(next);
    let state = match (&world.contenders[ahead].place, &world.contenders[waiter].place) {
        (WorldPlace::HasPermit { .. }, &WorldPlace::AtGate { gate, .. }) => {
            AheadRole::HasPermit(world.gates[gate].holders.len())
        }
        (WorldPlace::Needs(_) | WorldPlace::AtGate { .. }, _) => AheadRole::Waits,
        _ => AheadRole::Holds,
    };
    ChainLink {
        lock: world.lock(waiter).name.clone(),
        waiter: world.contenders[waiter].info.clone(),
        between: 0,
        state,
        ahead: world.contenders[ahead].info.clone(),
        joined: joined(world, flows, ahead, between, next),
    }
}

/// Says what joins a contender that does not leave with the wait that follows in a circle: the weakest of what lies
/// between.
fn joined(world: &World<'_>, flows: &Flows, ahead: usize, between: &[WaitNode], next: usize) -> Dependence {
    if ahead == next {
        return Dependence::Itself;
    }
    let over = between.iter().filter_map(|node| match node {
        WaitNode::Finish(flow) => Some(*flow),
        _ => None,
    });
    // The way in: the contender that does not leave, and each flow that is not over.
    let mut weakest = Dependence::Itself;
    let mut at = ahead;
    let mut flow_before = None;
    for flow in over {
        if let Some(before) = flow_before {
            let (around, nested) = nesting(world, flows, before, flow, at);
            weakest = weakest.max(Dependence::Within);
            if around != at {
                weakest = weakest.max(of_one_flow(world, at));
            }
            at = nested;
        }
        flow_before = Some(flow);
    }
    if flow_before.is_none() {
        return in_common(world, ahead, next);
    }
    if at != next { weakest.max(of_one_flow(world, next)) } else { weakest }
}

/// Finds a contender of a flow that is nested in one of another flow, in `preferred` if there is one; both.
fn nesting(world: &World<'_>, flows: &Flows, outer: usize, inner: usize, preferred: usize) -> (usize, usize) {
    let head = |number: usize| world.contenders[number].info.ticket.map(Ticket::head);
    let pairs = flows.members[inner].iter().flat_map(|&nested| {
        let within = world.contenders[nested].info.caller.within;
        let arounds = flows.members[outer].iter().filter(move |&&around| within.is_some() && head(around) == within);
        arounds.map(move |&around| (around, nested))
    });
    let mut found = (preferred, flows.members[inner][0]);
    for pair in pairs {
        found = pair;
        if pair.0 == preferred {
            break;
        }
    }
    found
}
