//! Tasks that take turns at locks, and account for it: no two hold one at once, and its tokens grow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lockkeeper_core::{Advice, Error, ErrorKind, FencingToken};
use lockkeeper_recipes::Keeper;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    is_over: AtomicBool,
    locks: Vec<Lock>,
    turns: AtomicUsize,
    failed: AtomicUsize,
}

#[derive(Debug, Default)]
struct Lock {
    inside: AtomicUsize,
    greatest: Mutex<Option<FencingToken>>,
}

impl Ledger {
    pub(crate) fn new(locks: usize) -> Self {
        Self { locks: (0..locks).map(|_| Lock::default()).collect(), ..Self::default() }
    }

    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// How many turns there were, and how many calls failed in passing.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.turns.load(Ordering::SeqCst), self.failed.load(Ordering::SeqCst))
    }

    /// Takes one lock after the other, and makes sure that it is alone with each. Where no hold may be lost, one that
    /// is lost is a fault.
    pub(crate) async fn take_turns(&self, keeper: &Keeper, first: usize, may_lose: bool) -> Result<(), String> {
        let is_fault = |error: &Error| {
            error.advice() == Advice::Permanent || !may_lose && matches!(error.kind(), ErrorKind::Lost(_))
        };
        let mut at = first;
        while !self.is_over() {
            at = (at + 1) % self.locks.len();
            let guard = match mutex(keeper, at)?.lock().await {
                Ok(guard) => guard,
                Err(error) if is_fault(&error) => return Err(format!("no lock: {error:#}")),
                Err(_) => {
                    self.failed.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
            };
            let (lock, token) = (&self.locks[at], guard.fencing_token());
            let others = lock.inside.fetch_add(1, Ordering::SeqCst);
            let before = lock.greatest.lock().expect("no panic").replace(token);
            if let Some(greater) = before.filter(|before| token <= *before) {
                return Err(format!("token {token} came after {greater}"));
            }
            tokio::task::yield_now().await;
            let inside = lock.inside.fetch_sub(1, Ordering::SeqCst);
            if (others, inside) != (0, 1) && (!may_lose || guard.hold().is_held()) {
                return Err(format!("two hold {}, one of them with token {token}", name(at)));
            }
            self.turns.fetch_add(1, Ordering::SeqCst);
            match guard.release().await {
                Err(error) if !may_lose && is_fault(&error) => return Err(format!("no release: {error:#}")),
                // One that cannot be told goes on by itself.
                Err(_) => drop(self.failed.fetch_add(1, Ordering::SeqCst)),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

pub(crate) fn name(at: usize) -> String {
    format!("ledger {at}")
}

pub(crate) fn mutex(keeper: &Keeper, at: usize) -> Result<lockkeeper_recipes::Mutex, String> {
    keeper.mutex(&name(at)).map_err(|error| format!("{error:#}"))
}
