//! Time as a thread has it that only sleeps: a bound on how late something may be, on a machine that is late itself.
//!
//! What a test promises within a second is late by more than that if the machine stands still for two, and nothing is
//! wrong. A thread beside it that only sleeps stands still as well, and what it has counted meanwhile is not more than
//! a second. On a machine that keeps up, that is the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// How long it sleeps at a time: short beside any bound, long beside the work of waking up.
const NAP: Duration = Duration::from_millis(5);

/// A thread that sleeps, counting, until this value is dropped.
#[derive(Debug)]
pub struct Sleeper {
    naps: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Sleeper {
    /// Starts to count.
    pub fn start() -> Self {
        let this = Self { naps: Arc::default(), is_over: Arc::default() };
        let (naps, is_over) = (Arc::clone(&this.naps), Arc::clone(&this.is_over));
        thread::spawn(move || sleep(&naps, &is_over));
        this
    }

    /// How long it has slept since its start; never more than has passed.
    pub fn slept(&self) -> Duration {
        NAP * self.naps.load(Ordering::SeqCst)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

#[expect(clippy::disallowed_methods, reason = "what it measures by")]
fn sleep(naps: &AtomicU32, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        thread::sleep(NAP);
        naps.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the time that it is compared with")]
    fn it_counts_and_never_more_than_has_passed() {
        let begun = Instant::now();
        let sleeper = Sleeper::start();
        while sleeper.slept() < 20 * NAP {
            assert!(sleeper.slept() <= begun.elapsed());
            thread::yield_now();
        }
    }
}
