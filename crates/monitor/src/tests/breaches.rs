//! Breaches are found, and a lock that keeps its promises never shows one.

use std::time::Duration;

use lockkeeper::{ContenderInfo, FencingToken, Mode};
use lockkeeper_conformance::{Random, seed};

use super::scene::{contender, moment, name, told};
use crate::alerts::{Alerts, Thresholds};
use crate::breaches::Breach;
use crate::collect::{MonitorState, ServiceFreshness};
use crate::model::LockModel;

const LOCKS: u64 = 3;

/// How many changes honest locks go through.
const CHANGES: u64 = 100_000;

/// How many stand in a queue at most.
const CONTENDERS_MAX: usize = 6;

/// What a lock of these states, one after the other, is found to break, by the contenders' numbers.
fn found(states: &[Vec<ContenderInfo>]) -> Vec<(Breach, String, String)> {
    let mut model = LockModel::default();
    for (second, state) in (0..).zip(states) {
        model.see(&name("a"), state.clone(), None, moment(second));
    }
    let breaches = model.breaches(moment(states.len() as u64).boot);
    breaches.map(|(_, seen)| (seen.breach, seen.earlier.id.to_string(), seen.later.id.to_string())).collect()
}

fn mutex(number: u64) -> ContenderInfo {
    contender(number, Mode::Mutex)
}

fn granted(info: ContenderInfo) -> ContenderInfo {
    let mut info = info;
    info.granted_unix = Some(Duration::from_secs(1_000_000));
    info
}

#[test]
fn a_token_that_is_not_greater_than_that_of_the_holder_before_is_found_also_over_an_empty_queue() {
    let second = |token| {
        let mut info = mutex(9);
        info.token = FencingToken::new(token, 0);
        info
    };
    assert_eq!(found(&[vec![mutex(7)], vec![], vec![second(8)]]), []);
    for token in [6, 7] {
        let fell = (Breach::TokenFell, "7".to_owned(), "9".to_owned());
        assert_eq!(found(&[vec![mutex(7)], vec![], vec![second(token)]]), [fell]);
    }
    assert_eq!(found(&[vec![mutex(7)], vec![], vec![mutex(7)]]), [], "it is shown again after an outage");
}

#[test]
fn a_holder_that_another_one_stands_ahead_of_is_found() {
    let overtaken = (Breach::Overtaken, "7".to_owned(), "5".to_owned());
    assert_eq!(found(&[vec![mutex(7)], vec![mutex(5), mutex(7)]])[0], overtaken);
    assert_eq!(found(&[vec![mutex(7), mutex(8)], vec![mutex(8)]]), []);
    let readers = |numbers: &[u64]| numbers.iter().map(|number| contender(*number, Mode::Read)).collect::<Vec<_>>();
    assert_eq!(found(&[readers(&[1]), readers(&[1, 2]), readers(&[2, 3])]), [], "readers share it");
}

#[test]
fn where_grants_are_noted_one_that_is_first_in_a_listing_need_not_hold() {
    let states = [vec![granted(mutex(1))], vec![mutex(7)], vec![granted(mutex(5)), mutex(7)]];
    assert_eq!(found(&states), []);
}

#[test]
fn one_that_notes_its_grant_behind_another_holder_is_told_unless_that_one_has_just_left() {
    let (mut state, mut alerts) = (MonitorState::default(), Alerts::default());
    state.freshness = ServiceFreshness::Fresh(None);
    let mut judge = |second, contenders: Vec<ContenderInfo>| {
        state.model.see(&name("a"), contenders, Some(moment(second).boot), moment(second));
        let news = alerts.judge(&state, moment(second), |_| Thresholds::default());
        news.iter().map(|news| format!("{} {}", told(news).0, told(news).1.about.rule())).collect::<Vec<_>>()
    };
    let both = || vec![granted(mutex(1)), granted(mutex(2))];
    assert!(judge(1, both()).is_empty());
    assert!(judge(2, vec![granted(mutex(2))]).is_empty());
    assert!(judge(60, vec![granted(mutex(2)), granted(mutex(3))]).is_empty());
    assert_eq!(judge(62, vec![granted(mutex(2)), granted(mutex(3))]), ["raised breach"]);
    assert_eq!(judge(70, vec![granted(mutex(3))]), ["ended breach"]);
}

/// A lock that keeps its promises: those who join stand behind the others, with greater tokens.
fn change(queue: &mut Vec<ContenderInfo>, random: &mut Random, last: &mut u64) {
    let choice = if queue.len() < CONTENDERS_MAX { random.below(3) } else { 0 };
    match choice {
        0 if !queue.is_empty() => {
            let leaves = usize::try_from(random.below(queue.len() as u64)).unwrap();
            queue.remove(leaves);
        }
        1 if queue.first().is_some_and(|first| first.mode == Mode::Write) => {
            // A writer takes a place for reading with its own, and may leave the first.
            let mut beside = contender(*last + 1, Mode::Read);
            *last += 1;
            beside.token = queue[0].token;
            queue.insert(1, beside);
        }
        _ => {
            *last += 1 + random.below(2);
            let modes = [Mode::Mutex, Mode::Read, Mode::Write];
            queue.push(contender(*last, modes[usize::try_from(random.below(3)).unwrap()]));
        }
    }
}

#[test]
fn locks_that_keep_their_promises_show_no_breach_however_often_they_are_looked_at() {
    let seed = seed();
    let (mut random, mut model) = (Random::new(seed), LockModel::default());
    let mut queues = vec![Vec::new(); usize::try_from(LOCKS).unwrap()];
    let mut last = 0;
    for second in 0..CHANGES {
        let lock = random.below(LOCKS);
        let queue = &mut queues[usize::try_from(lock).unwrap()];
        change(queue, &mut random, &mut last);
        // A look may miss what happens between two others.
        if random.below(2) == 0 {
            let now = moment(second);
            model.see(&name(&format!("l{lock}")), queue.clone(), Some(now.boot), now);
            let breaches: Vec<_> = model.breaches(now.boot).collect();
            assert!(breaches.is_empty(), "again: LOCKKEEPER_SEED={seed}\n{breaches:?}");
        }
    }
}
