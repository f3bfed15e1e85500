//! The reduction: which contenders can go on, and which never can. Flows that wait for nothing finish, their contenders
//! leave, and so on until no flow is left that can do anything.
//!
//! Nothing that can be done prevents anything else, so the order does not matter. It takes time in proportion to the
//! contenders and their needs.
//!
//! What [`cores`](crate::cores) finds forgives one kind of mistake: who is left waiting too long needs none of the
//! waiters, so it is in no part that blocks itself, and a part with permits that needs it is looked at again without
//! it. Who is let go too early is missing there. So some counts here can be wrong in one direction without any effect
//! but on time; the random worlds look at the outcome itself.

use crate::flows::Flows;
#[cfg(test)]
use crate::tests::planted;
use crate::world::{World, WorldPlace};

/// What has become of all contenders when none can do anything any more.
#[derive(Debug)]
pub(crate) struct ReductionOutcome {
    /// Whether each contender takes part.
    pub(crate) inside: Vec<bool>,
    /// Whether each contender holds, or was granted what it waited for.
    pub(crate) granted: Vec<bool>,
    /// Whether each contender has left.
    pub(crate) left: Vec<bool>,
    /// Whether each flow is over.
    pub(crate) done: Vec<bool>,
}

impl ReductionOutcome {
    /// Tells whether a waiter is never granted what it waits for.
    pub(crate) fn is_stuck(&self) -> bool {
        self.granted.iter().any(|&granted| !granted)
    }
}

/// Lets all who can go on. Only those in `inside` take part: the others have left.
pub(crate) fn reduce(world: &World<'_>, flows: &Flows, inside: Vec<bool>) -> ReductionOutcome {
    Reduction::new(world, flows, inside).run()
}

#[derive(Clone, Copy, Debug)]
enum ReductionStep {
    Grant(usize),
    Finish(usize),
}

#[derive(Debug)]
struct Reduction<'w> {
    world: &'w World<'w>,
    flows: &'w Flows,
    outcome: ReductionOutcome,
    /// For each contender, how many it needs that have not left.
    missing: Vec<usize>,
    /// For each hold, how many waits there are during which it may be kept.
    kept: Vec<usize>,
    /// For each flow, how many waits and flows it waits for.
    pending: Vec<usize>,
    /// For each gate, how many permits are free, and who is next.
    gates: Vec<(usize, usize)>,
    steps: Vec<ReductionStep>,
}

impl<'w> Reduction<'w> {
    fn new(world: &'w World<'w>, flows: &'w Flows, inside: Vec<bool>) -> Self {
        let waits = |number: usize| inside[number] && world.waits(number);
        let count = |all: &[usize], counts: &dyn Fn(usize) -> bool| all.iter().filter(|&&one| counts(one)).count();
        let is_inside = |flow: usize| flows.members[flow].iter().any(|&member| inside[member]);
        let missing = |number: usize| match &world.contenders[number].place {
            WorldPlace::Needs(needs) => count(needs, &|needed| inside[needed]),
            _ => 0,
        };
        let pending = |flow: usize| count(&flows.members[flow], &waits) + count(&flows.children[flow], &is_inside);
        let all = 0..world.contenders.len();
        let gates = world.gates.iter().map(|gate| (gate.permits - count(&gate.holders, &|holder| inside[holder]), 0));
        Self {
            missing: all.clone().map(missing).collect(),
            kept: all.clone().map(|number| count(&flows.kept_for[number], &waits)).collect(),
            pending: (0..flows.members.len()).map(pending).collect(),
            gates: gates.collect(),
            steps: Vec::new(),
            outcome: ReductionOutcome {
                granted: all.map(|number| !waits(number)).collect(),
                left: inside.iter().map(|inside| !inside).collect(),
                done: vec![false; flows.members.len()],
                inside,
            },
            world,
            flows,
        }
    }

    fn run(mut self) -> ReductionOutcome {
        for (flow, &pending) in self.pending.iter().enumerate() {
            if pending == 0 {
                self.steps.push(ReductionStep::Finish(flow));
            }
        }
        for (number, contender) in self.world.contenders.iter().enumerate() {
            let is_in_line = matches!(contender.place, WorldPlace::Needs(_));
            if is_in_line && !self.outcome.granted[number] && self.missing[number] == 0 {
                self.steps.push(ReductionStep::Grant(number));
            }
        }
        for gate in 0..self.gates.len() {
            self.serve(gate);
        }
        while let Some(step) = self.steps.pop() {
            match step {
                ReductionStep::Grant(number) => self.grant(number),
                ReductionStep::Finish(flow) => self.finish(flow),
            }
        }
        self.outcome
    }

    fn grant(&mut self, number: usize) {
        self.outcome.granted[number] = true;
        let flows = self.flows;
        for &hold in flows.keeps[number].iter().filter(|&&hold| self.outcome.inside[hold]) {
            self.kept[hold] -= 1;
        }
        self.settle(flows.of[number]);
        for &hold in &flows.keeps[number] {
            self.leave(hold);
        }
    }

    fn finish(&mut self, flow: usize) {
        self.outcome.done[flow] = true;
        let flows = self.flows;
        for &member in &flows.members[flow] {
            self.leave(member);
        }
        if flows.members[flow].iter().any(|&member| self.outcome.inside[member]) {
            for &parent in &flows.parents[flow] {
                self.settle(parent);
            }
        }
    }

    /// Notes that a flow waits for one thing less.
    fn settle(&mut self, flow: usize) {
        self.pending[flow] -= 1;
        if self.pending[flow] == 0 {
            self.steps.push(ReductionStep::Finish(flow));
        }
    }

    /// Has a contender leave, if nothing keeps it.
    fn leave(&mut self, number: usize) {
        let is_over = self.outcome.done[self.flows.of[number]] && self.kept[number] == 0;
        if self.outcome.left[number] || !is_over {
            return;
        }
        self.outcome.left[number] = true;
        let world = self.world;
        for &waiter in world.needed_by[number].iter().filter(|&&waiter| self.outcome.inside[waiter]) {
            self.missing[waiter] -= 1;
            if self.missing[waiter] == 0 {
                self.steps.push(ReductionStep::Grant(waiter));
            }
        }
        if let WorldPlace::HasPermit { gate } | WorldPlace::AtGate { gate, .. } = world.contenders[number].place {
            self.gates[gate].0 += 1;
            self.serve(gate);
        }
    }

    /// Gives free permits to the next waiters at a gate, one to each: how many each wants is not known, and it is no
    /// less.
    fn serve(&mut self, gate: usize) {
        let waiters = &self.world.gates[gate].waiters;
        while let Some(&next) = waiters.get(self.gates[gate].1) {
            let (free, at) = &mut self.gates[gate];
            if self.outcome.inside[next] {
                if *free == 0 {
                    return;
                }
                #[cfg(test)]
                if planted::is(planted::Fault::GateNotCounted) {
                    *free += 1;
                }
                *free -= 1;
                self.steps.push(ReductionStep::Grant(next));
            }
            *at += 1;
        }
    }
}
