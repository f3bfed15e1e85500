//! Observations of a process that looks at a queue again and again: who was waiting, and then held.
//!
//! Some services tell since when a contender stands in the queue, but not since when it holds.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::backend::decide;
use lockkeeper::{ContenderId, ContenderInfo};

/// What was observed so far of the contenders that stand in the queue now.
#[derive(Debug, Default)]
pub(crate) struct QueueWitness {
    /// Since when it holds: `None` while it waits, or if it held at the first look.
    seen: BTreeMap<ContenderId, SeenState>,
}

#[derive(Clone, Copy, Debug)]
enum SeenState {
    Waiting,
    /// Granted between two looks, the later of which was then.
    HoldingSince(Duration),
    /// It held when it was seen first.
    Holding,
}

impl QueueWitness {
    /// Takes note of a look, and adds to it what earlier ones have shown: a grant that the service does not tell.
    pub(crate) fn look(&mut self, queue: &mut [ContenderInfo], now_unix: Duration) {
        let holds = decide::holders(queue);
        let mut seen = BTreeMap::new();
        for (contender, holds) in queue.iter_mut().zip(holds) {
            let now = match (holds, self.seen.get(&contender.id)) {
                (false, _) => SeenState::Waiting,
                (true, Some(SeenState::Waiting)) => SeenState::HoldingSince(now_unix),
                (true, Some(before)) => *before,
                (true, None) => SeenState::Holding,
            };
            if let (SeenState::HoldingSince(since), None) = (now, contender.granted_unix) {
                contender.granted_unix = Some(since);
            }
            seen.insert(contender.id.clone(), now);
        }
        self.seen = seen;
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::Mode;

    use super::*;

    fn queue(ids: &[&str]) -> Vec<ContenderInfo> {
        ids.iter().map(|&id| ContenderInfo::new(ContenderId::new(id), Mode::Mutex)).collect()
    }

    fn looked(witness: &mut QueueWitness, ids: &[&str], now: u64) -> Vec<Option<u64>> {
        let mut queue = queue(ids);
        witness.look(&mut queue, Duration::from_secs(now));
        queue.iter().map(|contender| contender.granted_unix.map(|granted| granted.as_secs())).collect()
    }

    #[test]
    fn a_grant_that_was_observed_is_known_and_an_earlier_one_is_not() {
        let mut witness = QueueWitness::default();
        assert_eq!(looked(&mut witness, &["a", "b", "c"], 10), [None, None, None]);
        assert_eq!(looked(&mut witness, &["b", "c"], 12), [Some(12), None]);
        assert_eq!(looked(&mut witness, &["b", "c"], 15), [Some(12), None]);
        assert_eq!(looked(&mut witness, &["d"], 20), [None], "it came and was granted the lock between two looks");
    }

    #[test]
    fn what_the_service_tells_goes_first() {
        let mut witness = QueueWitness::default();
        looked(&mut witness, &["a", "b"], 10);
        let mut queue = queue(&["b"]);
        queue[0].granted_unix = Some(Duration::from_secs(11));
        witness.look(&mut queue, Duration::from_secs(12));
        assert_eq!(queue[0].granted_unix, Some(Duration::from_secs(11)));
    }
}
