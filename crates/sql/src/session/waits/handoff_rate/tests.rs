//! When a session rests that is far from its turn.

use super::*;

fn at(milliseconds: u64) -> BootInstant {
    BootInstant::from_nanos(milliseconds * 1_000_000)
}

fn line(queue: &str, token: u64) -> WaitLine {
    (queue.parse().expect("a name"), FencingToken::new(token, 0).expect("a token"))
}

/// A queue where each turn took this long, as two counts of the wait with the first token show it.
fn handoff_rate(turn_ms: u64) -> HandoffRate {
    let mut handoff_rate = HandoffRate::default();
    handoff_rate.count(&line("door", 1));
    handoff_rate.counted(100, at(0));
    handoff_rate.counted(90, at(10 * turn_ms));
    handoff_rate
}

#[test]
fn nothing_rests_before_it_is_known_how_quickly_turns_come_nor_where_they_come_slowly() {
    assert_eq!(HandoffRate::default().far(at(0)), None);
    assert_eq!(handoff_rate(31).far(at(310)), None);
    assert_eq!(handoff_rate(30).far(at(300)), Some(FAR));
    // Of a millisecond each: fewer would not be worth the statements.
    assert_eq!(handoff_rate(1).far(at(10)), Some(NEAR + 69));
    assert!(handoff_rate(0).far(at(0)).is_some_and(|far| far > COUNTED_MAX), "no count says so many");
}

#[test]
fn a_session_rests_for_seven_eighths_of_the_time_until_it_is_near_and_for_a_second_at_most() {
    let mut handoff_rate = handoff_rate(10);
    assert_eq!(handoff_rate.counted(NEAR + 80, at(140)), ListenPause { until: at(840), is_near_then: true });
    let mut handoff_rate = self::handoff_rate(10);
    assert_eq!(handoff_rate.counted(NEAR + 160, at(100)), ListenPause { until: at(1_100), is_near_then: false });
    assert_eq!(handoff_rate.counted(NEAR, at(100)).until, at(100));
}

#[test]
fn of_two_measures_the_quicker_one_counts_and_each_holds_for_ten_seconds() {
    let mut handoff_rate = handoff_rate(10);
    // The next wait: it was 50 behind, and had its turn after 51 * 40 ms.
    handoff_rate.count(&line("door", 2));
    handoff_rate.counted(50, at(1_000));
    handoff_rate.ended(&line("door", 2), at(1_000 + 51 * 40));
    handoff_rate.count(&line("door", 3));
    assert_eq!(handoff_rate.turn(at(4_000)), Some(Duration::from_millis(10)));
    assert_eq!(handoff_rate.turn(at(100 + 10_001)), Some(Duration::from_millis(40)));
    assert_eq!(handoff_rate.far(at(100 + 10_001)), None);
    handoff_rate.counted(50, at(11_000));
    handoff_rate.counted(45, at(11_100));
    assert_eq!(handoff_rate.far(at(11_100)), Some(FAR));
}

#[test]
fn a_count_at_its_limit_and_one_of_another_queue_measure_nothing() {
    let mut handoff_rate = HandoffRate::default();
    handoff_rate.count(&line("door", 1));
    handoff_rate.counted(COUNTED_MAX, at(0));
    handoff_rate.counted(COUNTED_MAX - 1, at(100));
    assert_eq!(handoff_rate.turn(at(100)), None, "it is not known how many departed");
    let mut handoff_rate = self::handoff_rate(10);
    assert!(handoff_rate.has_counted(&line("door", 1)) && !handoff_rate.has_counted(&line("door", 2)));
    handoff_rate.count(&line("gate", 1));
    assert_eq!(handoff_rate.turn(at(100)), None);
}
