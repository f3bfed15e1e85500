//! Tests of one table's word on waits, without keepers.

use lockkeeper_core::{Flow, FlowKind, QueueName};

use crate::deadlock::search::{BlockedBy, CircleLink, circle, in_words};
use crate::deadlock::table::{KeyId, KeyTable, TableEntry, WaitPlace, WaitStage, Want};

/// As many as a search looks at, and one more.
const MANY: usize = 10_001;

pub(super) fn key(number: u64) -> KeyId {
    KeyId { number, flow: Flow::new(FlowKind::OwnerKey, number).unwrap() }
}

pub(super) fn name(lock: &str) -> QueueName {
    QueueName::new(lock).unwrap()
}

pub(super) fn holds(table: &mut KeyTable, of: u64, lock: &str, want: Want) -> usize {
    table.add(TableEntry { key: key(of), lock: name(lock), want, stage: WaitStage::Holds(Box::new(|| true)) })
}

pub(super) fn waits(table: &mut KeyTable, of: u64, lock: &str, want: Want, place: u64) -> usize {
    let stage = WaitStage::Waits(Some(WaitPlace { number: place, stands: Box::new(|| true) }));
    table.add(TableEntry { key: key(of), lock: name(lock), want, stage })
}

const fn permits(wanted: u32, of: u32) -> Want {
    Want::Permits { wanted, of: Some(of) }
}

fn link(waiter: u64, lock: &str, ahead: u64, by: BlockedBy) -> CircleLink {
    CircleLink { waiter: key(waiter), lock: name(lock), ahead: key(ahead), by }
}

#[test]
fn who_only_stands_behind_a_circle_is_not_refused() {
    let mut table = KeyTable::default();
    for of in 1..=3 {
        holds(&mut table, of, &format!("lock-{of}"), Want::Alone);
    }
    // Two tasks of one key each: no call was judged when the holds came.
    waits(&mut table, 1, "lock-2", Want::Alone, 10);
    waits(&mut table, 2, "lock-1", Want::Alone, 11);
    let behind = waits(&mut table, 3, "lock-1", Want::Alone, 12);
    assert_eq!(circle(&table, behind), None);
}

#[test]
fn one_of_several_permits_is_refused_only_if_all_that_could_come_are_stuck() {
    let mut table = KeyTable::default();
    holds(&mut table, 1, "door", Want::Alone);
    let permit = holds(&mut table, 2, "gate", permits(1, 2));
    waits(&mut table, 2, "door", Want::Alone, 10);
    // Another process, or a task without a key, has the other permit, and may give it back.
    let asker = waits(&mut table, 1, "gate", permits(1, 2), 11);
    assert_eq!(circle(&table, asker), None);
    holds(&mut table, 3, "gate", permits(1, 2));
    assert_eq!(circle(&table, asker), None, "k3 goes on");
    waits(&mut table, 3, "door", Want::Alone, 12);
    let found = circle(&table, asker).unwrap();
    assert_eq!(found, [link(1, "gate", 2, BlockedBy::Permits), link(2, "door", 1, BlockedBy::Hold)]);
    assert!(in_words(&found).contains("waits for gate, of which owner key k2 has a permit"), "{}", in_words(&found));
    // Lost with its session.
    drop(table.remove(permit));
    assert_eq!(circle(&table, asker), None);
    let both = waits(&mut table, 1, "gate", permits(2, 2), 13);
    assert!(circle(&table, both).is_none(), "a key with another wait that may end goes on");
    drop(table.remove(asker));
    assert!(circle(&table, both).is_some(), "k3 keeps one of both");
}

#[test]
fn a_key_that_has_all_permits_and_wants_another_one_waits_for_itself() {
    let mut table = KeyTable::default();
    for _ in 0..2 {
        holds(&mut table, 1, "gate", permits(1, 2));
    }
    let asker = waits(&mut table, 1, "gate", permits(1, 2), 10);
    assert_eq!(circle(&table, asker).unwrap(), [link(1, "gate", 1, BlockedBy::Permits)]);
    drop(table.remove(asker));
    let counted = waits(&mut table, 1, "gate", Want::Permits { wanted: 1, of: None }, 11);
    assert_eq!(circle(&table, counted), None, "a counter may be raised");
}

#[test]
fn a_reader_behind_a_writer_that_waits_for_readers_is_part_of_a_circle_whoever_notes_it_last() {
    for writer_is_last in [false, true] {
        let mut table = KeyTable::default();
        holds(&mut table, 1, "book", Want::Share);
        holds(&mut table, 2, "door", Want::Alone);
        waits(&mut table, 1, "door", Want::Alone, 5);
        let (mut reader, mut writer) = (None, None);
        for is_writer in [!writer_is_last, writer_is_last] {
            if is_writer {
                writer = Some(waits(&mut table, 3, "book", Want::Alone, 10));
            } else {
                reader = Some(waits(&mut table, 2, "book", Want::Share, 11));
            }
        }
        let last = if writer_is_last { writer } else { reader }.unwrap();
        let found = circle(&table, last).unwrap();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.contains(&link(2, "book", 3, BlockedBy::Place)), "{found:?}");
        drop(table.remove(last));
    }
    // Ahead of the writer it shares.
    let mut table = KeyTable::default();
    holds(&mut table, 1, "book", Want::Share);
    holds(&mut table, 2, "door", Want::Alone);
    waits(&mut table, 1, "door", Want::Alone, 5);
    waits(&mut table, 3, "book", Want::Alone, 10);
    let reader = waits(&mut table, 2, "book", Want::Share, 9);
    assert_eq!(circle(&table, reader), None);
}

#[test]
fn a_long_circle_is_found_and_its_words_are_bounded_and_one_that_is_too_long_is_left_alone() {
    let mut table = KeyTable::default();
    let ring = |table: &mut KeyTable, length: u64| {
        for of in 1..=length {
            holds(table, of, &format!("lock-{of}"), Want::Alone);
        }
        let mut last = None;
        for of in 1..=length {
            last = Some(waits(table, of, &format!("lock-{}", of % length + 1), Want::Alone, of));
        }
        last
    };
    let last = ring(&mut table, 1_000).unwrap();
    let found = circle(&table, last).unwrap();
    assert_eq!(found.len(), 1_000);
    let words = in_words(&found);
    assert!(words.ends_with("; and 992 more") && words.len() < 1_000, "{words}");
    let mut table = KeyTable::default();
    let last = ring(&mut table, MANY as u64).unwrap();
    assert_eq!(circle(&table, last), None);
}
