//! Histories with one fault each, and without any.

use super::*;

const LIMITS: Limits = Limits { hand_off_max: Duration::from_secs(1), permits: 3, passes_turns: false };

/// Reads what happened, at one record a millisecond: `call 1`, `read 1` or `want 1 2` (permits), `join 1`, `get 1 10`
/// (a token), `held 1`, `lost 1`, `release 1`, `give-up 1`, `upset 1`, `settle 1`, `stop 1` and
/// `go-on 1` (a keeper), /// `data-lost 20` (the next token), `drain 0` (are left).
fn history(text: &str) -> Vec<HistoryRecord> {
    let record = |(position, text): (u64, &str)| HistoryRecord {
        at: BootInstant::from_nanos(position * 1_000_000),
        what: what(text),
    };
    (0..).zip(text.split(", ")).map(record).collect()
}

fn what(text: &str) -> What {
    let mut words = text.split(' ');
    let verb = words.next().unwrap();
    let mut number = || words.next().unwrap().parse::<u32>().unwrap();
    let attempt = number();
    let asking = |asks| What::Calling { attempt, keeper: attempt, asks };
    match verb {
        "call" => asking(Asks::Alone),
        "read" => asking(Asks::Share),
        "want" => What::Calling { attempt, keeper: attempt, asks: Asks::Permits(number()) },
        "join" => What::Joined { attempt },
        "get" => What::Granted { attempt, token: token(number().into()), held: true },
        "held" => What::Held { attempt },
        "lost" => What::Lost { attempt },
        "stop" => What::Stopped { keeper: attempt },
        "go-on" => What::GoesOn { keeper: attempt },
        "data-lost" => What::DataLost { tokens_from: token(attempt.into()) },
        "release" => What::Releasing { attempt },
        "give-up" => What::GaveUp { attempt },
        "upset" => What::Upset { keeper: attempt },
        "settle" => What::Settled { keeper: attempt },
        "drain" => What::Drained { left: attempt as usize },
        _ => panic!("{text:?}"),
    }
}

fn token(grant: u64) -> FencingToken {
    FencingToken::new(grant, 0).unwrap()
}

fn assert_finds<const N: usize>(text: &str, expected: [Violation; N]) {
    assert_eq!(check(&history(text), LIMITS), expected, "{text}");
}

#[test]
fn a_history_of_turns_taken_in_order_is_right() {
    let served =
        "call 1, join 1, get 1 10, call 2, join 2, call 3, join 3, give-up 3, release 1, get 2 11, release 2, drain 0";
    assert_finds(served, []);
}

#[test]
fn two_holders_at_once_are_found() {
    let both = "call 1, call 2, get 1 10, get 2 11, release 1, release 2, drain 0";
    assert_finds(both, [Violation::TwoHolders { holder: 1, second: 2 }]);
}

#[test]
fn an_overtaken_contender_is_found_unless_both_asked_at_the_same_time_or_it_joined_again() {
    let rest = "get 2 10, release 2, get 1 11, release 1, drain 0";
    let overtaken = Violation::OutOfOrder { overtaken: 1, by: 2 };
    assert_finds(&format!("call 1, join 1, call 2, join 2, {rest}"), [overtaken]);
    let passes_turns = Limits { passes_turns: true, ..LIMITS };
    assert_eq!(check(&history(&format!("call 1, join 1, call 2, join 2, {rest}")), passes_turns), []);
    assert_finds(&format!("call 1, call 2, join 1, join 2, {rest}"), []);
    assert_finds(&format!("call 1, join 1, upset 1, settle 1, call 2, join 2, join 1, {rest}"), []);
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let twice = "call 1, get 1 10, release 1, call 2, get 2 10, release 2, drain 0";
    assert_finds(twice, [Violation::TokenNotGrowing { attempt: 2, token: token(10), before: token(10) }]);
}

#[test]
fn a_lost_wake_up_is_found() {
    let waits = "call 1, get 1 10, call 2, join 2, release 1, drain 0";
    assert_finds(waits, [Violation::NeverGranted { attempt: 2 }]);
}

#[test]
fn a_late_wake_up_is_found_and_a_long_hold_is_none() {
    let mut records = history("call 1, get 1 10, call 2, join 2, release 1, get 2 11, release 2, drain 0");
    let shift = |records: &mut [HistoryRecord]| {
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
    records.insert(5, HistoryRecord { at: records[4].at, what: failed });
    assert_eq!(check(&records, LIMITS), []);
}

#[test]
fn orphans_and_a_holder_that_never_released_are_found() {
    let left = "call 1, get 1 10, drain 2";
    assert_finds(left, [Violation::Orphans { left: 2 }, Violation::NeverReleased { attempt: 1 }]);
}

#[test]
fn a_history_that_stops_before_its_end_is_not_taken_for_a_right_one() {
    assert_eq!(check(&[], LIMITS), [Violation::NotDrained]);
}

#[test]
fn a_hold_whose_session_is_being_ended_is_not_relied_on() {
    assert_finds("call 1, get 1 10, call 2, upset 1, get 2 11, settle 1, release 1, release 2, drain 0", []);
}

#[test]
fn records_that_cannot_be_are_found() {
    let malformed = [1, 2, 3].map(|attempt| Violation::Malformed { attempt });
    assert_finds("release 1, get 2 3, call 3, call 3, give-up 3, drain 0", malformed);
}

#[test]
fn readers_may_share_and_in_any_order_but_not_with_a_writer() {
    let granted = "get 3 12, get 2 11, get 1 10, release 2, release 1, release 3, drain 0";
    assert_finds(&format!("read 1, read 2, join 1, join 2, read 3, join 3, {granted}"), []);
    for asked in ["call 1, read 2", "read 1, call 2"] {
        let both = format!("{asked}, get 1 10, get 2 11, release 1, release 2, drain 0");
        assert_finds(&both, [Violation::TwoHolders { holder: 1, second: 2 }]);
    }
}

#[test]
fn a_writer_beside_any_of_many_readers_is_found() {
    let beside = "read 1, get 1 10, read 2, get 2 11, release 2, call 3, get 3 12, release 1, release 3, drain 0";
    assert_finds(beside, [Violation::TwoHolders { holder: 1, second: 3 }]);
}

#[test]
fn a_waiting_writer_that_a_reader_passed_is_found_and_a_reader_that_a_reader_passed_is_none() {
    let granted = "get 3 12, get 2 11, release 2, release 3, get 1 10, release 1, drain 0";
    let overtaken = |by| Violation::OutOfOrder { overtaken: 1, by };
    let stale = Violation::TokenNotGrowing { attempt: 1, token: token(10), before: token(12) };
    let passed = format!("call 1, join 1, read 2, join 2, read 3, join 3, {granted}");
    assert_finds(&passed, [stale, overtaken(2), overtaken(3)]);
}

#[test]
fn permits_may_be_held_up_to_their_number_and_one_more_is_found() {
    let rest = "get 2 12, release 1, want 3 1, get 3 14, release 2, release 3, drain 0";
    assert_finds(&format!("want 1 2, get 1 10, want 2 1, {rest}"), []);
    let too_many = Violation::TooManyPermits { attempt: 2, held: 4 };
    assert_finds(&format!("want 1 2, get 1 10, want 2 2, {rest}"), [too_many]);
}

#[test]
fn permits_are_granted_in_the_order_of_their_tokens_in_any_order_of_the_records() {
    let told_late = |first, second| {
        let granted = format!("get 2 {second}, get 1 {first}, release 1, release 2, drain 0");
        history(&format!("want 1 1, join 1, want 2 1, join 2, {granted}"))
    };
    assert_eq!(check(&told_late(10, 11), LIMITS), []);
    assert_eq!(check(&told_late(11, 10), LIMITS), [Violation::OutOfOrder { overtaken: 1, by: 2 }]);
    let twice = Violation::TokenNotGrowing { attempt: 1, token: token(10), before: token(10) };
    assert_eq!(check(&told_late(10, 10), LIMITS)[..1], [twice]);
}

#[test]
fn a_holder_that_stood_still_when_it_was_overtaken_breaks_no_rule_unless_it_still_believes() {
    let overtaken = |asks_itself: &str| {
        format!("call 1, get 1 10, held 1, stop 1, call 2, get 2 11, go-on 1, {asks_itself}, release 2, drain 0")
    };
    assert_finds(&overtaken("lost 1"), []);
    let both = Violation::TwoHolders { holder: 1, second: 2 };
    assert_finds(&overtaken("held 1, lost 1"), [both.clone()]);
    assert_finds(&overtaken("release 1"), [both.clone()]);
    // The second one had given it back by then: it was not alone all the same.
    let given_back = "call 1, get 1 10, stop 1, call 2, get 2 11, release 2, go-on 1, held 1, lost 1, drain 0";
    assert_finds(given_back, [both]);
}

#[test]
fn permits_of_a_holder_that_was_overtaken_do_not_count_unless_it_still_believes() {
    let granted = "want 1 2, get 1 10, want 2 1, get 2 12, stop 1, want 3 2, get 3 14, go-on 1";
    assert_finds(&format!("{granted}, held 2, lost 1, release 2, release 3, drain 0"), []);
    let too_many = Violation::TooManyPermits { attempt: 3, held: 5 };
    assert_finds(&format!("{granted}, held 2, held 1, lost 1, release 2, release 3, drain 0"), [too_many]);
}

#[test]
fn a_holder_that_runs_and_is_told_after_the_next_grant_is_found() {
    let told = |before: &str, after: &str| {
        format!("call 1, get 1 10, call 2, join 2, {before}, get 2 11, {after}, release 2, drain 0")
    };
    assert_finds(&told("lost 1", "held 2"), []);
    let late = Violation::ToldLate { holder: 1, second: 2 };
    assert_finds(&told("held 1", "lost 1"), [late.clone()]);
    assert_finds(&told("stop 1", "lost 1, go-on 1"), []);
    assert_finds(&told("stop 2", "lost 1, go-on 2"), [late.clone()]);
    assert_finds(&told("stop 1, go-on 1", "lost 1"), [late]);
}

#[test]
fn what_was_granted_before_the_service_lost_its_data_is_not_relied_on_and_what_came_after_is() {
    let lost = |token, rest| format!("call 1, get 1 10, call 2, data-lost 20, get 2 {token}, held 1, {rest}, drain 0");
    assert_finds(&lost(21, "release 1, release 2"), []);
    assert_finds(&lost(11, "call 3, get 3 21, release 3, release 1, release 2"), []);
    let both = Violation::TwoHolders { holder: 2, second: 3 };
    assert_finds(&lost(21, "call 3, get 3 22, held 2, release 3, release 1, release 2"), [both]);
}

#[test]
fn a_look_at_a_hold_that_was_never_granted_or_has_ended_is_a_wrong_record() {
    let malformed = [1, 1, 1].map(|attempt| Violation::Malformed { attempt });
    assert_finds("call 1, held 1, get 1 10, release 1, held 1, lost 1, drain 0", malformed);
}
