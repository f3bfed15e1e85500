//! Tests of a receiver that is down for a while.

use std::time::Duration;

use lockkeeper::clock::BootInstant;

use super::scene::{self, moment, told};
use crate::alerts::{About, Alert, AlertFinding, AlertNews, AlertOutbox, KEPT_FOR, NEWS_MAX};

fn at(seconds: u64) -> BootInstant {
    moment(seconds).boot
}

fn alert(lock: &str, ended: Option<u64>) -> Alert {
    let finding = AlertFinding::Waiters { waiters: 11, holder: None };
    Alert {
        about: About::Waiters(scene::name(lock)),
        finding,
        began_unix: Duration::from_secs(1),
        ended_unix: ended.map(Duration::from_secs),
        outage: None,
    }
}

fn raised(lock: &str) -> AlertNews {
    AlertNews::Raised(alert(lock, None))
}

fn ended(lock: &str) -> AlertNews {
    AlertNews::Ended(alert(lock, Some(9)))
}

fn name(news: &AlertNews) -> String {
    let (word, alert) = told(news);
    format!("{word} {}", alert.about.lock().unwrap().as_str())
}

fn due(outbox: &mut AlertOutbox, second: u64) -> Option<String> {
    outbox.due(at(second), |_| true).map(|(_, news)| name(news))
}

/// Tells all that is due, as a receiver that is up.
fn tell_all(outbox: &mut AlertOutbox, now: BootInstant) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((number, news)) = outbox.due(now, |_| true) {
        all.push(name(news));
        outbox.told(number);
    }
    all
}

#[test]
fn a_receiver_that_is_down_for_half_an_hour_is_told_everything_in_order_and_is_not_pressed() {
    let mut outbox = AlertOutbox::default();
    let (mut put, mut tries) = (Vec::new(), Vec::new());
    for second in 0..1_800 {
        if second % 60 == 0 {
            let lock = format!("l{}", second / 60);
            for news in [raised(&lock), ended(&lock)] {
                put.push(name(&news));
                outbox.put(news, at(second));
            }
        }
        if outbox.due(at(second), |_| true).is_some() {
            tries.push(second);
            outbox.failed(at(second));
        }
    }
    assert_eq!(&tries[..8], [0, 1, 3, 7, 15, 31, 63, 123]);
    assert!(tries.windows(2).skip(7).all(|pair| pair[1] - pair[0] == 60), "{tries:?}");
    let next = outbox.next_try(at(1_800), |_| true).unwrap();
    assert!(outbox.due(at(1_800), |_| true).is_none() && next > at(1_800));
    assert_eq!(tell_all(&mut outbox, next), put);
    assert_eq!((outbox.dropped(), outbox.next_try(next, |_| true)), (0, None));
}

#[test]
fn a_receiver_that_takes_one_is_told_the_next_at_once_and_pressed_anew_only_from_the_first_pause() {
    let mut outbox = AlertOutbox::default();
    for lock in ["a", "b"] {
        outbox.put(raised(lock), at(0));
    }
    for second in [0, 1, 3] {
        assert_eq!(due(&mut outbox, second), Some("raised a".to_owned()));
        outbox.failed(at(second));
    }
    assert!(outbox.due(at(6), |_| true).is_none());
    let (number, _) = outbox.due(at(7), |_| true).unwrap();
    outbox.told(number);
    assert_eq!(due(&mut outbox, 7), Some("raised b".to_owned()));
    outbox.failed(at(7));
    assert_eq!(outbox.next_try(at(7), |_| true), Some(at(8)));
}

#[test]
fn without_room_what_is_over_untold_goes_first_and_then_the_oldest_and_all_is_counted() {
    let mut outbox = AlertOutbox::default();
    outbox.put(raised("old"), at(0));
    outbox.put(raised("short"), at(1));
    outbox.put(ended("short"), at(2));
    for number in 3..NEWS_MAX {
        outbox.put(raised(&format!("l{number}")), at(3));
    }
    outbox.put(raised("new"), at(4));
    assert_eq!(outbox.dropped(), 2);
    outbox.put(raised("newer"), at(5));
    outbox.put(raised("newest"), at(6));
    assert_eq!(outbox.dropped(), 3);
    let told = tell_all(&mut outbox, at(6));
    assert_eq!((told.len(), told[0].as_str()), (NEWS_MAX, "raised l3"));
    assert_eq!(&told[NEWS_MAX - 3..], ["raised new", "raised newer", "raised newest"]);
}

#[test]
fn what_was_untold_for_a_day_is_not_told_any_more() {
    let mut outbox = AlertOutbox::default();
    outbox.put(raised("a"), at(0));
    outbox.put(raised("b"), at(10));
    let later = at(5).saturating_add(KEPT_FOR);
    assert_eq!(tell_all(&mut outbox, later), ["raised b"]);
    assert_eq!(outbox.dropped(), 1);
}

#[test]
fn what_was_dropped_while_it_was_told_takes_no_other_with_it() {
    let mut outbox = AlertOutbox::default();
    outbox.put(raised("a"), at(0));
    outbox.put(raised("b"), at(1));
    let (number, _) = outbox.due(at(1), |_| true).unwrap();
    outbox.retain(|news| name(news) == "raised b");
    outbox.told(number);
    assert_eq!(tell_all(&mut outbox, at(1)), ["raised b"]);
}
