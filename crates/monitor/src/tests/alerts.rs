//! Alerts over virtual time: each is told once when it begins and once when it ends.

use std::time::Duration;

use lockkeeper::backend::ProcessId;
use lockkeeper::follow::SilentSession;
use lockkeeper::{ContenderId, ContenderInfo, Mode};

use super::scene::{cut_off, line, moment as at, name, told};
use crate::alerts::{About, Alert, AlertFinding, Alerts, Thresholds};
use crate::collect::{MonitorState, ServiceFreshness};

/// A service over virtual time, and what was told of it.
struct Scene {
    state: MonitorState,
    alerts: Alerts,
    second: u64,
    told: Vec<String>,
}

impl Scene {
    fn new() -> Self {
        let mut state = MonitorState::default();
        state.freshness = ServiceFreshness::Fresh(None);
        Self { state, alerts: Alerts::default(), second: 0, told: Vec::new() }
    }

    /// A lock has one holder and so many waiters from now on.
    fn queue(&mut self, lock: &str, holder: &str, mode: Mode, waiters: usize) {
        let now = at(self.second);
        self.state.model.see(&name(lock), line(holder, mode, waiters), Some(now.boot), now);
    }

    /// Judges each second for so long.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            for news in self.alerts.judge(&self.state, at(self.second), |_| Thresholds::default()) {
                let (word, alert) = told(&news);
                let lock = alert.about.lock().map_or_else(String::new, |lock| format!(" {}", lock.as_str()));
                self.told.push(format!("{} {word} {}{lock}", self.second, alert.about.rule()));
            }
        }
    }

    /// The holder of a lock has gone without having left.
    fn lost(&mut self, lock: &str, holder: &str) {
        self.queue(lock, holder, Mode::Mutex, 0);
        let (lock, now) = (name(lock), at(self.second));
        self.state.model.lose(&lock, &[ContenderId::new(holder)]);
        self.state.model.see(&lock, Vec::<ContenderInfo>::new(), Some(now.boot), now);
    }

    /// A lock has a holder of this session from now on.
    fn held_by(&mut self, lock: &str, holder: &str, session: &str) {
        let mut info = ContenderInfo::new(ContenderId::new(holder), Mode::Mutex);
        info.session = Some(session.to_owned());
        let now = at(self.second);
        self.state.model.see(&name(lock), vec![info], Some(now.boot), now);
    }

    /// These sessions are silent, for ten seconds by now.
    fn silent(&mut self, sessions: &[&str]) {
        let since = at(self.second.saturating_sub(10)).boot;
        let silence = |session: &&str| SilentSession::new(*session, since, Duration::from_secs(20));
        self.state.model.set_silent(sessions.iter().map(silence).collect());
    }

    fn lose(&mut self) {
        self.state.freshness = cut_off(at(self.second));
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
fn a_third_loss_within_ten_minutes_is_told_and_ten_minutes_without_one_end_it() {
    let mut scene = Scene::new();
    for number in 0..4 {
        scene.lost("rare", &format!("h{number}"));
        scene.pass(301);
    }
    assert!(scene.told().is_empty(), "never three in ten minutes");
    let begun = scene.second;
    for number in 0..3 {
        scene.lost("often", &format!("h{number}"));
        scene.pass(100);
    }
    assert_eq!(scene.told(), [format!("{} raised lost often", begun + 201)]);
    // One loss now and then keeps it, however long ago the others were.
    for number in 3..10 {
        scene.pass(400);
        scene.lost("often", &format!("h{number}"));
    }
    assert!(scene.told().is_empty());
    let last = scene.second;
    scene.pass(700);
    assert_eq!(scene.told(), [format!("{} ended lost often", last + 600)]);
}

#[test]
fn what_was_told_of_losses_before_a_restart_is_over_when_none_was_seen_for_ten_minutes() {
    let mut scene = Scene::new();
    let about = About::Lost(name("often"));
    let finding = AlertFinding::Said("often: 3 holders have lost it".to_owned());
    scene.alerts.adopt(Alert::new(about, finding, at(0).unix));
    scene.pass(600);
    assert!(scene.told().is_empty());
    scene.pass(10);
    assert_eq!(scene.told(), ["601 ended lost often"]);
}

#[test]
fn a_holder_that_was_said_to_be_in_jeopardy_before_a_restart_still_is_while_it_may_be_silent() {
    let mut scene = Scene::new();
    scene.held_by("a", "h", "s1");
    let about = About::Jeopardy(name("a"), ContenderId::new("h"));
    let finding = AlertFinding::Said("a: h gives no sign of life".to_owned());
    scene.alerts.adopt(Alert::new(about, finding, at(0).unix));
    scene.pass(299);
    // Its session is seen to be silent again, and then no more.
    scene.silent(&["s1"]);
    scene.pass(1);
    scene.silent(&[]);
    assert!(scene.told().is_empty());
    let heard = scene.second;
    scene.pass(100);
    assert_eq!(scene.told(), [format!("{} ended jeopardy a", heard + 21)]);
}

#[test]
fn a_process_that_dies_with_several_permits_has_died_once() {
    let mut scene = Scene::new();
    let semaphore = name("s");
    let permit = |id: &str, session: Option<&str>| {
        let mut info = ContenderInfo::new(ContenderId::new(id), Mode::Permit);
        info.session = session.map(str::to_owned);
        info
    };
    let mut lost = |permits: Vec<ContenderInfo>| {
        let now = at(scene.second);
        let ids: Vec<_> = permits.iter().map(|permit| permit.id.clone()).collect();
        scene.state.model.see(&semaphore, permits, Some(now.boot), now);
        scene.state.model.lose(&semaphore, &ids);
        scene.state.model.see(&semaphore, Vec::<ContenderInfo>::new(), Some(now.boot), now);
        scene.state.model.lost_lately(now.boot).map(|(_, count)| count).sum::<usize>()
    };
    let of_one = |process: &str| {
        let mut info = permit(process, None);
        info.caller.process = ProcessId::parse("00000000000000aa");
        info
    };
    assert_eq!(lost(vec![permit("1", Some("a")), permit("2", Some("a")), permit("3", Some("a"))]), 1);
    assert_eq!(lost(vec![permit("4", Some("b")), permit("5", Some("c"))]), 1 + 2);
    assert_eq!(lost(vec![of_one("6"), of_one("7")]), 3 + 1);
    assert_eq!(lost(vec![permit("8", None), permit("9", None)]), 4 + 2);
}

#[test]
fn a_holder_without_a_sign_of_life_is_in_jeopardy_until_its_next_ones_or_its_end() {
    let mut scene = Scene::new();
    scene.held_by("a", "h", "s1");
    scene.held_by("b", "h", "s2");
    scene.silent(&[]);
    scene.pass(100);
    scene.silent(&["s1", "s9"]);
    scene.pass(1);
    assert_eq!(scene.told(), ["101 raised jeopardy a"]);
    // It is heard of for a moment, again and again.
    for _ in 0..20 {
        scene.silent(&[]);
        scene.pass(19);
        scene.silent(&["s1"]);
        scene.pass(9);
    }
    assert!(scene.told().is_empty());
    let heard = scene.second;
    scene.silent(&[]);
    scene.pass(30);
    // Half the timeout over a new connection, and ten seconds more.
    assert_eq!(scene.told(), [format!("{} ended jeopardy a", heard + 21)]);
    scene.silent(&["s2"]);
    scene.pass(1);
    scene.queue("b", "other", Mode::Mutex, 0);
    scene.pass(30);
    let told = scene.told();
    assert!(told.len() == 2 && told[1].ends_with("ended jeopardy b"), "{told:?}");
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
    scene.state.freshness = ServiceFreshness::Fresh(None);
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
        scene.state.freshness = ServiceFreshness::Fresh(None);
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
            1 => scene.state.freshness = ServiceFreshness::Fresh(None),
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
