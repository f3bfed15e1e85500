//! The parts of those who are stuck that block themselves, independent of the others.

use std::collections::BTreeSet;

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
