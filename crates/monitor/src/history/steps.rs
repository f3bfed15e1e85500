//! Steps of the lengths of queues that are not written yet: two lines of a lock at most between two writings of all,
//! however fast its queue changes.

use std::collections::BTreeMap;

use lockkeeper::QueueName;

use super::records::QueueRecord;

#[derive(Clone, Debug, Default)]
pub(super) struct UnwrittenSteps(BTreeMap<QueueName, LockSteps>);

/// The steps of one lock since all were written.
#[derive(Clone, Debug, Default)]
struct LockSteps {
    /// Whether one was written: what follows it waits until all are.
    is_told: bool,
    /// What is not written yet, as one step.
    step: Option<QueueRecord>,
}

impl UnwrittenSteps {
    pub(super) fn add(&mut self, lock: &QueueName, step: &QueueRecord) {
        let known = self.0.entry(lock.clone()).or_default();
        match &mut known.step {
            Some(known) => known.join(step),
            None => known.step = Some(step.clone()),
        }
    }

    /// Takes what is due: all, or else the first one of each lock.
    pub(super) fn take(&mut self, all: bool) -> Vec<(QueueName, QueueRecord)> {
        if all {
            let left = std::mem::take(&mut self.0).into_iter();
            return left.filter_map(|(lock, known)| Some((lock, known.step?))).collect();
        }
        let untold = self.0.iter_mut().filter(|(_, known)| !known.is_told);
        let take = |(lock, known): (&QueueName, &mut LockSteps)| {
            known.is_told = true;
            Some((lock.clone(), known.step.take()?))
        };
        untold.filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scene::name;

    #[test]
    fn the_first_step_of_a_lock_is_written_at_once_and_the_others_as_one_with_the_greatest_length() {
        let mut steps = UnwrittenSteps::default();
        let step = |second, longest, last| QueueRecord { second, longest, last };
        let taken = |steps: &mut UnwrittenSteps, all| -> Vec<_> {
            let taken = steps.take(all).into_iter();
            taken.map(|(lock, step)| (lock.to_string(), step.second, step.longest, step.last)).collect()
        };
        let told = |lock: &str, second, longest, last| (lock.to_owned(), second, longest, last);
        steps.add(&name("a"), &step(1, 2, 2));
        assert_eq!(taken(&mut steps, false), [told("a", 1, 2, 2)]);
        for (second, longest, last) in [(2, 3, 3), (3, 9, 1), (4, 4, 4)] {
            steps.add(&name("a"), &step(second, longest, last));
            let first: &[_] = if second == 3 { &[told("b", 3, 1, 1)] } else { &[] };
            if second == 3 {
                steps.add(&name("b"), &step(3, 1, 1));
            }
            assert_eq!(taken(&mut steps, false), first);
        }
        assert_eq!(taken(&mut steps, true), [told("a", 2, 9, 4)]);
        assert!(steps.0.is_empty(), "what is written takes no memory");
    }
}
