//! The contenders in the service's queues, independent of what the contenders believe.

use lockkeeper_core::{ConnectionNumber, Contender, ContenderId, ContenderInfo, FencingToken, Mode, QueueView};
use lockkeeper_recipes::decide::{self, Decision};

/// The contenders of the one lock, part by part.
#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) line: Vec<ContenderInfo>,
    pub(crate) permits: Vec<ContenderInfo>,
    pub(crate) waiters: Vec<ContenderInfo>,
}

impl Truth {
    pub(crate) fn of(all: Vec<ContenderInfo>) -> Self {
        let (permits, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|info| info.mode == Mode::Permit);
        let (waiters, line) = rest.into_iter().partition(|info| info.mode == Mode::Acquire);
        Self { line, permits, waiters }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty() && self.permits.is_empty() && self.waiters.is_empty()
    }

    /// Tells whether tokens grow along each queue; contenders that share one place have the same token.
    pub(crate) fn is_in_order(&self) -> bool {
        let tokens = |infos: &[ContenderInfo]| infos.iter().map(|info| info.token).collect::<Vec<_>>();
        let grow_strictly = |tokens: &[Option<FencingToken>]| tokens.windows(2).all(|two| two[0] < two[1]);
        let in_line = tokens(&self.line);
        in_line.is_sorted() && grow_strictly(&tokens(&self.permits)) && grow_strictly(&tokens(&self.waiters))
    }

    /// Tells whether a contender holds, as the service sees it.
    pub(crate) fn holds(&self, contender: &ContenderId) -> bool {
        let is_it = |info: &ContenderInfo| info.id == *contender;
        let in_line = self.line.iter().position(is_it);
        in_line.is_some_and(|at| decide::holders(&self.line)[at]) || self.permits.iter().any(is_it)
    }

    /// Tells whether a waiter could go if it looked now; so could one that is not in the queue, which should have
    /// failed.
    pub(crate) fn could_go(&self, asked: Mode, waiter: &ContenderId, permits_fit: bool) -> bool {
        let queue = if asked == Mode::Acquire { &self.waiters } else { &self.line };
        let contender = |info: &ContenderInfo| Contender { id: info.id.clone(), ticket: None, mode: info.mode };
        let view = QueueView::new(ConnectionNumber(1), queue.iter().map(contender).collect::<Vec<_>>());
        match decide::decide(asked, waiter, &view) {
            Decision::WaitFor { .. } => false,
            Decision::Granted => asked != Mode::Acquire || permits_fit,
            _ => true,
        }
    }
}
