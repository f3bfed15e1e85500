//! A plain simulation of locks in their order, without any graph: who is stuck is found by letting all others finish.

use crate::deadlock::Want;

/// How many permits each semaphore has.
pub(super) const PERMITS: usize = 3;

/// One lock: either a line with its order, or a gate and the owners of permits.
#[derive(Clone, Debug, Default)]
pub(super) struct PlainLock {
    line: Vec<(usize, Want)>,
    gate: Vec<(usize, usize)>,
    permits: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub(super) locks: Vec<PlainLock>,
    /// Of each flow of control, whether it is a key.
    keys: Vec<bool>,
}

impl PlainLock {
    fn is_granted(&self, at: usize) -> bool {
        match self.line[at].1 {
            Want::Share => self.line[..at].iter().all(|&(_, want)| want == Want::Share),
            _ => at == 0,
        }
    }

    pub(super) fn waits(&self, flow: usize) -> bool {
        let in_line = |at: usize| self.line[at].0 == flow && !self.is_granted(at);
        (0..self.line.len()).any(in_line) || self.gate.iter().any(|&(waiter, _)| waiter == flow)
    }

    fn has(&self, flow: usize) -> bool {
        self.line.iter().any(|&(one, _)| one == flow) || self.permits.contains(&flow)
    }

    fn leave(&mut self, flow: usize) {
        self.line.retain(|&(one, _)| one != flow);
        self.gate.retain(|&(one, _)| one != flow);
        self.permits.retain(|&one| one != flow);
    }

    /// Lets in who stands at the gate, while it fits.
    fn serve(&mut self) {
        while let Some(&(flow, wanted)) = self.gate.first()
            && self.permits.len() + wanted <= PERMITS
        {
            self.gate.remove(0);
            self.permits.extend(std::iter::repeat_n(flow, wanted));
        }
    }
}

impl Plain {
    pub(super) fn new(locks: usize, keys: Vec<bool>) -> Self {
        Self { locks: vec![PlainLock::default(); locks], keys }
    }

    pub(super) fn is_key(&self, flow: usize) -> bool {
        self.keys[flow]
    }

    pub(super) fn waits(&self, flow: usize) -> bool {
        self.locks.iter().any(|lock| lock.waits(flow))
    }

    pub(super) fn has(&self, flow: usize, lock: usize) -> bool {
        self.locks[lock].has(flow)
    }

    pub(super) fn ask(&mut self, flow: usize, lock: usize, want: Want) {
        let lock = &mut self.locks[lock];
        match want {
            Want::Permits { wanted, .. } => lock.gate.push((flow, wanted as usize)),
            _ => lock.line.push((flow, want)),
        }
        lock.serve();
    }

    /// Has a flow that waits at this lock give up.
    pub(super) fn give_up(&mut self, flow: usize, lock: usize) {
        let lock = &mut self.locks[lock];
        lock.line.retain(|&(one, _)| one != flow);
        lock.gate.retain(|&(one, _)| one != flow);
        lock.serve();
    }

    /// Has a flow give back all of a lock.
    pub(super) fn give_back(&mut self, flow: usize, lock: usize) {
        self.locks[lock].leave(flow);
        self.locks[lock].serve();
    }

    /// Tells whether this key waits for ever, if all finish that do not wait or are no key.
    pub(super) fn is_stuck(&self, flow: usize) -> bool {
        let mut rest = self.clone();
        loop {
            let done: Vec<_> = (0..rest.keys.len()).filter(|&one| !rest.keys[one] || !rest.waits(one)).collect();
            let is_there = |&one: &usize| rest.locks.iter().any(|lock| lock.has(one) || lock.waits(one));
            if !done.iter().any(is_there) {
                return rest.waits(flow);
            }
            for lock in &mut rest.locks {
                for &one in &done {
                    lock.leave(one);
                }
                lock.serve();
            }
        }
    }
}
