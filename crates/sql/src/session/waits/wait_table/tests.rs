//! When waits are looked at, and which.

use super::*;

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::from_nanos(milliseconds * 1_000_000)
}

fn ticket(bits: u128) -> Ticket {
    Ticket::from_bits(bits)
}

fn table(telling: WakeState) -> WaitTable {
    let mut table = WaitTable::new(4, Duration::from_secs(3));
    table.attach(1, telling, false);
    table
}

fn table_with_named_locks() -> WaitTable {
    let mut table = WaitTable::new(4, Duration::from_secs(3));
    table.attach(1, WakeState::Looks, true);
    table
}

fn depart(table: &mut WaitTable, bits: u128, nearness: usize, now_ms: u64) -> oneshot::Receiver<WaitEnd> {
    let (tell, end) = oneshot::channel();
    table.depart(ticket(bits), nearness, None, at(now_ms), tell);
    end
}

#[test]
fn looks_come_later_with_each_contender_between_up_to_a_second_and_are_spread_by_a_quarter() {
    let intervals = [0, 1, 2, 3, 4, 5, 40, usize::MAX].map(|nearness| interval(nearness).as_millis());
    assert_eq!(intervals, [50, 100, 150, 200, 250, 300, 1_000, 1_000]);
    let mut random = Random::new(1);
    let spread: Vec<_> = (0..1_000).map(|_| spread(&mut random, Duration::from_secs(1)).as_millis()).collect();
    assert!(spread.iter().all(|one| (1_000..=1_250).contains(one)));
    assert!(spread.iter().any(|one| *one < 1_025) && spread.iter().any(|one| *one > 1_225));
}

#[test]
fn a_wait_is_looked_at_once_before_it_is_only_told() {
    let mut table = table(WakeState::Told { since: at(1_000) });
    let _early = depart(&mut table, 1, 0, 3_999);
    let _late = depart(&mut table, 2, 0, 4_000);
    assert_eq!(table.next_due(), Some(at(3_999)));
    assert_eq!(table.take_due(at(4_000)), [ticket(1)]);
    assert_eq!(table.next_due(), None);
    table.look_again(&[ticket(1)], at(4_100));
    let again = table.next_due().expect("a look that failed is retried");
    assert!((at(4_150)..=at(4_163)).contains(&again), "{again:?}");
}

#[test]
fn what_is_due_soon_is_looked_at_together_and_each_contender_once() {
    let mut table = table(WakeState::Looks);
    let waits = [1, 1, 2].map(|bits| depart(&mut table, bits, 0, 0));
    let _later = depart(&mut table, 3, 0, 40);
    assert_eq!(table.take_due(at(49)), []);
    let sorted = |mut taken: Vec<Ticket>| {
        taken.sort_unstable();
        taken
    };
    assert_eq!(sorted(table.take_due(at(63))), [1, 2].map(ticket));
    // Those that are due within half of their interval come along.
    assert_eq!(sorted(table.take_due(at(103))), [1, 2, 3].map(ticket));
    drop(waits);
}

#[test]
fn one_that_is_not_next_in_line_is_to_find_its_place_anew_where_nothing_tells() {
    let mut table = table(WakeState::Looks);
    let mut far = depart(&mut table, 1, 3, 0);
    assert_eq!((table.take_due(at(199)), far.try_recv()), (Vec::new(), Err(oneshot::error::TryRecvError::Empty)));
    assert_eq!((table.take_due(at(251)), far.try_recv()), (Vec::new(), Ok(WaitEnd::Look)));
    assert!(table.is_empty());
}

#[test]
fn a_beat_asks_for_the_nearest_and_for_the_others_in_turn() {
    let mut table = table(WakeState::Looks);
    let _waits: Vec<_> =
        (0..200).map(|bits| depart(&mut table, bits, 200 - usize::try_from(bits).unwrap(), 0)).collect();
    let nearest: Vec<_> = (192..200).rev().map(ticket).collect();
    let mut asked = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let awaited = table.next_awaited();
        assert_eq!((awaited.len(), &awaited[..8]), (64, &nearest[..]));
        asked.extend(awaited);
    }
    assert_eq!(asked.len(), 200);
}

#[test]
fn departures_without_a_wait_are_remembered_up_to_a_limit_and_not_over_a_new_connection() {
    let mut table = table(WakeState::Soon);
    (0..=1_024).for_each(|bits| table.departed(ticket(bits), at(0)));
    assert!(depart(&mut table, 0, 0, 0).try_recv().is_err());
    assert_eq!(depart(&mut table, 1, 0, 0).try_recv(), Ok(WaitEnd::Departed));
    table.attach(2, WakeState::Soon, false);
    assert!(depart(&mut table, 1, 0, 0).try_recv().is_err());
}

#[test]
fn a_named_lock_that_was_free_for_nothing_is_not_waited_for_again() {
    let mut table = table_with_named_locks();
    let _far = depart(&mut table, 1, 3, 0);
    let _near = depart(&mut table, 2, 1, 20);
    assert_eq!(table.next_named_lock(at(49)), NextNamedLock { ticket: None, changes_at: Some(at(50)) });
    assert_eq!(table.next_named_lock(at(50)), NextNamedLock { ticket: Some(ticket(1)), changes_at: Some(at(70)) });
    assert_eq!(table.next_named_lock(at(70)), NextNamedLock { ticket: Some(ticket(2)), changes_at: None });
    table.opened(ticket(2), at(80));
    assert_eq!(table.next_due(), Some(at(80)));
    assert_eq!(table.next_named_lock(at(80)).ticket, Some(ticket(1)));
}

#[test]
fn a_wait_for_a_named_lock_is_looked_at_once_a_second_and_another_one_waits_for_its_lock_at_once() {
    let mut table = table_with_named_locks();
    let mut near = depart(&mut table, 1, 1, 0);
    let mut far = depart(&mut table, 2, 2, 0);
    assert_eq!((table.take_due(at(200)), near.try_recv().is_err(), far.try_recv()), (vec![], true, Ok(WaitEnd::Look)));
    let next = table.next_due().expect("a look");
    assert!((at(1_200)..=at(1_450)).contains(&next), "{next:?}");
    let _nearer = depart(&mut table, 3, 0, 210);
    assert_eq!(table.next_named_lock(at(210)), NextNamedLock { ticket: Some(ticket(3)), changes_at: None });
}

#[test]
fn a_named_lock_that_stays_taken_keeps_no_wait_from_a_look_each_second() {
    let mut table = table_with_named_locks();
    let mut near = depart(&mut table, 1, 0, 0);
    for looked_at in [1_100, 2_400, 3_700] {
        assert_eq!(table.take_due(at(looked_at - 1_000)), []);
        let next = table.next_due().expect("a look");
        assert!(next <= at(looked_at + 250), "{next:?}");
        assert_eq!(table.take_due(next.max(at(looked_at))), [ticket(1)]);
        assert!(near.try_recv().is_err());
    }
}

#[test]
fn the_named_lock_of_the_one_ahead_in_a_queue_is_next_though_it_was_seen_farther_off_before() {
    let mut table = table_with_named_locks();
    let queue = || "door".parse().expect("a name");
    let mut depart = |bits, nearness, token| {
        let (tell, end) = oneshot::channel();
        table.depart(ticket(bits), nearness, Some((queue(), token)), at(0), tell);
        end
    };
    let token = |grant| FencingToken::new(grant, 0).expect("a token");
    let _waits = [depart(1, 90, token(5)), depart(2, 50, token(9)), depart(3, 49, token(7))];
    assert_eq!(table.next_named_lock(at(60)).ticket, Some(ticket(1)));
}

#[test]
fn of_the_waits_of_one_queue_the_first_is_looked_at_and_the_next_when_that_one_is_over() {
    let mut table = table(WakeState::Looks);
    let line = |token| Some(("door".parse().expect("a name"), FencingToken::new(token, 0).expect("a token")));
    let mut depart = |bits, nearness, token| {
        let (tell, end) = oneshot::channel();
        let number = table.depart(ticket(bits), nearness, line(token), at(0), tell);
        (number, end)
    };
    let [mut first, mut second, mut third] = [depart(1, 2, 3), depart(2, 4, 5), depart(3, 6, 7)];
    assert!(table.take_due(at(900)).is_empty());
    assert_eq!(
        (first.1.try_recv(), second.1.try_recv().is_err(), third.1.try_recv().is_err()),
        (Ok(WaitEnd::Look), true, true)
    );
    assert!(table.next_due() > Some(at(4_800)));
    table.forget(Some(ticket(2)), second.0, at(1_000));
    assert_eq!(table.next_due(), Some(at(1_000)));
    assert!(table.take_due(at(1_000)).is_empty());
    assert_eq!(third.1.try_recv(), Ok(WaitEnd::Look));
}

/// Before, each of a thousand waits of one session asked the server for its place every few seconds, and the first of
/// them waited behind all these looks.
#[test]
fn while_the_first_wait_of_a_queue_goes_on_those_behind_it_are_not_looked_at() {
    let mut table = table(WakeState::Looks);
    let line = |token| Some(("door".parse().expect("a name"), FencingToken::new(token, 0).expect("a token")));
    let depart = |table: &mut WaitTable, number: u64, milliseconds| {
        let (tell, end) = oneshot::channel();
        let nearness = usize::try_from(number).expect("a small number");
        table.depart(ticket(number.into()), nearness, line(number), at(milliseconds), tell);
        end
    };
    let mut first = depart(&mut table, 1, 0);
    let mut behind: Vec<_> = (2..=100).map(|number| depart(&mut table, number, 0)).collect();
    let mut looks = 0;
    for milliseconds in (0..60_000).step_by(10) {
        assert!(table.take_due(at(milliseconds)).is_empty());
        if first.try_recv() == Ok(WaitEnd::Look) {
            looks += 1;
            first = depart(&mut table, 1, milliseconds);
        }
        assert!(behind.iter_mut().all(|wait| wait.try_recv().is_err()), "after {milliseconds} ms");
    }
    assert!(looks > 100, "{looks}");
}
