//! A simulation that knows nothing of reductions: queues that are looked at anew after each step.

use std::collections::BTreeSet;

/// What one asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asks {
    Share,
    All,
    Permit,
}

/// One contender.
#[derive(Clone, Debug)]
pub(super) struct One {
    pub(super) number: u64,
    pub(super) flow: usize,
    pub(super) asks: Asks,
    /// The number of the contender that it is nested in.
    pub(super) within: Option<u64>,
}

/// A lock.
#[derive(Clone, Debug)]
pub(super) enum Lock {
    /// Those in its line, in their order.
    Line(Vec<One>),
    /// Those who have a permit, and the waiters for one; how many there are, if that is known.
    Semaphore { have: Vec<One>, wait: Vec<One>, permits: Option<usize> },
}

impl Lock {
    pub(super) fn all(&self) -> impl Iterator<Item = &One> {
        let (first, second): (&[One], &[One]) = match self {
            Self::Line(line) => (line, &[]),
            Self::Semaphore { have, wait, .. } => (have, wait),
        };
        first.iter().chain(second)
    }

    /// Those who have to wait now.
    fn waiting(&self) -> Vec<&One> {
        match self {
            Self::Line(line) => {
                let keeps_out = |ahead: &One, one: &One| ahead.asks == Asks::All || one.asks == Asks::All;
                let waits = |at: &usize| line[..*at].iter().any(|ahead| keeps_out(ahead, &line[*at]));
                (0..line.len()).filter(waits).map(|at| &line[at]).collect()
            }
            Self::Semaphore { permits: None, .. } => Vec::new(),
            Self::Semaphore { wait, .. } => wait.iter().collect(),
        }
    }

    /// Gives free permits to the first who wait.
    fn serve(&mut self) {
        if let Self::Semaphore { have, wait, permits: Some(permits) } = self {
            while have.len() < *permits && !wait.is_empty() {
                have.push(wait.remove(0));
            }
        }
    }

    fn remove(&mut self, flow: usize) {
        match self {
            Self::Line(line) => line.retain(|one| one.flow != flow),
            Self::Semaphore { have, wait, .. } => {
                have.retain(|one| one.flow != flow);
                wait.retain(|one| one.flow != flow);
            }
        }
    }
}

/// Lets all contenders do what they can, and returns the numbers of those that still wait.
pub(super) fn stuck(locks: &[Lock]) -> BTreeSet<u64> {
    let all: Vec<One> = locks.iter().flat_map(Lock::all).cloned().collect();
    let mut locks = locks.to_vec();
    let mut over = BTreeSet::new();
    loop {
        locks.iter_mut().for_each(Lock::serve);
        let waiting: BTreeSet<usize> = locks.iter().flat_map(Lock::waiting).map(|one| one.flow).collect();
        let number_of = |flow: usize| all.iter().filter(move |one| one.flow == flow).map(|one| one.number);
        let has_nested = |flow: usize| {
            let nested = |one: &&One| one.flow != flow && number_of(flow).any(|number| Some(number) == one.within);
            all.iter().filter(nested).any(|one| !over.contains(&one.flow))
        };
        let can_end = |flow: &usize| !over.contains(flow) && !waiting.contains(flow) && !has_nested(*flow);
        let Some(flow) = all.iter().map(|one| one.flow).find(can_end) else {
            return locks.iter().flat_map(Lock::waiting).map(|one| one.number).collect();
        };
        over.insert(flow);
        locks.iter_mut().for_each(|lock| lock.remove(flow));
    }
}
