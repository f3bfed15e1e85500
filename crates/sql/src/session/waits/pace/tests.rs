//! When a session rests that is far from its turn.

use super::*;

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::from_nanos(milliseconds * 1_000_000)
}

fn line(queue: &str, token: u64) -> Line {
    (queue.parse().expect("a name"), lockkeeper_core::FencingToken::new(token, 0).expect("a token"))
}

/// A queue where each turn took this long, as two counts of the wait with the first token show it.
fn pace(turn_ms: u64) -> Pace {
    let mut pace = Pace::default();
    pace.count(&line("door", 1));
    pace.counted(100, at(0));
    pace.counted(90, at(10 * turn_ms));
    pace
}

#[test]
fn nothing_rests_before_it_is_known_how_quickly_turns_come_nor_where_they_come_slowly() {
    assert_eq!(Pace::default().far(at(0)), None);
    assert_eq!(pace(31).far(at(310)), None);
    assert_eq!(pace(30).far(at(300)), Some(FAR));
    // Of a millisecond each: fewer would not be worth the statements.
    assert_eq!(pace(1).far(at(10)), Some(NEAR + 69));
    assert!(pace(0).far(at(0)).is_some_and(|far| far > COUNTED_MAX), "no count says so many");
}

#[test]
fn a_session_rests_for_seven_eighths_of_the_time_until_it_is_near_and_for_a_second_at_most() {
    let mut pace = pace(10);
    assert_eq!(pace.counted(NEAR + 80, at(140)), Rest { until: at(840), is_near_then: true });
    let mut pace = self::pace(10);
    assert_eq!(pace.counted(NEAR + 160, at(100)), Rest { until: at(1_100), is_near_then: false });
    assert_eq!(pace.counted(NEAR, at(100)).until, at(100));
}

#[test]
fn of_two_measures_the_quicker_one_counts_and_each_holds_for_ten_seconds() {
    let mut pace = pace(10);
    // The next wait: it was 50 behind, and had its turn after 51 * 40 ms.
    pace.count(&line("door", 2));
    pace.counted(50, at(1_000));
    pace.ended(&line("door", 2), at(1_000 + 51 * 40));
    pace.count(&line("door", 3));
    assert_eq!(pace.turn(at(4_000)), Some(Duration::from_millis(10)));
    assert_eq!(pace.turn(at(100 + 10_001)), Some(Duration::from_millis(40)));
    assert_eq!(pace.far(at(100 + 10_001)), None);
    pace.counted(50, at(11_000));
    pace.counted(45, at(11_100));
    assert_eq!(pace.far(at(11_100)), Some(FAR));
}

#[test]
fn a_count_at_its_limit_and_one_of_another_queue_measure_nothing() {
    let mut pace = Pace::default();
    pace.count(&line("door", 1));
    pace.counted(COUNTED_MAX, at(0));
    pace.counted(COUNTED_MAX - 1, at(100));
    assert_eq!(pace.turn(at(100)), None, "it is not known how many departed");
    let mut pace = self::pace(10);
    assert!(pace.has_counted(&line("door", 1)) && !pace.has_counted(&line("door", 2)));
    pace.count(&line("gate", 1));
    assert_eq!(pace.turn(at(100)), None);
}
