//! The kinds of lock that the service says it carries are carried, and no others are asked for.

use lockkeeper_core::{Advice, Capabilities, Error, ErrorKind, Modes, Part, Wait};
use lockkeeper_recipes::{Keeper, LockKind};

use super::operating::KINDS;
use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::Party;
use crate::speaker::{PLACES, ids_of, line, part_of, speakers};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a contender of each mode that the service carries is taken in and shown", taken_in),
        Case::new("a kind of lock that the service does not carry is refused before anything is sent", refused)
            .promised(|promised| promised.modes != Modes::ALL),
        Case::new("a queue that no kind of lock has which the service carries is empty", always_empty)
            .promised(|promised| PARTS.iter().any(|&part| !has_contenders(promised, part))),
    ]
}

const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

/// Tells whether contenders may stand in this part of a lock.
fn has_contenders(promised: &Capabilities, part: Part) -> bool {
    PLACES.iter().any(|&(place, mode)| place == part && promised.modes.has(mode))
}

async fn taken_in(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    for (part, mode) in ann.places() {
        let queue = part_of("door", part);
        let place = ann.take(&queue, mode).await;
        let shown = bob.view(&queue).await;
        assert_eq!(ids_of(&shown), [place.joined.id], "{mode}");
        ann.withdraw(&queue, place.ticket).await;
        bob.until_ids(&queue, &[]).await;
    }
}

async fn refused(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (keeper, carried) = (&ann.keeper, ann.keeper.capabilities().modes);
    let made = [
        (Modes::MUTEX, keeper.mutex("door").err()),
        (Modes::READ_WRITE, keeper.rw_lock("door").err()),
        (Modes::SEMAPHORE, keeper.semaphore("door", 2).err()),
        (Modes::ELECTION, keeper.election("door").err()),
        (Modes::BARRIER, keeper.double_barrier("door", 2).err()),
    ];
    for (modes, error) in made {
        if carried.has_all(modes) {
            assert!(error.is_none(), "{modes} are carried: {error:?}");
        } else {
            assert_refused(keeper, modes, error);
        }
    }
    for kind in KINDS.into_iter().filter(|kind: &LockKind| !carried.has_all(kind.modes())) {
        let error = soon("the refusal", keeper.admin().freeze("door", kind, "moving disks", Wait::Forever)).await.err();
        assert_refused(keeper, kind.modes(), error);
    }
    assert_eq!(ann.tap.sent(), 0, "the service need not be asked");
}

fn assert_refused(keeper: &Keeper, modes: Modes, error: Option<Error>) {
    let error = error.unwrap_or_else(|| panic!("{modes} are not carried, but were not refused"));
    let said = (error.kind(), error.advice(), error.lock());
    assert_eq!(said, (ErrorKind::Unsupported, Advice::Permanent, Some("door")), "{error}");
    let text = error.to_string();
    for told in [modes.to_string(), keeper.service(), keeper.capabilities().modes.to_string()] {
        assert!(text.contains(&told), "{text:?} does not tell {told:?}");
    }
}

/// Onlookers look at all queues of a lock, also where the service carries few kinds.
async fn always_empty(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    for (part, mode) in ann.places() {
        let place = ann.take(&part_of("door", part), mode).await;
        for empty in PARTS.into_iter().filter(|&part| !has_contenders(ann.backend.capabilities(), part)) {
            assert_eq!(bob.ids(&part_of("door", empty)).await, [], "{empty:?}");
        }
        assert_eq!(bob.inspect(&line("door")).await.len(), 1, "{mode}");
        ann.withdraw(&part_of("door", part), place.ticket).await;
    }
}
