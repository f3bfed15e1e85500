//! The values of queues: one each, compared and set.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::contender::{Expected, Value, ValueVersion};
use crate::name::QueueName;

/// The values of one service.
#[derive(Debug, Default)]
pub(super) struct ValueTable {
    by_name: BTreeMap<QueueName, Value>,
    last_version: u128,
}

impl ValueTable {
    pub(super) fn get(&self, queue: &QueueName) -> Option<&Value> {
        self.by_name.get(queue)
    }

    /// Writes or removes a value if it is as expected; `None` if it is not.
    pub(super) fn set(
        &mut self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Option<ValueVersion> {
        let found = self.by_name.get(queue).map(|value| value.version);
        let is_expected = match expected {
            Expected::Any => true,
            Expected::Absent => found.is_none(),
            Expected::Version(version) => found == Some(version),
        };
        if !is_expected {
            return None;
        }
        self.last_version += 1;
        let version = ValueVersion(self.last_version);
        match value {
            Some(bytes) => drop(self.by_name.insert(queue.clone(), Value { bytes, version })),
            None => drop(self.by_name.remove(queue)),
        }
        Some(version)
    }
}
