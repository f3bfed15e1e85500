//! The queues of one lock: separate from one another, and aware of queues of another kind.

use std::sync::Arc;

use lockkeeper_core::{Mode, Part, QueueName};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::speaker::{Speaker, line, part_of, speakers};
use crate::waiting::soon;

const PARTS: [(Part, Mode); 3] =
    [(Part::Line, Mode::Mutex), (Part::Permits, Mode::Permit), (Part::Waiters, Mode::Acquire)];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("the parts of one name are separate queues", kept_apart),
        Case::new("a name that looks like a part of another is a separate lock", look_alikes),
        Case::new("a queue shows that its lock is in use as one of another kind, until it is not", elsewhere),
        Case::new("a look at a lock shows its line, then its permits, then its waiters", all_parts_shown),
        Case::new("queues() names locks of every kind once each", named_once),
    ]
}

async fn kept_apart(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    // The last two are cut and digested where they are stored.
    for name in ["door", "reports/daily", &"語".repeat(60), &"x".repeat(200)] {
        let mut taken = Vec::new();
        for (part, mode) in PARTS {
            taken.push((part_of(name, part), mode, ann.take(&part_of(name, part), mode).await));
        }
        for (queue, mode, place) in &taken {
            let view = bob.view(queue).await;
            let shown: Vec<_> = view.contenders.iter().map(|it| (it.id.clone(), it.ticket, it.mode)).collect();
            assert_eq!(shown, [(place.joined.id.clone(), Some(place.ticket), *mode)], "{name:?}: {:?}", queue.part());
        }
        let (waiters, permit) = (&taken[2].0, taken[1].2.ticket);
        ann.withdraw(waiters, permit).await;
        for (queue, _, place) in &taken {
            assert_eq!(
                bob.ids(queue).await,
                std::slice::from_ref(&place.joined.id),
                "nothing was withdrawn from another part"
            );
            ann.withdraw(queue, place.ticket).await;
            bob.until_ids(queue, &[]).await;
        }
    }
}

/// The layout of parts must not collide with the layout of names.
async fn look_alikes(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let mut taken = Vec::new();
    for (part, mode) in PARTS {
        taken.push((part_of("door", part), ann.take(&part_of("door", part), mode).await));
    }
    for name in ["door/locks", "door/leases", "door/permits", "door/gate", "door-__lock__", "locks", "leases", "door."]
    {
        for (part, _) in PARTS {
            let view = ann.view(&part_of(name, part)).await;
            assert!(view.contenders.is_empty() && view.elsewhere.is_none(), "{name:?}: {view:?}");
        }
        assert!(ann.inspect(&line(name)).await.is_empty(), "{name:?}");
    }
    for (queue, place) in taken {
        ann.withdraw(&queue, place.ticket).await;
    }
}

async fn elsewhere(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let seen_from = async |part: Part| bob.view(&part_of("door", part)).await.elsewhere;
    for (taken, mode) in PARTS {
        let queue = part_of("door", taken);
        let place = ann.take(&queue, mode).await;
        assert_eq!(place.joined.view.elsewhere, None);
        for (part, _) in PARTS {
            let is_other_kind = (part == Part::Line) != (taken == Part::Line);
            assert_eq!(seen_from(part).await, is_other_kind.then_some(mode), "{taken:?} seen from {part:?}");
        }
        let other = if taken == Part::Line { Part::Permits } else { Part::Line };
        let asked = if taken == Part::Line { Mode::Permit } else { Mode::Mutex };
        let behind = bob.take(&part_of("door", other), asked).await;
        assert_eq!(behind.joined.view.elsewhere, Some(mode), "{taken:?} shown to a contender that joins {other:?}");
        bob.withdraw(&part_of("door", other), behind.ticket).await;
        ann.withdraw(&queue, place.ticket).await;
        for (part, _) in PARTS {
            // What a service keeps of an empty queue is not in use.
            assert_eq!(seen_from(part).await, None, "{taken:?} seen from {part:?} after it was left");
        }
    }
}

async fn all_parts_shown(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let mut expected = Vec::new();
    let mut taken = Vec::new();
    // In another order than they are shown.
    for (part, mode) in PARTS.into_iter().rev() {
        let queue = part_of("door", part);
        for speaker in [&ann, &bob] {
            let place = speaker.take(&queue, mode).await;
            expected.push((part, place.joined.id.clone(), mode));
            taken.push((speaker, queue.clone(), place.ticket));
        }
    }
    let position = |part: &Part| PARTS.iter().position(|(other, _)| other == part);
    expected.sort_by_key(|(part, ..)| position(part));
    let expected: Vec<_> = expected.into_iter().map(|(_, id, mode)| (id, mode)).collect();
    for (part, _) in PARTS {
        let shown = bob.inspect(&part_of("door", part)).await;
        let shown: Vec<_> = shown.into_iter().map(|contender| (contender.id, contender.mode)).collect();
        assert_eq!(shown, expected, "asked for {part:?}");
    }
    for (speaker, queue, ticket) in taken {
        speaker.withdraw(&queue, ticket).await;
    }
}

async fn named_once(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let uses: [(&str, &[usize]); 5] =
        [("all", &[0, 1, 2]), ("line", &[0]), ("permits", &[1]), ("semaphore", &[1, 2]), ("waiters", &[2])];
    let mut taken = Vec::new();
    for (name, parts) in uses {
        for &at in parts {
            let (part, mode) = PARTS[at];
            let queue = part_of(name, part);
            taken.push((queue.clone(), ann.take(&queue, mode).await.ticket));
        }
    }
    let names = soon("the names", ann.backend.admin().queues("")).await.expect("the queues are named");
    let expected: Arc<[QueueName]> = uses.iter().map(|(name, _)| line(name)).collect();
    assert_eq!(names[..], *expected);
    let names = soon("the names", ann.backend.admin().queues("per")).await.expect("the queues are named");
    assert_eq!(names, [line("permits")]);
    for (queue, ticket) in taken {
        ann.withdraw(&queue, ticket).await;
    }
}
