//! Tests of the model's knowledge of holds and events.

use std::time::Duration;

use lockkeeper::{ContenderId, ContenderInfo, Mode, Revocation};

use super::scene::{self, moment as at, name as lock};
use crate::events::LockEventKind;
use crate::model::{EVENTS_MAX, LockModel};

/// A contender that joined at this second.
fn contender(id: &str, mode: Mode, joined: u64) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(id), mode);
    info.since_unix = Some(at(joined).unix);
    info
}

fn mutexes(ids: &[(&str, u64)]) -> Vec<ContenderInfo> {
    ids.iter().map(|&(id, joined)| contender(id, Mode::Mutex, joined)).collect()
}

fn events(model: &LockModel) -> Vec<(u64, &'static str, String)> {
    model.events_from(0).map(|event| (event.number, event.kind.as_str(), event.contender.id.to_string())).collect()
}

fn held(model: &LockModel, name: &str, now: u64) -> Vec<Option<(u64, Option<u64>)>> {
    let seconds = |duration: Duration| duration.as_secs();
    let bounds = model.locks()[&lock(name)].contenders.iter().map(|one| {
        let least = one.held_at_least(at(now)).map(seconds);
        least.map(|least| (least, one.held_at_most(at(now)).map(seconds)))
    });
    bounds.collect()
}

#[test]
fn what_was_found_at_the_start_holds_since_then_at_least_and_since_its_join_at_most() {
    let mut model = LockModel::default();
    model.see(&lock("a"), mutexes(&[("x", 10), ("y", 20)]), None, at(100));
    assert_eq!(held(&model, "a", 130), [Some((30, Some(120))), None]);
    assert_eq!(events(&model), [], "nothing has happened by being found");
    let mut unknown = mutexes(&[("x", 10)]);
    unknown[0].since_unix = None;
    model.see(&lock("b"), unknown, None, at(100));
    assert_eq!(held(&model, "b", 130), [Some((30, None))]);
}

#[test]
fn a_waiter_that_was_seen_to_be_granted_holds_since_between_the_two_states() {
    let mut model = LockModel::default();
    model.see(&lock("a"), mutexes(&[("x", 10), ("y", 20)]), None, at(100));
    model.see(&lock("a"), mutexes(&[("y", 20), ("z", 150)]), Some(at(140).boot), at(150));
    assert_eq!(held(&model, "a", 160), [Some((10, Some(20))), None]);
    assert_eq!(
        events(&model),
        [(0, "left", "x".to_owned()), (1, "granted", "y".to_owned()), (2, "joined", "z".to_owned())]
    );
    // It goes on holding since then, whatever else changes.
    model.see(&lock("a"), mutexes(&[("y", 20)]), Some(at(170).boot), at(170));
    assert_eq!(held(&model, "a", 180), [Some((30, Some(40)))]);
}

#[test]
fn where_the_service_shows_the_grant_it_counts_and_a_wrong_clock_makes_no_hold_shorter_than_it_was_seen() {
    let mut model = LockModel::default();
    let mut queue = mutexes(&[("x", 10)]);
    queue[0].granted_unix = Some(at(90).unix);
    model.see(&lock("a"), queue, None, at(100));
    assert_eq!(held(&model, "a", 130), [Some((40, Some(40)))]);
    // It joined in the future, by its clock.
    model.see(&lock("b"), mutexes(&[("y", 5_000)]), None, at(100));
    assert_eq!(held(&model, "b", 130), [Some((30, Some(30)))]);
    assert_eq!(model.locks()[&lock("b")].contenders[0].age(at(130)), Duration::from_secs(30));
}

#[test]
fn a_lock_without_contenders_is_forgotten_and_the_same_name_begins_anew() {
    let mut model = LockModel::default();
    model.see(&lock("a"), mutexes(&[("x", 10)]), None, at(100));
    model.see(&lock("a"), Vec::<ContenderInfo>::new(), Some(at(110).boot), at(110));
    assert!(model.locks().is_empty());
    model.see(&lock("a"), mutexes(&[("y", 120)]), Some(at(120).boot), at(120));
    assert_eq!(events(&model), [(0, "left", "x".to_owned()), (1, "granted", "y".to_owned())]);
    assert_eq!(held(&model, "a", 121), [Some((1, Some(1)))]);
}

#[test]
fn requests_and_freezes_are_events_once_each() {
    let mut model = LockModel::default();
    model.see(&lock("a"), mutexes(&[("x", 10)]), None, at(100));
    let mut asked = mutexes(&[("x", 10)]);
    asked[0].revocation = Some(Revocation::default());
    let mut freezing = contender("f", Mode::Mutex, 110);
    freezing.frozen = Some("new disks".to_owned());
    asked.push(freezing);
    for second in [110, 111] {
        model.see(&lock("a"), asked.clone(), Some(at(second).boot), at(second));
    }
    asked.pop();
    model.see(&lock("a"), asked, Some(at(112).boot), at(112));
    let kinds: Vec<_> = model.events_from(0).map(|event| event.kind).collect();
    assert_eq!(kinds, [LockEventKind::Asked, LockEventKind::Frozen, LockEventKind::Thawed]);
}

#[test]
fn what_changes_without_an_event_is_known_by_its_lock_and_counted() {
    let mut model = LockModel::default();
    let quiet = |model: &LockModel, count| {
        model.changed_quietly_since(count).map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
    };
    for name in ["a", "b", "c"] {
        model.see(&lock(name), mutexes(&[("x", 10)]), Some(at(99).boot), at(100));
    }
    assert_eq!((model.quiet_changes(), model.next_event()), (0, 3), "each grant is an event");
    let mut labelled = mutexes(&[("x", 10)]);
    labelled[0].label = Some("job-7@web-4".to_owned());
    for second in [101, 102] {
        model.see(&lock("a"), labelled.clone(), Some(at(second).boot), at(second));
        model.see(&lock("c"), mutexes(&[("x", 10)]), Some(at(second).boot), at(second));
        model.set_permits(&lock("b"), Some(3));
    }
    assert_eq!((model.quiet_changes(), model.next_event()), (2, 3));
    assert_eq!(
        (quiet(&model, 0), quiet(&model, 1), quiet(&model, 2)),
        (vec!["a".into(), "b".into()], vec!["b".into()], vec![])
    );
    // What an event tells of is not counted, and what was counted stays so.
    model.see(&lock("a"), Vec::<ContenderInfo>::new(), Some(at(103).boot), at(103));
    model.see(&lock("b"), mutexes(&[("y", 20)]), Some(at(103).boot), at(103));
    assert_eq!((model.quiet_changes(), quiet(&model, 0)), (2, vec!["b".to_owned()]));
}

#[test]
fn a_permit_and_a_waiter_of_one_identity_are_two_contenders() {
    let mut model = LockModel::default();
    let both = vec![contender("0", Mode::Permit, 1), contender("0", Mode::Acquire, 2)];
    model.see(&lock("pool"), both, None, at(100));
    model.see(&lock("pool"), vec![contender("0", Mode::Acquire, 2)], Some(at(110).boot), at(110));
    assert_eq!(events(&model), [(0, "left", "0".to_owned())]);
    assert_eq!(model.locks()[&lock("pool")].waiters().count(), 1);
}

#[test]
fn the_oldest_events_are_dropped_and_the_others_keep_their_numbers() {
    let mut model = LockModel::default();
    model.see(&lock("a"), mutexes(&[("x", 1)]), None, at(1));
    let last = EVENTS_MAX as u64 + 9;
    for number in 0..=last / 2 {
        let queue = if number % 2 == 0 { Vec::new() } else { mutexes(&[("x", 1)]) };
        model.see(&lock("a"), queue, Some(at(number).boot), at(number));
        model.see(&lock("b"), mutexes(&[("y", 1)]), Some(at(number).boot), at(number));
        model.see(&lock("b"), Vec::<ContenderInfo>::new(), Some(at(number).boot), at(number));
    }
    let next = model.next_event();
    assert!(next > last);
    let numbers: Vec<_> = model.events_from(0).map(|event| event.number).collect();
    assert_eq!(numbers, (next - EVENTS_MAX as u64..next).collect::<Vec<_>>());
    assert_eq!(
        model.events_from(next - 3).map(|event| event.number).collect::<Vec<_>>(),
        [next - 3, next - 2, next - 1]
    );
    assert_eq!(model.events_from(next + 7).count(), 0);
}

#[test]
fn contenders_that_share_no_process_and_no_session_are_never_searched() {
    let mut model = LockModel::default();
    for number in 0..1_000_u64 {
        let infos = [2 * number, 2 * number + 1].map(|one| {
            let mut info = scene::contender(one, Mode::Mutex);
            info.session = Some(format!("0x{one:016x}"));
            scene::of(info, one, &format!("t{one}"))
        });
        model.see(&lock(&format!("lock-{number:04}")), infos.into(), None, at(1));
    }
    assert_eq!(model.contended(at(1).boot, at(1)).locks.len(), 1_000);
    assert_eq!((model.entangled(at(1).boot, at(1)).locks.len(), model.stirred()), (0, 0));
    // One more of a process that waits is enough.
    let other = scene::of(scene::contender(5_000, Mode::Mutex), 1, "t5000");
    model.see(&lock("other"), vec![other], None, at(2));
    assert!(model.stirred() > 0);
    let searched = model.entangled(at(2).boot, at(2));
    assert!(searched.locks.iter().any(|seen| seen.name.as_str() == "lock-0000"), "{searched:?}");
}
