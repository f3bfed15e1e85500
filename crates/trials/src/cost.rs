//! The cost of a call behind very many others.

use libtest_mimic::Failed;
use lockkeeper_core::{Backend, QueueName, Session};
use lockkeeper_faults::{figures, long};

use crate::waist::{join_all, session, ticket};

/// A call, and what it may cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// What is called.
    pub what: &'static str,
    /// In what its cost is told.
    pub unit: &'static str,
    /// How many stand ahead; in the plain run a tenth.
    pub ahead: u32,
    /// How often each is measured; the medians count.
    pub rounds: usize,
    /// How many times the cost behind none it may be. It counts in the long run, beside which nothing else runs.
    pub times_max: f64,
}

impl Cost {
    /// Measures the call behind so many and behind none, by turns.
    pub async fn compare(
        self,
        backend: &dyn Backend,
        measure: impl AsyncFn(&dyn Session, &QueueName, usize) -> Result<f64, Failed>,
    ) -> Result<(), Failed> {
        let (others, ours) = (session(backend).await, session(backend).await);
        let (long, free) = (QueueName::new("long")?, QueueName::new("free")?);
        let ahead = usize::try_from(long::rounds(self.ahead))?;
        let tickets: Vec<_> = (0..ahead).map(|_| ticket()).collect();
        join_all(&*others, &long, &tickets).await;
        let (mut behind_many, mut behind_none) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            behind_none.push(measure(&*ours, &free, 0).await?);
            behind_many.push(measure(&*ours, &long, ahead).await?);
        }
        let (behind_many, behind_none) = (median(behind_many), median(behind_none));
        let (Self { what, unit, times_max, .. }, times) = (self, behind_many / behind_none);
        figures::tell(&format!(
            "crowd: {what} behind {ahead} costs {behind_many:.1} {unit}, behind none {behind_none:.1}: {times:.2} times"
        ));
        let is_dear = times > times_max && long::is_asked_for();
        assert!(!is_dear, "{what} behind {ahead} costs {times:.2} times one behind none");
        others.close().await?;
        ours.close().await?;
        Ok(())
    }
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
