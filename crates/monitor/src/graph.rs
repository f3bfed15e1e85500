//! The graph of stuck contenders and what they wait for, and its strongly connected parts.

use crate::flows::Flows;
use crate::reduction::ReductionOutcome;
use crate::world::{World, WorldPlace};

/// Something that never comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WaitNode {
    /// This contender is granted what it waits for.
    Grant(usize),
    /// This contender leaves.
    Leave(usize),
    /// This flow is over.
    Finish(usize),
    /// A permit comes back to this gate: any of them would do.
    Permit(usize),
}

/// All that never comes, and what it would need.
#[derive(Debug)]
pub(crate) struct Graph {
    contenders: usize,
    flows: usize,
    /// For each node, the nodes that it needs.
    pub(crate) needs: Vec<Vec<usize>>,
}

impl Graph {
    pub(crate) fn new(world: &World<'_>, flows: &Flows, outcome: &ReductionOutcome) -> Self {
        let (contenders, flow_count) = (world.contenders.len(), flows.members.len());
        let nodes = 2 * contenders + flow_count + world.gates.len();
        let mut graph = Self { contenders, flows: flow_count, needs: vec![Vec::new(); nodes] };
        let waits = |&&number: &&usize| !outcome.granted[number];
        for number in (0..contenders).filter(|&number| !outcome.left[number]) {
            if !outcome.granted[number] {
                let needs = graph.needs_of_grant(world, outcome, number);
                graph.needs[number] = needs;
            }
            let flow = Some(WaitNode::Finish(flows.of[number])).filter(|_| !outcome.done[flows.of[number]]);
            let kept_for = flows.kept_for[number].iter().filter(waits).map(|&wait| WaitNode::Grant(wait));
            graph.link(WaitNode::Leave(number), kept_for.chain(flow));
        }
        for flow in (0..flow_count).filter(|&flow| !outcome.done[flow]) {
            let grants = flows.members[flow].iter().filter(waits).map(|&wait| WaitNode::Grant(wait));
            let children = flows.children[flow].iter().filter(|&&child| !outcome.done[child]);
            graph.link(WaitNode::Finish(flow), grants.chain(children.map(|&child| WaitNode::Finish(child))));
        }
        for (number, gate) in world.gates.iter().enumerate() {
            let have_permits = gate.holders.iter().chain(&gate.waiters);
            let left = have_permits.filter(|&&number| outcome.granted[number] && !outcome.left[number]);
            graph.link(WaitNode::Permit(number), left.map(|&number| WaitNode::Leave(number)));
        }
        graph
    }

    fn needs_of_grant(&self, world: &World<'_>, outcome: &ReductionOutcome, number: usize) -> Vec<usize> {
        let needs = match &world.contenders[number].place {
            WorldPlace::Needs(needs) => {
                needs.iter().filter(|&&needed| !outcome.left[needed]).map(|&needed| WaitNode::Leave(needed)).collect()
            }
            // The first one needs a permit, and each other the one before it.
            &WorldPlace::AtGate { gate, at } => {
                let before = world.gates[gate].waiters[..at].iter().rev().find(|&&before| !outcome.granted[before]);
                vec![before.map_or(WaitNode::Permit(gate), |&before| WaitNode::Grant(before))]
            }
            WorldPlace::Holds | WorldPlace::HasPermit { .. } => Vec::new(),
        };
        needs.into_iter().map(|node| self.index(node)).collect()
    }

    fn link(&mut self, from: WaitNode, to: impl Iterator<Item = WaitNode>) {
        let to: Vec<usize> = to.map(|node| self.index(node)).collect();
        let from = self.index(from);
        self.needs[from] = to;
    }

    pub(crate) const fn index(&self, node: WaitNode) -> usize {
        match node {
            WaitNode::Grant(number) => number,
            WaitNode::Leave(number) => self.contenders + number,
            WaitNode::Finish(flow) => 2 * self.contenders + flow,
            WaitNode::Permit(gate) => 2 * self.contenders + self.flows + gate,
        }
    }

    pub(crate) const fn node(&self, index: usize) -> WaitNode {
        if index < self.contenders {
            WaitNode::Grant(index)
        } else if index < 2 * self.contenders {
            WaitNode::Leave(index - self.contenders)
        } else if index < 2 * self.contenders + self.flows {
            WaitNode::Finish(index - 2 * self.contenders)
        } else {
            WaitNode::Permit(index - 2 * self.contenders - self.flows)
        }
    }

    /// Returns the parts of more than one node in which each node needs all others, directly or not: Tarjan's
    /// algorithm, without recursion.
    pub(crate) fn strong_parts(&self) -> Vec<Vec<usize>> {
        let mut search = Search {
            order: vec![None; self.needs.len()],
            low: vec![0; self.needs.len()],
            is_open: vec![false; self.needs.len()],
            open: Vec::new(),
            next: 0,
            parts: Vec::new(),
        };
        for root in 0..self.needs.len() {
            if search.order[root].is_none() && !self.needs[root].is_empty() {
                search.from(self, root);
            }
        }
        search.parts
    }

    /// Returns the shortest way from a node back to it over nodes of its part, without its repetition at the end.
    pub(crate) fn circle(&self, start: usize, is_in_part: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut came_from = vec![None; self.needs.len()];
        let mut reached = std::collections::VecDeque::from([start]);
        while let Some(at) = reached.pop_front() {
            for &next in self.needs[at].iter().filter(|&&next| is_in_part(next)) {
                if next == start {
                    let mut circle: Vec<usize> = std::iter::successors(Some(at), |&at| came_from[at]).collect();
                    circle.reverse();
                    return circle;
                }
                if came_from[next].is_none() {
                    came_from[next] = Some(at);
                    reached.push_back(next);
                }
            }
        }
        Vec::new()
    }

    /// For each node, the nodes that need it.
    pub(crate) fn reversed(&self) -> Vec<Vec<usize>> {
        let mut needed_by = vec![Vec::new(); self.needs.len()];
        for (from, needs) in self.needs.iter().enumerate() {
            for &to in needs {
                needed_by[to].push(from);
            }
        }
        needed_by
    }
}

/// A search in depth, as Tarjan's algorithm makes it.
#[derive(Debug)]
struct Search {
    /// The order in which each node was reached.
    order: Vec<Option<usize>>,
    /// The first node that is still open and that each node leads to.
    low: Vec<usize>,
    is_open: Vec<bool>,
    open: Vec<usize>,
    next: usize,
    parts: Vec<Vec<usize>>,
}

impl Search {
    fn from(&mut self, graph: &Graph, root: usize) {
        self.reach(root);
        // Each node on the way, and how many of its needs were followed.
        let mut way = vec![(root, 0)];
        while let Some((at, followed)) = way.last_mut() {
            let at = *at;
            if let Some(&next) = graph.needs[at].get(*followed) {
                *followed += 1;
                match self.order[next] {
                    None => {
                        self.reach(next);
                        way.push((next, 0));
                    }
                    Some(order) if self.is_open[next] => self.low[at] = self.low[at].min(order),
                    Some(_) => {}
                }
                continue;
            }
            way.pop();
            if let Some(&(before, _)) = way.last() {
                self.low[before] = self.low[before].min(self.low[at]);
            }
            if Some(self.low[at]) == self.order[at] {
                self.close(at);
            }
        }
    }

    fn reach(&mut self, node: usize) {
        self.order[node] = Some(self.next);
        self.low[node] = self.next;
        self.next += 1;
        self.is_open[node] = true;
        self.open.push(node);
    }

    /// Closes the part whose first node this is.
    fn close(&mut self, first: usize) {
        let from = self.open.iter().rposition(|&node| node == first).expect("it is open until it is closed");
        let part = self.open.split_off(from);
        for &node in &part {
            self.is_open[node] = false;
        }
        if part.len() > 1 {
            self.parts.push(part);
        }
    }
}
