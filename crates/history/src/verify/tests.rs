//! Histories with one broken promise each, and without any.

use super::*;

const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(1);

/// Reads lines such as `m1 p1 5000 granted mutex 7`: the machine, the process, the time in milliseconds, the event.
fn judge(text: &str) -> Verified {
    verify(text.split(", ").map(line), CLOCKS_DIFFER_MAX)
}

fn line(text: &str) -> HistoryLine {
    let words: Vec<&str> = text.split(' ').collect();
    let [machine, process, at_ms, event @ ..] = words.as_slice() else { panic!("{text:?}") };
    let at_ms: u64 = at_ms.parse().unwrap();
    let event = match event {
        ["granted", mode, token] => LineEvent::Granted { mode: (*mode).to_owned(), token: (*token).to_owned() },
        ["released", token] => LineEvent::Released { token: (*token).to_owned() },
        ["lost", token, late_ms] => LineEvent::Lost {
            token: (*token).to_owned(),
            reason: "lapsed".to_owned(),
            late_ns: late_ms.parse::<u64>().unwrap() * 1_000_000,
        },
        _ => panic!("{text:?}"),
    };
    HistoryLine {
        boot: (*machine).to_owned(),
        process: format!("{machine}:{process}"),
        at_ns: at_ms * 1_000_000,
        unix_ms: 1_800_000_000_000 + at_ms,
        lock: "door".to_owned(),
        event,
    }
}

/// The names of the promises that are broken.
fn broken(text: &str) -> Vec<String> {
    judge(text).broken.iter().map(|broken| broken.to_string().split(": ").nth(1).unwrap().to_owned()).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn holds_one_after_the_other_with_growing_tokens_are_right() {
    let verified = judge(
        "m1 p1 10 granted mutex 7, m1 p1 20 released 7, m1 p2 21 granted mutex 8, m1 p2 40 released 8, \
         m2 p1 41 granted mutex 9",
    );
    assert_eq!(verified, Verified { locks: 1, grants: 3, unended: 1, broken: Vec::new() });
}

#[test]
fn two_holders_on_one_machine_are_found_however_short_the_overlap_is() {
    let both = "m1 p1 10 granted mutex 7, m1 p2 19 granted mutex 8, m1 p1 20 released 7, m1 p2 40 released 8";
    assert_eq!(broken(both), ["held by two for 1ms"]);
}

#[test]
fn two_holders_on_two_machines_are_found_where_their_clocks_do_not_explain_it() {
    let both = |until: u64| {
        format!("m1 p1 10 granted mutex 7, m2 p2 500 granted mutex 8, m1 p1 {until} released 7, m2 p2 9000 released 8")
    };
    assert_eq!(broken(&both(1_500)), NONE);
    assert_eq!(broken(&both(1_700)), ["held by two for 200ms"]);
}

#[test]
fn a_holder_that_stood_still_and_is_told_late_held_no_longer_than_it_believed() {
    let told = |late_ms: u64| {
        format!(
            "m1 p1 0 granted mutex 7, m1 p2 5000 granted mutex 8, m1 p1 9000 lost 7 {late_ms}, m1 p1 9001 released 7"
        )
    };
    assert_eq!(broken(&told(4_500)), NONE);
    assert_eq!(broken(&told(3_500)), ["held by two for 500ms"]);
}

#[test]
fn readers_share_and_a_writer_among_them_is_found() {
    let readers = "m1 p1 10 granted read 7, m1 p2 11 granted read 8";
    let rest = "m1 p1 30 released 7, m1 p2 31 released 8";
    assert_eq!(broken(&format!("{readers}, {rest}")), NONE);
    let found = broken(&format!("{readers}, m1 p3 12 granted write 9, {rest}, m1 p3 40 released 9"));
    assert_eq!(found, ["held by two for 18ms", "held by two for 19ms"]);
}

#[test]
fn a_downgrade_is_one_hold_of_one_process() {
    let downgraded = "m1 p1 10 granted write 7, m1 p1 20 granted read 7, m1 p1 21 released 7, m1 p1 30 released 7";
    assert_eq!(broken(downgraded), NONE);
    let beside = format!("{downgraded}, m1 p2 22 granted read 8, m1 p2 40 released 8");
    assert_eq!(broken(&beside), NONE);
    let writer = format!("{downgraded}, m1 p2 22 granted write 8, m1 p2 40 released 8");
    assert_eq!(broken(&writer), ["held by two for 8ms"]);
}

#[test]
fn permits_are_held_at_the_same_time_and_none_has_the_token_of_another() {
    let held = "m1 p1 10 granted permit 7, m1 p2 11 granted permit 8, m1 p1 20 released 7, m1 p2 21 released 8";
    assert_eq!(broken(held), NONE);
    assert_eq!(broken(&held.replace('8', "7")), ["one token for two grants"]);
}

#[test]
fn a_token_that_comes_twice_or_falls_is_found() {
    let next = |machine: &str, at_ms: u64, token: u64| {
        broken(&format!("m1 p1 10 granted mutex 7, m1 p1 20 released 7, {machine} p2 {at_ms} granted mutex {token}"))
    };
    assert_eq!(next("m1", 21, 8), NONE);
    assert_eq!(next("m1", 21, 6), ["a token that fell"]);
    assert_eq!(next("m1", 21, 7), ["one token for two grants"]);
    let again = "m1 p1 10 granted mutex 7, m1 p1 20 released 7, m1 p1 21 granted mutex 7";
    assert_eq!(broken(again), ["one token for two grants"]);
    // Its machine's clock may be behind by as much.
    assert_eq!(next("m2", 900, 6), NONE);
    assert_eq!(next("m2", 1_900, 6), ["a token that fell"]);
}

#[test]
fn a_hold_without_an_end_is_judged_by_its_token_alone() {
    let killed = "m1 p1 10 granted mutex 7, m1 p2 5000 granted mutex 8, m1 p2 6000 released 8";
    assert_eq!((broken(killed), judge(killed).unended), (Vec::new(), 1));
}

#[test]
fn ends_of_holds_from_before_the_history_and_tokens_that_are_none_are_passed_over() {
    assert_eq!(judge("m1 p1 10 released 6, m1 p1 11 granted mutex none").grants, 0);
}
