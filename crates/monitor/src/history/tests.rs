//! Tests of the history: what it keeps of holds, queues and gaps, within which bound, and over a restart.

mod restart;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::follow::PassedBetween;
use lockkeeper::history::{HistoryLine, verify};
use lockkeeper::{ContenderId, ContenderInfo, FencingToken, Mode, Owner, QueueName, Revocation};

use super::hold::PastEnd;
use super::past::PastQuery;
use super::store::History;
use crate::alerts::{About, Alert, AlertFinding, AlertNews};
use crate::model::LockModel;
use crate::moment::TimePoint;
use crate::tests::scene::{moment as at, name as lock};

/// A contender of a host, whose token is its number.
fn contender(host: &str, number: u64) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(format!("c{number}")), Mode::Mutex);
    info.owner = Some(Owner::new(host, 4_711, "backup.sh"));
    info.token = FencingToken::new(number, 0);
    info
}

fn queue(members: &[(&str, u64)]) -> Vec<ContenderInfo> {
    members.iter().map(|&(host, number)| contender(host, number)).collect()
}

/// A contender's host, token, seconds of the beginning and the end, seconds of its wait, and its end.
type Told = (String, u64, [u64; 2], Option<u64>, PastEnd);

/// What is known of a lock.
fn past(model: &LockModel, name: &str, now: u64) -> Vec<Told> {
    let seconds = |unix: Duration| unix.as_secs() - 1_000_000;
    let past = model.past(name, Duration::ZERO, at(now));
    let shown = past.contenders.iter().map(|one| {
        let times = [seconds(one.from_unix), seconds(one.until_unix)];
        (one.host.to_owned(), one.token.unwrap().as_u64(), times, one.waited.map(|waited| waited.as_secs()), one.end)
    });
    shown.collect()
}

fn told(model: &mut LockModel, name: &str, members: &[(&str, u64)], now: u64) {
    model.see(&lock(name), queue(members), Some(at(now).boot), at(now));
}

fn started(name: &str, members: &[(&str, u64)], now: u64) -> LockModel {
    let mut model = LockModel::default();
    see_all(&mut model, name, members, now);
    model
}

/// A first look.
fn see_all(model: &mut LockModel, name: &str, members: &[(&str, u64)], now: u64) {
    model.see(&lock(name), queue(members), None, at(now));
    model.history_mut().see_again(at(now));
}

#[test]
fn each_hold_is_kept_with_its_holder_its_wait_and_how_it_ended() {
    let mut model = started("a", &[("web-1", 1)], 100);
    told(&mut model, "a", &[("web-1", 1), ("web-2", 2)], 110);
    told(&mut model, "a", &[("web-2", 2)], 130);
    let mut asked = queue(&[("web-2", 2)]);
    asked[0].revocation = Some(Revocation::new(Some("a deploy".to_owned()), None));
    model.see(&lock("a"), asked, Some(at(140).boot), at(140));
    told(&mut model, "a", &[("web-3", 3)], 150);
    model.lose(&lock("a"), &[ContenderId::new("c3")]);
    told(&mut model, "a", &[("web-4", 4)], 160);
    let expected = [
        ("web-4".to_owned(), 4, [160, 170], Some(0), PastEnd::Holds),
        ("web-3".to_owned(), 3, [150, 160], Some(0), PastEnd::Lost),
        ("web-2".to_owned(), 2, [130, 150], Some(20), PastEnd::Asked),
        ("web-1".to_owned(), 1, [100, 130], None, PastEnd::Left),
    ];
    assert_eq!(past(&model, "a", 170), expected);
    let known = model.past("a", Duration::ZERO, at(170));
    assert_eq!(
        known.marks.iter().map(|mark| (mark.host, mark.what)).collect::<Vec<_>>(),
        [("web-2", "asked: a deploy")]
    );
    let steps: Vec<_> = known.steps.iter().map(|step| (step.at_unix.as_secs() - 1_000_000, step.last)).collect();
    assert_eq!(steps, [(110, 1), (130, 0)]);
    assert_eq!(model.past("a", at(155).unix, at(170)).contenders.len(), 2, "since then two held it");
}

#[test]
fn a_wait_in_vain_is_kept_unless_it_was_only_a_try() {
    let mut model = started("a", &[("web-1", 1)], 100);
    told(&mut model, "a", &[("web-1", 1), ("web-2", 2), ("web-3", 3)], 110);
    told(&mut model, "a", &[("web-1", 1), ("web-3", 3)], 110);
    told(&mut model, "a", &[("web-1", 1)], 140);
    assert_eq!(past(&model, "a", 150)[1], ("web-3".to_owned(), 3, [140, 140], Some(30), PastEnd::GaveUp));
    assert_eq!(past(&model, "a", 150).len(), 2);
}

#[test]
fn who_was_never_seen_to_hold_but_had_its_turn_meanwhile_may_have_held() {
    let mut model = started("a", &[("web-1", 1)], 100);
    told(&mut model, "a", &[("web-1", 1), ("web-2", 2), ("web-3", 3), ("web-4", 4)], 110);
    told(&mut model, "a", &[("web-3", 3)], 111);
    let between = ("web-2".to_owned(), 2, [111, 111], Some(1), PastEnd::Between);
    assert!(past(&model, "a", 120).contains(&between), "{:?}", past(&model, "a", 120));
    let behind = past(&model, "a", 120).into_iter().find(|one| one.1 == 4);
    assert_eq!(behind.map(|one| one.4), Some(PastEnd::GaveUp), "one behind a contender that stays has not");
}

fn frozen(number: u64) -> ContenderInfo {
    let mut info = contender("web-1", number);
    (info.mode, info.frozen) = (Mode::Exclusive, Some("a move".to_owned()));
    info
}

/// From when until when a lock was frozen, as it is known.
fn freezes(model: &LockModel, since: u64, now: u64) -> Vec<[u64; 2]> {
    let past = model.past("a", at(since).unix, at(now));
    past.freezes.iter().map(|one| [one.from_unix, one.until_unix].map(|unix| unix.as_secs() - 1_000_000)).collect()
}

#[test]
fn a_lock_that_several_freeze_is_frozen_from_the_first_beginning_to_the_last_end() {
    let mut model = started("a", &[], 100);
    let mut seen = |freezers: &[u64], now: u64| {
        let queue = freezers.iter().copied().map(frozen).collect();
        model.see(&lock("a"), queue, Some(at(now).boot), at(now));
        freezes(&model, 90, now + 5)
    };
    assert_eq!(seen(&[1], 110), [[110, 115]]);
    assert_eq!(seen(&[1, 2], 120), [[110, 125]]);
    assert_eq!(seen(&[2], 130), [[110, 135]]);
    assert_eq!(seen(&[], 140), [[110, 140]]);
}

#[test]
fn a_freeze_is_known_from_its_beginning_to_its_end_or_until_now() {
    let mut model = started("a", &[], 100);
    model.see(&lock("a"), vec![frozen(1)], Some(at(110).boot), at(110));
    assert_eq!(freezes(&model, 90, 120), [[110, 120]]);
    assert_eq!(freezes(&model, 115, 120), [[115, 120]], "it began before");
    told(&mut model, "a", &[], 130);
    model.see(&lock("a"), vec![frozen(2)], Some(at(140).boot), at(140));
    told(&mut model, "a", &[("web-2", 3)], 150);
    assert_eq!(freezes(&model, 90, 160), [[110, 130], [140, 150]]);
    assert_eq!(freezes(&model, 120, 160), [[120, 130], [140, 150]]);
    assert_eq!(freezes(&model, 155, 160), [[0; 2]; 0]);
}

#[test]
fn an_alert_is_a_mark_of_each_of_its_locks_when_it_begins_and_when_it_is_over() {
    let mut model = started("a", &[("web-1", 1)], 100);
    let core = [("a", "c1"), ("b", "c2")].map(|(name, id)| (lock(name), ContenderId::new(id)));
    let alert = |about| Alert::new(about, AlertFinding::Said("x".to_owned()), at(100).unix);
    let deadlock = alert(About::Deadlock(core.into()));
    model.history_mut().note_alert(&AlertNews::Raised(deadlock.clone()), at(110));
    model.history_mut().note_alert(&AlertNews::Raised(alert(About::Waiters(lock("a")))), at(111));
    model.history_mut().note_alert(&AlertNews::Raised(alert(About::Unreachable)), at(112));
    model.history_mut().note_alert(&AlertNews::Ended(deadlock), at(120));
    let marks = |name: &str| -> Vec<String> {
        model.past(name, Duration::ZERO, at(130)).marks.iter().map(|mark| mark.what.to_owned()).collect()
    };
    assert_eq!(marks("a"), ["alert over: deadlock", "alert: waiters", "alert: deadlock"]);
    assert_eq!(marks("b"), ["alert over: deadlock", "alert: deadlock"]);
}

/// Takes in who came and went, and then the next state.
fn passed(model: &mut LockModel, told: &[ContenderInfo], more: u64, next: &[(&str, u64)], now: u64) {
    let mut between = PassedBetween::counted(more);
    told.iter().for_each(|info| between.add(info.clone()));
    let shared: Vec<_> = queue(next).into_iter().map(Arc::new).collect();
    model.pass(&lock("a"), between, &shared, at(now).boot, at(now));
    self::told(model, "a", next, now);
}

#[test]
fn who_came_and_went_between_two_states_is_kept_unless_it_stood_behind_one_that_stayed() {
    let mut model = started("a", &[("web-1", 1)], 100);
    passed(&mut model, &queue(&[("web-2", 2), ("web-3", 3)]), 0, &[], 101);
    passed(&mut model, &queue(&[("web-4", 4)]), 0, &[("web-5", 5)], 102);
    passed(&mut model, &queue(&[("web-6", 6)]), 0, &[("web-5", 5)], 103);
    // One that had gone before the first that stays came, and is told of late.
    passed(&mut model, &queue(&[("web-7", 4)]), 0, &[("web-5", 5)], 104);
    let tokens: Vec<_> = past(&model, "a", 110).into_iter().map(|(_, token, .., end)| (token, end)).collect();
    let between = [4, 4, 3, 2].map(|token| (token, PastEnd::Between));
    let expected = [&[(5, PastEnd::Holds)][..], &between[..2], &[(1, PastEnd::Left)], &between[2..]].concat();
    assert_eq!(tokens, expected);
}

#[test]
fn a_reader_that_came_and_went_has_held_beside_others_and_not_behind_a_writer() {
    let of = |mode, number| {
        let mut info = contender("web-1", number);
        info.mode = mode;
        info
    };
    for (ahead, has_held) in [(Mode::Read, true), (Mode::Write, false)] {
        let (mut model, stays) = (LockModel::default(), vec![Arc::new(of(ahead, 1))]);
        model.see(&lock("a"), stays.clone(), None, at(100));
        let mut between = PassedBetween::default();
        between.add(of(Mode::Read, 2));
        model.pass(&lock("a"), between, &stays, at(110).boot, at(110));
        assert_eq!(past(&model, "a", 120).iter().any(|one| one.1 == 2), has_held, "{ahead:?}");
    }
}

#[test]
fn those_of_which_nothing_else_is_known_are_counted_within_the_time_that_is_asked_for_and_over_a_restart() {
    let mut model = started("a", &[("web-1", 1)], 100);
    model.history_mut().keep("here".to_owned());
    for (more, now) in [(2, 110), (3, 110), (0, 115), (4, 120)] {
        passed(&mut model, &[], more, &[("web-1", 1)], now);
    }
    let missed = |model: &LockModel, since| model.past("a", since, at(130)).missed;
    assert_eq!([Duration::ZERO, at(115).unix].map(|since| missed(&model, since)), [9, 4]);
    let mut again = LockModel::default();
    assert_eq!(again.history_mut().load(&model.history_mut().take_unwritten(None).0), 0);
    assert_eq!(missed(&again, Duration::ZERO), 9);
}

#[test]
fn who_leaves_the_gate_of_a_semaphore_with_permits_has_not_waited_in_vain() {
    let mut model = LockModel::default();
    let of = |mode, number| {
        let mut info = contender("web-1", number);
        info.mode = mode;
        info
    };
    model.see(&lock("pool"), vec![of(Mode::Permit, 1)], None, at(100));
    model.see(&lock("pool"), vec![of(Mode::Permit, 1), of(Mode::Acquire, 2)], Some(at(110).boot), at(110));
    model.see(&lock("pool"), vec![of(Mode::Permit, 3)], Some(at(130).boot), at(130));
    let expected = [
        ("web-1".to_owned(), 3, [130, 140], None, PastEnd::Holds),
        ("web-1".to_owned(), 1, [100, 130], None, PastEnd::Left),
    ];
    assert_eq!(past(&model, "pool", 140), expected);
}

#[test]
fn permits_have_waited_since_their_contender_stood_at_the_gate() {
    let mut model = LockModel::default();
    let of = |mode, number, session: &str| {
        let mut info = contender("web-1", number);
        (info.mode, info.session) = (mode, Some(session.to_owned()));
        info
    };
    let mut see = |contenders: &[ContenderInfo], now| {
        model.see(&lock("pool"), contenders.to_vec(), (now > 100).then_some(at(now).boot), at(now));
    };
    let held = of(Mode::Permit, 1, "s");
    see(std::slice::from_ref(&held), 100);
    see(&[held.clone(), of(Mode::Acquire, 2, "t")], 110);
    see(&[held, of(Mode::Acquire, 2, "t"), of(Mode::Acquire, 3, "u")], 115);
    see(&[of(Mode::Permit, 4, "t"), of(Mode::Permit, 5, "t"), of(Mode::Acquire, 3, "u")], 130);
    see(&[of(Mode::Permit, 6, "u")], 150);
    see(&[], 160);
    let waits: Vec<_> = past(&model, "pool", 170).into_iter().map(|(_, token, _, waited, _)| (token, waited)).collect();
    assert_eq!(waits, [(6, Some(35)), (5, Some(20)), (4, Some(20)), (1, None)]);
    assert_eq!(model.history().wait_p95("pool", Duration::ZERO), Some(Duration::from_secs(35)));
}

#[test]
fn a_time_in_which_nothing_was_seen_is_a_gap_and_what_ended_in_it_ended_unseen() {
    let mut model = started("a", &[("web-1", 1)], 100);
    model.history_mut().go_blind(at(120).boot);
    assert_eq!(past(&model, "a", 140)[0].4, PastEnd::Unseen);
    let gaps = |model: &LockModel, now: u64| -> Vec<[u64; 2]> {
        let known = model.past("a", Duration::ZERO, at(now));
        known.gaps.iter().map(|gap| [gap.from_unix, gap.until_unix].map(|unix| unix.as_secs() - 1_000_000)).collect()
    };
    assert_eq!(gaps(&model, 140), [[120, 140]], "it goes on");
    model.see(&lock("a"), queue(&[("web-2", 2)]), Some(at(120).boot), at(150));
    model.history_mut().see_again(at(150));
    let expected = [
        ("web-2".to_owned(), 2, [150, 160], Some(0), PastEnd::Holds),
        ("web-1".to_owned(), 1, [100, 120], None, PastEnd::Unseen),
    ];
    assert_eq!(past(&model, "a", 160), expected);
    assert_eq!(gaps(&model, 160), [[120, 150]]);
}

#[test]
fn questions_over_all_locks_are_answered_by_moment_holder_and_length() {
    let mut model = started("a", &[("web-1", 1)], 100);
    told(&mut model, "b", &[("web-2", 2), ("web-1", 3)], 110);
    told(&mut model, "b", &[("web-1", 3)], 120);
    told(&mut model, "a", &[], 200);
    let ask = |query| -> Vec<_> {
        let found = model.ask_past(query, Duration::ZERO, 100, at(210));
        found.iter().map(|one| (one.lock.to_owned(), one.token.unwrap().as_u64())).collect()
    };
    let held = |lock: &str, token| (lock.to_owned(), token);
    assert_eq!(ask(PastQuery::At(at(115).unix)), [held("a", 1), held("b", 2)]);
    assert_eq!(ask(PastQuery::At(at(205).unix)), [held("b", 3)]);
    assert_eq!(ask(PastQuery::Holder("web-1")), [held("b", 3), held("a", 1)]);
    assert_eq!(ask(PastQuery::Longest(2)), [held("a", 1), held("b", 3)]);
    assert_eq!(ask(PastQuery::Holder("nobody")), []);
}

#[test]
fn the_percentile_of_waits_and_the_peaks_of_queues_are_of_the_last_ones() {
    let mut model = started("a", &[("web-1", 1)], 60);
    let mut now = 100;
    for number in 2..=101 {
        told(&mut model, "a", &[("web-1", number - 1), ("web-1", number)], now);
        now += if number == 101 { 50 } else { number / 20 };
        told(&mut model, "a", &[("web-1", number)], now);
    }
    told(&mut model, "a", &[], now);
    let history = model.history();
    assert_eq!(history.wait_p95("a", Duration::ZERO), Some(Duration::from_secs(4)), "five of a hundred waited longer");
    assert_eq!(history.wait_p95("a", at(now + 1).unix), None);
    assert_eq!(history.wait_p95("b", Duration::ZERO), None);
    let peaks = history.peaks("a", at(now).unix).unwrap();
    assert!(peaks[peaks.len() - 1] == 1 && peaks[0] == 0, "{peaks:?}");
    assert_eq!(history.peaks("a", at(now + 3_601).unix), None, "an hour later");
}

/// Plays `holds` holds of so many locks, one after the other, each with a waiter.
fn play(history: &mut History, locks: u64, holds: u64) {
    let names: Vec<QueueName> = (0..locks).map(|number| lock(&format!("jobs/nightly-backup-{number}"))).collect();
    let millis = |ms: u64| {
        let unix = Duration::from_millis(1_000_000_000 + ms);
        TimePoint { boot: crate::tests::scene::at(ms), unix }
    };
    for number in 0..holds {
        let name = &names[(number % locks) as usize];
        let info = contender(&format!("web-{}", number % 40), number);
        let (now, before) = (millis(number + 2_000), millis(number));
        history.see_queue(name, usize::from((number / locks).is_multiple_of(2)), now);
        let hold = Some((before.boot, Some(before.boot)));
        let (joined, known, end) = (Some(before.boot), now.boot, PastEnd::Left);
        history.departed(name, &super::Departed { info: &info, joined, hold, known, end }, now);
    }
}

#[test]
fn ten_minutes_of_a_thousand_grants_a_second_have_room_with_less_than_a_hundred_bytes_a_hold() {
    // A third of them: the names of locks and hosts weigh more in fewer.
    let (mut history, holds) = (History::default(), 200_000);
    play(&mut history, 10_000, holds);
    assert_eq!(history.len() as u64, holds, "nothing is forgotten");
    let bytes = history.bytes() / history.len();
    assert!(bytes <= 100 && bytes * 600_000 <= super::HISTORY_BYTES_MAX, "{bytes} bytes a hold");
    assert_eq!(history.of_lock("jobs/nightly-backup-7", Duration::ZERO).contenders.len(), 20);
}

#[test]
fn what_has_no_room_is_forgotten_the_oldest_first_and_the_history_says_since_when_it_knows() {
    let mut history = History::bounded(1 << 20);
    play(&mut history, 100, 50_000);
    assert!(history.bytes() <= 1 << 20 && history.len() > 5_000, "{} bytes, {}", history.bytes(), history.len());
    let since_ms = u64::try_from(history.since_unix().unwrap().as_millis()).unwrap();
    let all = history.ask(PastQuery::Longest(usize::MAX), Duration::from_millis(since_ms + 1), usize::MAX);
    let first = since_ms + 1 - 1_000_000_000 - 2_000;
    assert_eq!(all.len() as u64, 50_000 - first, "all that it says it knows is there");
    // Names of hosts that no record has any more are forgotten too.
    let mut lonely = History::bounded(1 << 20);
    (0..100).for_each(|round| {
        for number in 0..1_000 {
            let info = contender(&format!("host-{round}-{number}"), number);
            let (boot, now) = (at(round).boot, at(round + 1));
            let gone = super::Departed {
                info: &info,
                joined: None,
                hold: Some((boot, None)),
                known: now.boot,
                end: PastEnd::Left,
            };
            lonely.departed(&lock(&format!("of-{round}-{number}")), &gone, now);
        }
    });
    assert!(lonely.bytes() <= 1 << 20, "{} bytes", lonely.bytes());
}

/// A model whose history was kept, and what it has written.
fn kept() -> (LockModel, String) {
    let mut model = LockModel::default();
    model.history_mut().keep("this machine".to_owned());
    see_all(&mut model, "a", &[("web-1", 1)], 100);
    told(&mut model, "a", &[("web-1", 1), ("web-2", 2)], 110);
    told(&mut model, "a", &[("web-2", 2)], 130);
    told(&mut model, "b", &[("web-3", 3)], 140);
    let (text, left_out) = model.history_mut().take_unwritten(Some(at(150)));
    assert_eq!(left_out, 0);
    (model, text)
}

#[test]
fn a_history_is_read_back_after_a_restart_with_the_gap_between() {
    let (before, text) = kept();
    assert_eq!(past(&before, "a", 150)[0], ("web-2".to_owned(), 2, [130, 150], Some(20), PastEnd::Holds));
    let mut model = LockModel::default();
    assert_eq!(model.history_mut().load(&text), 0, "no line is torn");
    model.history_mut().keep("this machine".to_owned());
    model.see(&lock("a"), queue(&[("web-2", 2)]), None, at(300));
    model.history_mut().see_again(at(300));
    let expected = [
        ("web-2".to_owned(), 2, [130, 310], None, PastEnd::Holds),
        ("web-1".to_owned(), 1, [100, 130], None, PastEnd::Left),
    ];
    assert_eq!(past(&model, "a", 310), expected, "a hold has gone on over the restart");
    assert_eq!(past(&model, "b", 310), [("web-3".to_owned(), 3, [140, 150], None, PastEnd::Unseen)]);
    let gaps: Vec<_> = model.history().gaps(Duration::ZERO).collect();
    assert_eq!([gaps[0].from_unix, gaps[0].until_unix], [at(150).unix, at(300).unix]);
    assert_eq!(model.history().since_unix(), Some(at(100).unix));
    told(&mut model, "a", &[], 320);
    assert_eq!(past(&model, "a", 330)[0], ("web-2".to_owned(), 2, [130, 320], None, PastEnd::Left));
}

#[test]
fn a_torn_end_costs_its_line_alone() {
    let (_, text) = kept();
    for cut in 0..text.len() {
        let mut model = LockModel::default();
        let whole = text[..cut].matches('\n').count();
        let is_torn = !text[..cut].is_empty() && !text[..cut].ends_with('\n');
        let torn = model.history_mut().load(&text[..cut]);
        // One that lacks its line end alone is whole.
        assert!(torn <= usize::from(is_torn), "{cut}: {torn}");
        see_all(&mut model, "c", &[], 300);
        assert!(whole == 0 || !model.history().is_empty(), "{cut}");
    }
}

#[test]
fn the_judge_of_histories_reads_what_was_kept_and_finds_two_holders() {
    let lines =
        |text: &str| -> Vec<HistoryLine> { text.lines().map(|line| HistoryLine::read(line).unwrap()).collect() };
    let (mut model, mut text) = kept();
    told(&mut model, "a", &[], 160);
    text += &model.history_mut().take_unwritten(Some(at(170))).0;
    let found = verify(lines(&text), Duration::ZERO);
    assert_eq!((found.locks, found.grants, found.unended, found.broken), (2, 3, 1, Vec::new()));
    let past = model.past("a", Duration::ZERO, at(170));
    let text: String = past.contenders.iter().map(|one| super::lines_of(one, "this machine")).collect();
    let found = verify(lines(&text), Duration::ZERO);
    assert_eq!((found.grants, found.broken.len()), (2, 0), "also what programs are answered");
    let broken = text
        .replace("1000130000,\"lock\":\"a\",\"event\":\"released\"", "1000140000,\"lock\":\"a\",\"event\":\"released\"")
        .replace("1000130000000000", "1000140000000000");
    assert_eq!(verify(lines(&broken), Duration::ZERO).broken.len(), 0, "the grant of the other moved too");
    let broken = text.replacen(
        "\"at_ns\":1000130000000000,\"unix_ms\":1000130000",
        "\"at_ns\":1000120000000000,\"unix_ms\":1000120000",
        1,
    );
    assert_eq!(verify(lines(&broken), Duration::ZERO).broken.len(), 1, "{broken}");
}
