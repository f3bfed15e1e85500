//! Many tasks of this process that want the same lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::Stopwatch;
use crate::Outcome;

/// What each of a crowd was granted, and in which time.
#[derive(Clone, Debug)]
pub(crate) struct CrowdGrants {
    grants: Vec<u64>,
    took: Duration,
}

impl CrowdGrants {
    pub(crate) fn new(grants: Vec<u64>, took: Duration) -> Self {
        Self { grants, took }
    }

    pub(crate) fn total(&self) -> f64 {
        self.grants.iter().sum::<u64>() as f64
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.total() / self.took.as_secs_f64()
    }

    /// The grants of the one with the fewest, as a part of those of the one with the most.
    pub(crate) fn least_of_most(&self) -> f64 {
        let least = self.grants.iter().min().copied().unwrap_or_default();
        let most = self.grants.iter().max().copied().unwrap_or_default();
        least as f64 / most.max(1) as f64
    }
}

/// Tasks that are being added.
#[derive(Debug)]
pub(crate) struct Crowd {
    stopped: Arc<AtomicBool>,
    tasks: JoinSet<Outcome<u64>>,
    begun: Stopwatch,
}

impl Crowd {
    pub(crate) fn new() -> Self {
        Self { stopped: Arc::default(), tasks: JoinSet::new(), begun: Stopwatch::start() }
    }

    /// Adds a task that begins at once, and makes calls until the crowd ends.
    pub(crate) fn add<C, F>(&mut self, mut call: C)
    where
        C: FnMut() -> F + Send + 'static,
        F: Future<Output = Outcome<()>> + Send,
    {
        let stopped = self.stopped.clone();
        self.tasks.spawn(async move {
            let mut grants = 0;
            while !stopped.load(Ordering::Relaxed) {
                call().await?;
                grants += 1;
            }
            Ok(grants)
        });
    }

    /// Lets it go on for this time, and answers what came of it.
    pub(crate) async fn end_after(mut self, time: Duration) -> Outcome<CrowdGrants> {
        tokio::time::sleep(time).await;
        self.stopped.store(true, Ordering::Relaxed);
        let mut grants = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            grants.push(ended??);
        }
        // What was asked for before the end is granted after it, and counts: so does its time.
        let took = self.begun.elapsed();
        Ok(CrowdGrants::new(grants, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_as_fair_as_its_least_beside_its_most() {
        let grants = CrowdGrants::new(vec![50, 100, 80], Duration::from_secs(2));
        assert_eq!((grants.per_second(), grants.least_of_most()), (115.0, 0.5));
        assert_eq!(CrowdGrants::new(vec![0, 0], Duration::from_secs(1)).least_of_most(), 0.0);
    }
}
