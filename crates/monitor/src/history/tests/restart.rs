//! Marks, freezes and lengths of queues over a restart: all that is written is read back, hostile texts too.

use std::time::Duration;

use lockkeeper::history::{HistoryLine, verify};
use lockkeeper::{ContenderInfo, Revocation};
use lockkeeper_conformance::{Random, seed};

use super::super::store::{GAPS_MAX, History};
use super::{at, contender, frozen, lock, past, queue, see_all, told};
use crate::alerts::{About, Alert, AlertFinding, AlertNews};
use crate::model::LockModel;

/// How many histories are played: a second of them.
const PLAYS: u64 = 60;

const LOCKS: [&str; 4] = ["a", "b\"},{\"event\":\"lost", "c\\u0000\\", "d\u{2028}é</script>"];

const REASONS: [&str; 4] = ["a move", "\"\\\n{\"event\":\"granted\"}\r\n", "thawed", "\u{0}\u{2029}\u{feff}frozen"];

/// The contenders of a lock that has changed at random. Each has an identity of its own.
fn changed(random: &mut Random, before: &[ContenderInfo], number: &mut u64) -> Vec<ContenderInfo> {
    let mut now = before.to_vec();
    *number += 1;
    let why = REASONS[usize::try_from(random.below(4)).unwrap()].to_owned();
    match random.below(5) {
        0 if !now.is_empty() => _ = now.remove(usize::try_from(random.below(now.len() as u64)).unwrap()),
        1 if !now.is_empty() => {
            now[0].revocation = Some(Revocation::new(number.is_multiple_of(2).then_some(why), None));
        }
        2 => {
            let mut freezer = frozen(*number);
            freezer.frozen = Some(why);
            now.push(freezer);
        }
        3 => now.clear(),
        _ => now.push(contender(LOCKS[1], *number)),
    }
    now
}

/// All that is shown of a lock but its holds, as text.
fn shown(model: &LockModel, name: &str, now: u64) -> String {
    let past = model.past(name, Duration::ZERO, at(now));
    format!("{:#?}\n{:#?}\n{:#?}", past.marks, past.freezes, past.steps)
}

/// Says that an alert of a lock has begun, or that it is over.
fn alert(model: &mut LockModel, name: &str, is_over: bool, now: u64) {
    let alert = Alert::new(About::Waiters(lock(name)), AlertFinding::Said("x".to_owned()), at(now).unix);
    let news = if is_over { AlertNews::Ended(alert) } else { AlertNews::Raised(alert) };
    model.history_mut().note_alert(&news, at(now));
}

/// Starts again from what was written, and sees the same contenders as before.
fn restarted(text: &str, queues: &[Vec<ContenderInfo>], now: u64) -> LockModel {
    let mut again = LockModel::default();
    assert_eq!(again.history_mut().load(text), 0, "no line is torn: {text}");
    again.history_mut().keep("here".to_owned());
    for (name, queue) in LOCKS.into_iter().zip(queues).filter(|(_, queue)| !queue.is_empty()) {
        again.see(&lock(name), queue.clone(), None, at(now));
    }
    again.history_mut().see_again(at(now));
    again
}

#[test]
fn marks_freezes_and_lengths_of_queues_are_the_same_after_a_restart() {
    let first = seed();
    for play in (0..PLAYS).map(|play| first.wrapping_add(play)) {
        let random = &mut Random::new(play);
        let again = format!("LOCKKEEPER_SEED={play} cargo test -p lockkeeper-monitor the_same_after_a_restart");
        let (mut model, mut text, mut number) = (LockModel::default(), String::new(), 0);
        let mut queues = vec![Vec::new(); LOCKS.len()];
        model.history_mut().keep("here".to_owned());
        model.history_mut().see_again(at(100));
        let until = 101 + random.below(200);
        for now in 101..until {
            let one = usize::try_from(random.below(4)).unwrap();
            if random.below(5) == 0 {
                alert(&mut model, LOCKS[one], random.below(2) == 0, now);
            }
            queues[one] = changed(random, &queues[one], &mut number);
            model.see(&lock(LOCKS[one]), queues[one].clone(), Some(at(now).boot), at(now));
            // Each time so that no two changes of one lock become one.
            text += &model.history_mut().take_unwritten(Some(at(now))).0;
        }
        let judged = verify(text.lines().map(|line| HistoryLine::read(line).expect(&again)), Duration::ZERO);
        assert_eq!(judged.broken, [], "{again}");
        let read = restarted(&text, &queues, until + 10);
        for name in LOCKS {
            assert_eq!(shown(&read, name, until + 20), shown(&model, name, until + 20), "{name:?}: {again}");
            let peaks = |model: &LockModel| model.history().peaks(name, at(until + 20).unix);
            assert_eq!(peaks(&read), peaks(&model), "{name:?}: {again}");
        }
        // Lines that are in disorder, or of a later version, are read too.
        let disorder: Vec<_> = text.lines().rev().map(|line| line.replacen('{', "{\"later\":[{}],", 1)).collect();
        assert_eq!(History::default().load(&disorder.join("\n")), 0, "{again}");
    }
}

#[test]
fn what_a_queue_did_between_two_writings_is_one_step_with_its_greatest_length() {
    let mut model = LockModel::default();
    model.history_mut().keep("here".to_owned());
    see_all(&mut model, "a", &[("web-1", 1)], 100);
    let members = [("web-1", 1), ("web-2", 2), ("web-3", 3), ("web-4", 4)];
    let mut text = String::new();
    for (count, now) in [(2, 101), (4, 102), (1, 103), (3, 104)] {
        told(&mut model, "a", &members[..count], now);
        text += &model.history_mut().take_unwritten(None).0;
    }
    text += &model.history_mut().take_unwritten(Some(at(109))).0;
    let mut again = History::default();
    again.load(&text);
    let steps = again.of_lock("a", Duration::ZERO).steps;
    let steps: Vec<_> =
        steps.iter().map(|step| (step.at_unix.as_secs() - 1_000_000, step.longest, step.last)).collect();
    assert_eq!(steps, [(101, 1, 1), (102, 3, 2)], "{text}");
}

/// What has happened to a lock, the oldest first, by the second.
fn marks(model: &LockModel, name: &str) -> Vec<(u64, String)> {
    let past = model.past(name, Duration::ZERO, at(1_000));
    past.marks.iter().rev().map(|mark| (mark.at_unix.as_secs() - 1_000_000, mark.what.to_owned())).collect()
}

#[test]
fn a_freeze_or_a_queue_that_ended_while_the_monitor_was_down_ends_when_it_sees_again() {
    let mut model = LockModel::default();
    model.history_mut().keep("here".to_owned());
    model.see(&lock("found"), vec![frozen(1)], None, at(100));
    model.history_mut().see_again(at(100));
    model.see(&lock("a"), vec![frozen(2)], Some(at(110).boot), at(110));
    told(&mut model, "b", &[("web-1", 3), ("web-2", 4)], 110);
    let mut text = model.history_mut().take_unwritten(Some(at(120))).0;
    let mark = |second, what: &str| (second, what.to_owned());
    // What was seen after a restart is known after the next one.
    for _ in 0..2 {
        let mut again = LockModel::default();
        again.history_mut().load(&text);
        again.history_mut().keep("here".to_owned());
        again.see(&lock("found"), vec![frozen(1)], None, at(200));
        again.see(&lock("new"), vec![frozen(5)], None, at(200));
        again.see(&lock("b"), queue(&[]), None, at(200));
        again.history_mut().see_again(at(200));
        text += &again.history_mut().take_unwritten(Some(at(210))).0;
        assert_eq!(marks(&again, "a"), [mark(110, "frozen: a move"), mark(200, "thawed")]);
        assert_eq!(marks(&again, "found"), [mark(100, "frozen: a move")]);
        assert_eq!(marks(&again, "new"), [mark(200, "frozen: a move")]);
        let steps = again.past("b", Duration::ZERO, at(220)).steps;
        assert_eq!(steps.iter().map(|step| step.last).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(again.past("a", Duration::ZERO, at(220)).freezes[0].until_unix, at(200).unix);
    }
}

#[test]
fn what_is_read_takes_no_more_memory_than_the_history_may() {
    let line = |number: usize, rest: String| format!("{{\"unix_ms\":{number}000,\"lock\":\"of-{number}\",{rest}}}\n");
    let mut history = History::bounded(1 << 20);
    let of_kind = |number: usize| match number % 3 {
        0 => line(number, format!("\"event\":\"mark\",\"host\":\"h{number}\",\"what\":\"asked: {number}\"")),
        1 => line(number, format!("\"event\":\"queue\",\"longest\":{number}")),
        _ => line(number, "\"event\":\"blind\"".to_owned()),
    };
    let text: String = (1..60_000).map(of_kind).collect();
    assert_eq!(history.load(&text), 0);
    assert!(history.bytes() <= 1 << 20, "{} bytes", history.bytes());
    assert_eq!(history.gaps(Duration::ZERO).count(), GAPS_MAX);
    let last = (1..60_000).rev().find(|number| number % 3 == 0).unwrap();
    assert_eq!(history.of_lock(&format!("of-{last}"), Duration::ZERO).marks.len(), 1, "the newest are kept");
}

#[test]
fn a_freeze_is_no_hold_after_a_restart() {
    let mut model = LockModel::default();
    model.history_mut().keep("this machine".to_owned());
    see_all(&mut model, "a", &[], 100);
    model.see(&lock("a"), vec![frozen(1)], Some(at(110).boot), at(110));
    let mut again = LockModel::default();
    again.history_mut().load(&model.history_mut().take_unwritten(Some(at(120))).0);
    see_all(&mut again, "a", &[], 200);
    assert_eq!(past(&again, "a", 210), []);
}
