//! A monitor's report of holders that did not give their lock back: those that died, and those that give no sign of
//! life.

use rustix::process::Signal;
use serde_json::Value;

use crate::monitor::Monitor;
use crate::services::{self, Service, on_each};
use crate::support::{Holder, Place, Running, eventually};

/// Lets a holder die, with its command.
fn kill(mut holder: Holder) {
    holder.process.kill();
}

/// Waits until the monitor knows so many holders of a lock, and on files since when they hold.
fn knows_holders(monitor: &Monitor, lock: &str, count: usize) {
    monitor.until("the holders are known", &format!("/api/locks/{lock}"), |queue| {
        let contenders = queue["contenders"].as_array().unwrap();
        let is_known = |holder: &&Value| holder["session"].is_string() || holder["held_ms"].is_u64();
        contenders.iter().filter(|one| one["state"] == "holder").filter(is_known).count() == count
    });
}

fn alert<'a>(alerts: &'a Value, rule: &str) -> Option<&'a Value> {
    alerts["alerts"].as_array().unwrap().iter().find(|alert| alert["rule"] == rule)
}

/// Waits until something is so of the alerts.
fn until<T>(monitor: &Monitor, what: &str, is_so: impl Fn(&Value) -> Option<T>) -> T {
    eventually(what, || is_so(&monitor.json("/api/alerts")))
}

/// Waits until an alert of a rule is raised; returns what it says.
fn summary(monitor: &Monitor, rule: &str) -> String {
    let said = |alert: &Value| alert["summary"].as_str().unwrap().to_owned();
    until(monitor, rule, |alerts| alert(alerts, rule).map(said))
}

/// How often a lock was lost so far.
fn losses(monitor: &Monitor, lock: &str) -> usize {
    let events = monitor.json("/api/events");
    let of_lock = |event: &&Value| event["event"] == "lost" && event["lock"] == lock;
    events["events"].as_array().unwrap().iter().filter(of_lock).count()
}

#[test]
fn on_files_a_lock_whose_holders_are_killed_three_times_is_lost_often_and_one_that_is_given_back_is_not() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    let mut waiting = Vec::new();
    for round in 1..=3 {
        // One that gives back, one that is broken, and one that is killed while another waits.
        let holder = place.hold("nightly");
        knows_holders(&monitor, "nightly", 1);
        holder.end();
        let mut broken = place.hold("nightly");
        knows_holders(&monitor, "nightly", 1);
        assert_eq!(place.run(&["break", "nightly", "--token", &place.token("nightly")]).code, Some(0));
        assert_eq!(broken.process.code(), Some(123));
        assert_eq!(alert(&monitor.json("/api/alerts"), "lost").map(Value::to_string), None, "{round}");
        let killed = place.hold("nightly");
        waiting.push(place.queue(&[], "nightly"));
        knows_holders(&monitor, "nightly", 1);
        kill(killed);
        eventually("its loss is told", || (losses(&monitor, "nightly") == round).then_some(()));
        eventually("the next one is done", || (place.contenders("nightly") == 0).then_some(()));
    }
    let said = summary(&monitor, "lost");
    assert_eq!(said, "nightly: 3 holders have lost it in the last ten minutes: they died, or were cut off");
    assert!(monitor.get("/metrics").1.contains("lockkeeper_monitor_alerts_total{rule=\"lost\"} 1\n"));
}

on_each! { silence_and_losses_are_told:
    PostgreSql "postgres" on_postgresql_a_holder_that_is_stopped_is_in_jeopardy_and_killed_holders_have_lost_the_lock;
    MariaDb "mysql" on_mariadb_a_holder_that_is_stopped_is_in_jeopardy_and_killed_holders_have_lost_the_lock;
}

/// Asserts that a holder that is stopped is in jeopardy until it goes on, and that three that are killed are lost. The
/// service's sessions have a timeout of 20 s.
async fn silence_and_losses_are_told(_: Service, server: services::Server) {
    let place = Place::of(&format!("{}?session_timeout=20s", server.url()));
    let monitor = Monitor::start(&place, &[]);
    let stopped = place.hold("daily");
    let holders = [(); 3].map(|()| place.hold_by(&["-s"], "nightly"));
    knows_holders(&monitor, "daily", 1);
    knows_holders(&monitor, "nightly", 3);
    let _waiting = Running::start(&mut place.command(&["run", "nightly", "--", "sleep", "600"]));
    stopped.process.send(Signal::STOP);
    let said = summary(&monitor, "jeopardy");
    assert!(said.starts_with("daily: ") && said.contains(" holds it and has given no sign of life for "), "{said}");
    assert!(said.ends_with("; after 20s it loses the lock"), "{said}");
    let alerts = monitor.json("/api/alerts");
    assert!(alert(&alerts, "jeopardy").is_none_or(|alert| alert["holder"]["owner"]["pid"].is_u64()), "{alerts}");
    stopped.process.send(Signal::CONT);
    until(&monitor, "the alert is over", |alerts| alert(alerts, "jeopardy").is_none().then_some(()));
    holders.into_iter().for_each(kill);
    let said = summary(&monitor, "lost");
    assert!(said.starts_with("nightly: 3 holders have lost it "), "{said}");
    assert_eq!(losses(&monitor, "nightly"), 3);
}
