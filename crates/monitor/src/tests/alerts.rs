//! Alerts over virtual time: each is told once when it begins and once when it ends.

use std::time::Duration;

use lockkeeper::clock::BootInstant;
use lockkeeper::{ContenderId, ContenderInfo, Error, ErrorKind, Mode, Operation, QueueName};

use crate::alerts::{Alerts, News, Rule, Thresholds};
use crate::collect::{Freshness, State};
use crate::model::Moment;

fn at(seconds: u64) -> Moment {
    let boot = BootInstant::from_nanos(seconds * 1_000_000_000);
    Moment { boot, unix: Duration::from_secs(1_000_000 + seconds) }
}

/// A service over virtual time, and what was told of it.
struct Scene {
    state: State,
    alerts: Alerts,
    second: u64,
    told: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let mut state = State::default();
        state.freshness = Freshness::Fresh(None);
        Self { state, alerts: Alerts::default(), second: 0, told: Vec::new() }
    }

    /// A lock has one holder and so many waiters from now on.
    fn queue(&mut self, lock: &str, holder: &str, mode: Mode, waiters: usize) {
        let ids = std::iter::once(holder.to_owned()).chain((0..waiters).map(|number| format!("w{number}")));
        let queue = ids.map(|id| ContenderInfo::new(ContenderId::new(id), mode)).collect();
        let now = at(self.second);
        self.state.model.see(&QueueName::new(lock).unwrap(), queue, Some(now.boot), now);
    }

    /// Judges each second for so long.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            for news in self.alerts.judge(&self.state, at(self.second), |_| Thresholds::default()) {
                let (word, alert) = match news {
                    News::Raised(alert) => ("raised", alert),
                    News::Ended(alert) => ("ended", alert),
                };
                let lock = alert.about.lock().map_or_else(String::new, |lock| format!(" {}", lock.as_str()));
                self.told.push(format!("{} {word} {}{lock}", self.second, alert.about.rule()));
            }
        }
    }

    fn lose(&mut self) {
        let error = Error::transient(ErrorKind::Backend, Operation::Inspect, "cut off");
        self.state.freshness = Freshness::Stale(at(self.second).boot, error);
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

#[test]
fn many_waiters_are_told_after_ten_seconds_and_their_end_after_thirty() {
    let mut scene = Scene::new();
    scene.queue("a", "h", Mode::Mutex, 11);
    scene.pass(10);
    assert!(scene.told().is_empty());
    scene.pass(60);
    assert_eq!(scene.told(), ["11 raised waiters a"]);
    // Nine are too few for an alert and too many for its end.
    scene.queue("a", "h", Mode::Mutex, 9);
    scene.pass(60);
    assert!(scene.told().is_empty());
    scene.queue("a", "h", Mode::Mutex, 8);
    scene.pass(60);
    assert_eq!(scene.told(), ["161 ended waiters a"]);
}

#[test]
fn a_number_that_goes_up_and_down_is_one_alert() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        for waiters in [11, 7, 12, 8] {
            scene.queue("a", "h", Mode::Mutex, waiters);
            scene.pass(3);
        }
    }
    assert!(scene.told().is_empty(), "it never stood for ten seconds");
    scene.queue("a", "h", Mode::Mutex, 30);
    scene.pass(20);
    for _ in 0..100 {
        for waiters in [11, 0, 12, 8] {
            scene.queue("a", "h", Mode::Mutex, waiters);
            scene.pass(7);
        }
    }
    let told = scene.told();
    assert!(told.len() == 2 && told[0].ends_with("raised waiters a") && told[1].ends_with("raised held a"), "{told:?}");
    assert_eq!((scene.alerts.raised(Rule::Waiters), scene.alerts.firing().count()), (1, 2));
}

#[test]
fn a_long_hold_is_told_while_others_wait_and_until_its_holder_is_gone() {
    let mut scene = Scene::new();
    scene.queue("a", "h", Mode::Mutex, 0);
    scene.pass(400);
    assert!(scene.told().is_empty(), "it is in the way of no one");
    scene.queue("a", "h", Mode::Mutex, 1);
    scene.pass(1);
    assert_eq!(scene.told(), ["401 raised held a"]);
    scene.queue("a", "h", Mode::Mutex, 0);
    scene.pass(100);
    assert!(scene.told().is_empty());
    scene.queue("a", "other", Mode::Mutex, 1);
    scene.pass(300);
    assert_eq!(scene.told(), ["502 ended held a"]);
    scene.pass(2);
    assert_eq!(scene.told(), ["802 raised held a"]);
}

#[test]
fn a_leader_may_lead_for_as_long_as_it_can() {
    let mut scene = Scene::new();
    scene.queue("a", "leader", Mode::Candidate, 50);
    scene.pass(3_600);
    assert!(scene.told().is_empty());
}

#[test]
fn while_the_view_is_stale_nothing_is_raised_or_ended_but_that_it_is() {
    let mut scene = Scene::new();
    scene.queue("a", "h", Mode::Mutex, 11);
    scene.pass(20);
    scene.queue("b", "h", Mode::Mutex, 11);
    scene.pass(5);
    scene.lose();
    scene.queue("a", "h", Mode::Mutex, 0);
    scene.pass(600);
    assert_eq!(scene.told(), ["11 raised waiters a", "56 raised unreachable"]);
    scene.state.freshness = Freshness::Fresh(None);
    scene.pass(60);
    assert_eq!(
        scene.told(),
        ["626 raised held b", "636 ended unreachable", "636 raised waiters b", "656 ended waiters a"]
    );
}

#[test]
fn a_short_loss_of_the_view_is_no_alert() {
    let mut scene = Scene::new();
    scene.pass(10);
    for _ in 0..50 {
        scene.lose();
        scene.pass(29);
        scene.state.freshness = Freshness::Fresh(None);
        scene.pass(1);
    }
    assert!(scene.told().is_empty());
}

#[test]
fn in_an_hour_of_random_queues_each_alert_is_raised_once_and_ended_once() {
    let mut state = 9_u64;
    let mut below = move |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    let mut scene = Scene::new();
    for _ in 0..3_600 {
        match below(40) {
            0 => scene.lose(),
            1 => scene.state.freshness = Freshness::Fresh(None),
            _ => {
                let lock = format!("l{}", below(4));
                scene.queue(&lock, &format!("h{}", below(2)), Mode::Mutex, below(16) as usize);
            }
        }
        scene.pass(1);
    }
    let told = scene.told();
    let mut open = std::collections::BTreeSet::new();
    for line in told.iter().map(|line| line.split_once(' ').unwrap().1) {
        let (word, about) = line.split_once(' ').unwrap();
        assert!(if word == "raised" { open.insert(about.to_owned()) } else { open.remove(about) }, "{line}\n{told:#?}");
    }
    assert!(told.len() > 10, "{told:?}");
}
