//! A contender on the page: whose it is, since when it holds, and which other locks its flow has a part in.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::backend::{Flow, ProcessId};
use lockkeeper::{ContenderInfo, QueueName};
use lockkeeper_monitor::{KnownContender, LockModel, TimePoint};

use super::escaped::aged;

/// How many other locks of one flow are named.
const OTHERS_MAX: usize = 3;

/// What names a contender: its host, or what its client wrote, and the rest that is known of it.
pub(in crate::monitor) fn named(info: &ContenderInfo) -> (String, String) {
    let session = info.session.as_ref().map(|session| format!("session {session}"));
    match (&info.owner, &info.label) {
        (Some(owner), _) => (owner.host.clone(), format!("pid {} {}", owner.pid, owner.command)),
        (None, Some(label)) => (label.clone(), session.unwrap_or_else(|| info.id.to_string())),
        (None, None) => (info.id.to_string(), session.unwrap_or_default()),
    }
}

/// Says for how long it is held; `≥` where that is since it was seen to.
pub(super) fn held_for((least, is_longer): (Duration, bool), now: TimePoint) -> String {
    format!("{}{}", if is_longer { "≥ " } else { "" }, aged(least, now))
}

/// What a flow of control does with another lock.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) lock: QueueName,
    pub(super) holds: bool,
}

type FlowKey = (ProcessId, Flow);

fn flow_key(info: &ContenderInfo) -> Option<FlowKey> {
    Some((info.caller.process?, info.caller.flow?))
}

/// Finds what the flows of some contenders do with locks other than this one, in the order of the contenders.
pub(super) fn others(model: &LockModel, here: &QueueName, contenders: &[KnownContender]) -> Vec<Vec<Other>> {
    let mut found = vec![Vec::new(); contenders.len()];
    let mut places: BTreeMap<FlowKey, Vec<usize>> = BTreeMap::new();
    for (at, one) in contenders.iter().enumerate() {
        if let Some(key) = flow_key(&one.info) {
            places.entry(key).or_default().push(at);
        }
    }
    if places.is_empty() {
        return found;
    }
    for (name, lock) in model.locks().iter().filter(|(name, _)| *name != here) {
        for other in &lock.contenders {
            let same = flow_key(&other.info).and_then(|key| places.get(&key));
            for &at in same.into_iter().flatten() {
                if found[at].len() < OTHERS_MAX {
                    found[at].push(Other { lock: name.clone(), holds: other.hold.is_some() });
                }
            }
        }
    }
    found
}
