//! Histories with one fault each, and without any.

use super::*;

const LIMITS: Limits = Limits { hand_off_max: Duration::from_secs(1), permits: 3 };

/// One record a millisecond.
fn history(whats: &[What]) -> Vec<Record> {
    let at = |position: usize| BootInstant::from_nanos(position as u64 * 1_000_000);
    let record = |(position, what): (usize, &What)| Record { at: at(position), what: what.clone() };
    whats.iter().enumerate().map(record).collect()
}

fn calling(attempt: u32) -> What {
    asking(attempt, Asks::Alone)
}

fn asking(attempt: u32, asks: Asks) -> What {
    What::Calling { attempt, keeper: attempt, asks }
}

fn joined(attempt: u32) -> What {
    What::Joined { attempt }
}

fn granted(attempt: u32, token: u64) -> What {
    let token = FencingToken::new(token, 0).unwrap();
    What::Granted { attempt, token, held: true }
}

fn releasing(attempt: u32) -> What {
    What::Releasing { attempt }
}

const DRAINED: What = What::Drained { left: 0 };

#[test]
fn a_history_of_turns_taken_in_order_is_right() {
    let records = history(&[
        calling(1),
        joined(1),
        granted(1, 10),
        calling(2),
        joined(2),
        calling(3),
        joined(3),
        What::GaveUp { attempt: 3 },
        releasing(1),
        granted(2, 11),
        releasing(2),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn two_holders_at_once_are_found() {
    let records =
        history(&[calling(1), calling(2), granted(1, 10), granted(2, 11), releasing(1), releasing(2), DRAINED]);
    assert_eq!(check(&records, LIMITS), [Violation::TwoHolders { holder: 1, second: 2 }]);
}

#[test]
fn an_overtaken_contender_is_found() {
    let records = history(&[
        calling(1),
        joined(1),
        calling(2),
        joined(2),
        granted(2, 10),
        releasing(2),
        granted(1, 11),
        releasing(1),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), [Violation::OutOfOrder { overtaken: 1, by: 2 }]);
}

#[test]
fn contenders_that_asked_at_the_same_time_may_be_served_in_any_order() {
    let records = history(&[
        calling(1),
        calling(2),
        joined(1),
        joined(2),
        granted(2, 10),
        releasing(2),
        granted(1, 11),
        releasing(1),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn one_who_joined_again_is_not_overtaken_by_those_who_came_between() {
    let records = history(&[
        calling(1),
        joined(1),
        What::Upset { keeper: 1 },
        What::Settled { keeper: 1 },
        calling(2),
        joined(2),
        joined(1),
        granted(2, 10),
        releasing(2),
        granted(1, 11),
        releasing(1),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let records =
        history(&[calling(1), granted(1, 10), releasing(1), calling(2), granted(2, 10), releasing(2), DRAINED]);
    let token = FencingToken::new(10, 0).unwrap();
    let expected = Violation::TokenNotGrowing { attempt: 2, token, before: token };
    assert_eq!(check(&records, LIMITS), [expected]);
}

#[test]
fn a_lost_wake_up_is_found() {
    let records = history(&[calling(1), granted(1, 10), calling(2), joined(2), releasing(1), DRAINED]);
    assert_eq!(check(&records, LIMITS), [Violation::NeverGranted { attempt: 2 }]);
}

#[test]
fn a_late_wake_up_is_found_and_a_long_hold_is_none() {
    let mut records = history(&[
        calling(1),
        granted(1, 10),
        calling(2),
        joined(2),
        releasing(1),
        granted(2, 11),
        releasing(2),
        DRAINED,
    ]);
    let shift = |records: &mut [Record]| {
        for record in records {
            record.at = record.at.saturating_add(Duration::from_secs(3));
        }
    };
    shift(&mut records[4..]);
    assert_eq!(check(&records, LIMITS), []);
    shift(&mut records[5..]);
    let free_for = Duration::from_millis(3_001);
    assert_eq!(check(&records, LIMITS), [Violation::SlowHandOff { attempt: 2, free_for }]);
    let failed = What::Retrying { attempt: 2, error: "the connection ended".to_owned() };
    records.insert(5, Record { at: records[4].at, what: failed });
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn orphans_and_a_holder_that_never_released_are_found() {
    let records = history(&[calling(1), granted(1, 10), What::Drained { left: 2 }]);
    let expected = [Violation::Orphans { left: 2 }, Violation::NeverReleased { attempt: 1 }];
    assert_eq!(check(&records, LIMITS), expected);
}

#[test]
fn a_history_that_stops_before_its_end_is_not_taken_for_a_right_one() {
    assert_eq!(check(&[], LIMITS), [Violation::NotDrained]);
}

#[test]
fn a_hold_whose_session_is_being_ended_is_not_relied_on() {
    let records = history(&[
        calling(1),
        granted(1, 10),
        calling(2),
        What::Upset { keeper: 1 },
        granted(2, 11),
        What::Settled { keeper: 1 },
        releasing(1),
        releasing(2),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn records_that_cannot_be_are_found() {
    let records = history(&[releasing(1), granted(2, 3), calling(3), calling(3), What::GaveUp { attempt: 3 }, DRAINED]);
    let malformed = [1, 2, 3].map(|attempt| Violation::Malformed { attempt });
    assert_eq!(check(&records, LIMITS), malformed);
}

#[test]
fn readers_may_share_and_in_any_order_but_not_with_a_writer() {
    let shared = history(&[
        asking(1, Asks::Share),
        asking(2, Asks::Share),
        joined(1),
        joined(2),
        asking(3, Asks::Share),
        joined(3),
        granted(3, 12),
        granted(2, 11),
        granted(1, 10),
        releasing(2),
        releasing(1),
        releasing(3),
        DRAINED,
    ]);
    assert_eq!(check(&shared, LIMITS), []);
    for (first, second) in [(Asks::Alone, Asks::Share), (Asks::Share, Asks::Alone)] {
        let records = history(&[
            asking(1, first),
            asking(2, second),
            granted(1, 10),
            granted(2, 11),
            releasing(1),
            releasing(2),
            DRAINED,
        ]);
        assert_eq!(check(&records, LIMITS), [Violation::TwoHolders { holder: 1, second: 2 }]);
    }
}

#[test]
fn a_writer_beside_any_of_many_readers_is_found() {
    let records = history(&[
        asking(1, Asks::Share),
        granted(1, 10),
        asking(2, Asks::Share),
        granted(2, 11),
        releasing(2),
        asking(3, Asks::Alone),
        granted(3, 12),
        releasing(1),
        releasing(3),
        DRAINED,
    ]);
    assert_eq!(check(&records, LIMITS), [Violation::TwoHolders { holder: 1, second: 3 }]);
}

#[test]
fn a_waiting_writer_that_a_reader_passed_is_found_and_a_reader_that_a_reader_passed_is_none() {
    let records = history(&[
        asking(1, Asks::Alone),
        joined(1),
        asking(2, Asks::Share),
        joined(2),
        asking(3, Asks::Share),
        joined(3),
        granted(3, 12),
        granted(2, 11),
        releasing(2),
        releasing(3),
        granted(1, 10),
        releasing(1),
        DRAINED,
    ]);
    let overtaken = |by| Violation::OutOfOrder { overtaken: 1, by };
    let token = |grant| FencingToken::new(grant, 0).unwrap();
    let stale = Violation::TokenNotGrowing { attempt: 1, token: token(10), before: token(12) };
    assert_eq!(check(&records, LIMITS), [stale, overtaken(2), overtaken(3)]);
}

#[test]
fn permits_may_be_held_up_to_their_number_and_one_more_is_found() {
    let taking = |second| {
        history(&[
            asking(1, Asks::Permits(2)),
            granted(1, 10),
            asking(2, Asks::Permits(second)),
            granted(2, 12),
            releasing(1),
            asking(3, Asks::Permits(1)),
            granted(3, 14),
            releasing(2),
            releasing(3),
            DRAINED,
        ])
    };
    assert_eq!(check(&taking(1), LIMITS), []);
    assert_eq!(check(&taking(2), LIMITS), [Violation::TooManyPermits { attempt: 2, held: 4 }]);
}

#[test]
fn permits_are_granted_in_the_order_of_their_tokens_in_any_order_of_the_records() {
    let told_late = |first, second| {
        history(&[
            asking(1, Asks::Permits(1)),
            joined(1),
            asking(2, Asks::Permits(1)),
            joined(2),
            granted(2, second),
            granted(1, first),
            releasing(1),
            releasing(2),
            DRAINED,
        ])
    };
    assert_eq!(check(&told_late(10, 11), LIMITS), []);
    assert_eq!(check(&told_late(11, 10), LIMITS), [Violation::OutOfOrder { overtaken: 1, by: 2 }]);
    let twice = Violation::TokenNotGrowing { attempt: 1, token: token(10), before: token(10) };
    assert_eq!(check(&told_late(10, 10), LIMITS)[..1], [twice]);
}

fn token(grant: u64) -> FencingToken {
    FencingToken::new(grant, 0).unwrap()
}
