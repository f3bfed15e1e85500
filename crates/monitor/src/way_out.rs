//! The operator's way out of a deadlock.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use lockkeeper::Answers;

use crate::deadlock::WayOut;
use crate::world::{World, WorldPlace};

/// Chooses a holder of the core: one that answers requests, and of these the one that came last.
pub(crate) fn way_out(world: &World<'_>, core: &BTreeSet<usize>) -> WayOut {
    let holds =
        |&&number: &&usize| matches!(world.contenders[number].place, WorldPlace::Holds | WorldPlace::HasPermit { .. });
    let mut holders: Vec<usize> = core.iter().filter(holds).copied().collect();
    holders.sort_by_key(|&number| {
        let info = world.contenders[number].info;
        (info.answers, Reverse(info.granted_unix.or(info.since_unix)))
    });
    let choices = holders.into_iter().map(|number| (world.lock(number).name.clone(), world.contenders[number].info));
    for (lock, info) in choices {
        let holder = Box::new(info.clone());
        match (info.answers, info.token) {
            (Answers::Yes | Answers::Unknown, _) => return WayOut::Revoke { lock, holder },
            (_, Some(token)) => return WayOut::Break { lock, holder, token },
            (_, None) => {}
        }
    }
    WayOut::EndProcess
}
