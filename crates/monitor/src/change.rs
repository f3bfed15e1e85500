//! The difference of two states of a queue: who is new, who was granted, who has gone. Pure.

use std::sync::Arc;

use lockkeeper::ContenderInfo;
use lockkeeper::clock::BootInstant;

use crate::events::{LockEventKind, ending, events};
use crate::gate::AtGate;
use crate::known::{KnownContender, VanishedTurn};
use crate::moment::TimePoint;
use crate::positions::Positions;

/// A queue as it is now, and how it differs from the state before.
pub(crate) struct QueueChange {
    /// Its contenders now, first contender first.
    pub(crate) contenders: Vec<KnownContender>,
    /// The places of those that are new, or not as they were.
    pub(crate) changed: Vec<usize>,
    /// The places of those that hold and did not before.
    pub(crate) granted: Vec<usize>,
    /// Those that have gone, in their order.
    pub(crate) gone: Vec<(KnownContender, VanishedTurn)>,
    /// What has happened to each. One that leaves makes room for one that is granted.
    pub(crate) happened: Vec<(LockEventKind, Arc<ContenderInfo>)>,
}

impl QueueChange {
    /// Compares two states, of which the later one says which contenders hold. What is new has happened after `known`.
    pub(crate) fn of(
        old: Vec<KnownContender>,
        seen: Vec<Arc<ContenderInfo>>,
        holds: Vec<bool>,
        known: Option<BootInstant>,
        now: TimePoint,
    ) -> Self {
        let gate = AtGate::of(old.iter().map(|one| (&*one.info, one.seen.boot)));
        let positions = Positions::of(old.iter().map(|one| &*one.info));
        let mut left: Vec<_> = old.into_iter().map(Some).collect();
        // The place of the first one that has not gone.
        let mut first_left = usize::MAX;
        let mut contenders = Vec::with_capacity(seen.len());
        let (mut changed, mut granted, mut happened) = (Vec::new(), Vec::new(), Vec::new());
        for (place, (info, holds)) in seen.into_iter().zip(holds).enumerate() {
            let position = positions.find(left.iter().map(|one| one.as_ref().map(|one| &*one.info)), &info);
            let old = position.and_then(|position| left[position].take());
            first_left = first_left.min(position.unwrap_or(usize::MAX));
            let before = old.as_ref().map(|old| (&old.info, old.hold.is_some()));
            changed.extend((before != Some((&info, holds))).then_some(place));
            granted.extend((holds && before.is_none_or(|(_, held)| !held)).then_some(place));
            let before = before.map(|(old, held)| (&**old, held));
            happened.extend(events(before, &info, holds).map(|kind| (kind, info.clone())));
            let asked = old.as_ref().map_or_else(|| gate.asked(&info), |old| old.asked);
            contenders.push(KnownContender { asked, ..KnownContender::seen(old, info, holds, known, now) });
        }
        let turn = |place| if place < first_left { VanishedTurn::First } else { VanishedTurn::Behind };
        let gone = left.into_iter().enumerate().filter_map(|(place, one)| Some((one?, turn(place))));
        let gone: Vec<_> = gone.collect();
        let endings = gone.iter().map(|(one, _)| (ending(&one.info, one.is_lost), one.info.clone()));
        let happened = endings.chain(happened).collect();
        Self { contenders, changed, granted, gone, happened }
    }
}
