//! `monitor`: what it serves by HTTP, as a program asks for it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::crossing::Crossing;
use crate::server_operation::{PROMTOOL, check_by_prometheus, sound_unit};
use crate::support::{PATIENCE, Place, Running, eventually, finish, has_file};
use crate::unreachable::refusing;

/// A running monitor, ended by its test.
pub(crate) struct Monitor {
    itself: Running,
    address: String,
}

impl Monitor {
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        Self::start_at(place, "127.0.0.1:0", options)
    }

    /// Starts it at an address, also if another process has this port for a moment, as for a connection.
    pub(crate) fn start_at(place: &Place, address: &str, options: &[&str]) -> Self {
        let arguments = [&["monitor", "--listen", address], options].concat();
        eventually("it listens", || {
            let itself = Running::start(&mut place.command(&arguments));
            let line = itself.said();
            let Some((_, address)) = line.trim_end().rsplit_once(", at http://") else {
                assert!(line.contains("in use"), "{line}");
                return None;
            };
            assert!(line.starts_with("lockkeeper: watching "), "{line}");
            Some(Self { address: address.to_owned(), itself })
        })
    }

    /// Starts it where its first line is about something else.
    pub(crate) fn start_telling(place: &Place, options: &[&str], words: &str) -> Self {
        let itself = Running::start(&mut place.command(&[&["monitor", "--listen", "127.0.0.1:0"], options].concat()));
        itself.until_said(words);
        let line = itself.said();
        let (_, address) = line.trim_end().rsplit_once(", at http://").unwrap_or_else(|| panic!("{line}"));
        Self { address: address.to_owned(), itself }
    }

    pub(crate) fn kill(&mut self) {
        self.itself.kill();
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request with these headers and returns the answer.
    pub(crate) fn ask(&self, start: &str, lines: &[String], body: &str) -> Answer {
        ask_at(&self.address, start, lines, body)
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let answer = self.ask(&format!("GET {path}"), &[format!("Host: {}", self.address)], "");
        (answer.status, answer.body)
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Asks until an answer is as it must become.
    pub(crate) fn until(&self, what: &str, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || Some(self.json(path)).filter(&is_so))
    }

    /// Waits until it has seen all locks: until then it says that it has not.
    pub(crate) fn until_seen(&self) {
        eventually("the first look", || (self.get("/healthz").0 == 200).then_some(()));
    }

    /// Waits for the next line that it says.
    pub(crate) fn line(&self) -> String {
        self.itself.said()
    }

    /// Asks it to end, and returns how it did and what it said meanwhile.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        self.itself.send(Signal::TERM);
        let ended = self.itself.end();
        (ended.code, ended.stderr)
    }
}

/// An answer by HTTP.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Sends a request to an address and returns the answer; `lines` are its other headers.
pub(crate) fn ask_at(address: &str, start: &str, lines: &[String], body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let request = format!("{start} HTTP/1.1\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

#[test]
fn holders_and_waiters_are_served_as_they_come_and_go_and_what_has_happened_is_told() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &[]);
    monitor.until("the first look", "/healthz", |seen| seen["state"] == "fresh");
    let holder = place.hold("reports/nightly");
    let waiting = place.queue(&[], "reports/nightly");
    let locks = monitor.until("both", "/api/locks", |locks| locks["locks"][0]["waiters"] == 1);
    let lock = &locks["locks"][0];
    assert_eq!(
        (&locks["total"], &lock["name"], &lock["kind"]),
        (&json!(1), &json!("reports/nightly"), &json!("mutex"))
    );
    assert_eq!(lock["holders"][0]["state"], "holder", "{lock}");
    assert!(lock["holders"][0]["held_at_least_ms"].is_u64() && lock["oldest_wait_ms"].is_u64(), "{lock}");
    let queue = monitor.json("/api/locks/reports%2Fnightly");
    let states: Vec<_> = queue["contenders"].as_array().unwrap().iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["holder", "waiter"], "{queue}");
    assert_eq!(queue["contenders"][1]["owner"]["pid"], waiting.id(), "{queue}");
    assert_eq!(monitor.json("/api/locks?prefix=other")["total"], 0);
    drop(holder);
    monitor.until("the end", "/api/locks", |locks| locks["total"] == 0);
    let told = monitor.json("/api/events?lock=reports%2Fnightly");
    let events: Vec<_> = told["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!((&events[0], events.last().unwrap()), (&json!("granted"), &json!("left")), "{told}");
    let from = told["next_from"].as_u64().unwrap();
    assert!(monitor.json(&format!("/api/events?from={from}"))["events"].as_array().unwrap().is_empty());
    assert_eq!(monitor.json("/api/events?from=0&limit=1")["next_from"], 1);
    let (code, said) = monitor.stop();
    assert_eq!((code, said.as_str()), (Some(0), "lockkeeper: stopping, by SIGTERM\n"));
}

#[test]
fn a_deadlock_is_served_with_its_way_out_and_counted() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &["--lock-metrics", "d*"]);
    let crossing = Crossing::door_and_gate(place);
    let is_known = |found: &Value| found["deadlocks"][0]["verdict"] == "known";
    let found = monitor.until("the deadlock", "/api/deadlocks", is_known);
    let way_out = &found["deadlocks"][0]["way_out"];
    assert_eq!((&way_out["action"], &way_out["command"][1]), (&json!("revoke"), &json!("revoke")), "{found}");
    let (status, page) = monitor.get("/metrics");
    assert_eq!(status, 200);
    for line in [
        "lockkeeper_queues 2",
        "lockkeeper_contenders{state=\"holder\"} 2",
        "lockkeeper_contenders{state=\"waiter\"} 2",
        "lockkeeper_deadlocks{certainty=\"known\"} 1",
        "lockkeeper_queue_waiters{lock=\"door\"} 1",
        "lockkeeper_monitor_fresh 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    assert!(!page.contains("lock=\"gate\""), "{page}");
    check_by_prometheus(&Place::new(), &page);
    drop(crossing);
    monitor.until("the end", "/api/deadlocks", |found| found["deadlocks"] == json!([]));
}

#[test]
fn a_hold_that_is_long_for_its_name_is_told_once_with_its_holder_and_so_is_its_end() {
    let place = Place::new();
    place.configure("[[monitor.locks]]\nnames = 'quick-*'\nlong_hold_threshold = '300ms'");
    let monitor = Monitor::start(&place, &[]);
    let (quick, slow) = (place.hold("quick-1"), place.hold("slow"));
    let _waiting = [place.queue(&[], "quick-1"), place.queue(&[], "slow")];
    let line = monitor.line();
    assert!(line.starts_with("lockkeeper: alert: quick-1: ") && line.ends_with(" or longer, and 1 waits\n"), "{line}");
    let alerts = monitor.json("/api/alerts")["alerts"].clone();
    assert_eq!((&alerts[0]["rule"], &alerts[0]["lock"]), (&json!("held"), &json!("quick-1")), "{alerts}");
    assert!(alerts[0]["holder"]["owner"]["pid"].is_u64() && alerts.as_array().unwrap().len() == 1, "{alerts}");
    drop(quick);
    let line = monitor.line();
    assert!(line.starts_with("lockkeeper: alert over after ") && line.contains(": quick-1: "), "{line}");
    assert_eq!(monitor.json("/api/alerts")["alerts"], json!([]));
    assert!(monitor.get("/metrics").1.contains("lockkeeper_monitor_alerts_total{rule=\"held\"} 1\n"));
    drop(slow);
    assert_eq!(monitor.stop(), (Some(0), "lockkeeper: stopping, by SIGTERM\n".to_owned()));
}

#[test]
fn a_service_that_cannot_be_reached_is_asked_again_and_again_and_the_monitor_is_not_healthy_meanwhile() {
    let place = Place::new();
    let url = format!("{}?session_timeout=2s", refusing());
    let monitor = Monitor::start(&place, &["--connect", &url]);
    let health = eventually("the trouble", || {
        let (status, body) = monitor.get("/healthz");
        assert_eq!(status, 503, "{body}");
        let seen: Value = serde_json::from_str(&body).unwrap();
        Some(seen).filter(|seen| seen["trouble"].is_string())
    });
    assert_eq!((&health["state"], &health["seen_ms_ago"]), (&json!("unseen"), &Value::Null), "{health}");
    assert_eq!(monitor.json("/api/locks")["locks"], json!([]));
    assert!(monitor.get("/metrics").1.contains("lockkeeper_monitor_staleness_seconds +Inf\n"));
    assert_eq!(monitor.stop().0, Some(0));
}

#[test]
fn only_paths_methods_and_hosts_that_are_served_are_answered() {
    let monitor = Monitor::start(&Place::new(), &[]);
    let address = monitor.address.clone();
    let (status, body) = monitor.get("/%3Cscript%3E");
    assert!(status == 404 && !body.contains("<script>"), "{body}");
    assert_eq!(monitor.get("/api/locks?colour=red").0, 400);
    assert_eq!(monitor.get("/api/locks/a%0Ab").0, 400);
    assert_eq!(monitor.ask("POST /api/locks", &[format!("Host: {address}")], "").status, 405);
    for (host, status) in [("evil.example", 421), ("localhost:1", 200), ("127.0.0.1.evil.example", 421)] {
        assert_eq!(monitor.ask("GET /api/locks", &[format!("Host: {host}")], "").status, status, "{host}");
    }
    // A head without an end, and one that is too long, take nothing from others.
    let _slow = TcpStream::connect(&address).unwrap();
    let long = [format!("Host: {address}"), format!("X: {}", "x".repeat(10_000))];
    assert_eq!(monitor.ask("GET /", &long, "").status, 431);
    assert_eq!(monitor.get("/").0, 200);
}

#[test]
fn what_cannot_be_meant_is_refused_in_one_line_before_anything_is_served() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (options, words) in [
        (&["--listen", &*taken][..], &["--listen", &taken][..]),
        (&["--listen", "nowhere"], &["nowhere", "no address to listen on"]),
        (&["--also", "nightly"], &["--also", "`nightly` is no path"]),
        (&["--also", "/a//b"], &["--also", "/a//b"]),
        (&["--lock-metrics", ""], &["--lock-metrics", "empty"]),
    ] {
        place.run(&[&["monitor"], options].concat()).assert_refused(125, words);
    }
    for (text, words) in [
        ("[monitor]\nenable = true", "`enable`"),
        ("[monitor]\nwebhook = 'https://h'\nwebhook_ca = '/nowhere/ca.pem'", "/nowhere/ca.pem"),
    ] {
        place.configure(text);
        let ended = place.run(&["monitor", "--listen", "127.0.0.1:0"]);
        ended.assert_refused(125, &[]);
        // A build without TLS names the feature instead.
        let is_said = ended.stderr.contains(words) || ended.stderr.contains("built without the feature `tls`");
        assert!(is_said, "{ended:?}");
    }
}

#[test]
fn a_monitor_that_other_machines_may_reach_is_warned_of() {
    let place = Place::new();
    let monitor = Monitor::start_at(&place, "0.0.0.0:0", &[]);
    assert!(monitor.address.starts_with("0.0.0.0:"));
    assert!(monitor.line().starts_with("lockkeeper: warning: other machines may reach 0.0.0.0:"));
}

/// What comes with the project for operators.
fn contributed(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(file)
}

#[test]
fn the_unit_for_systemd_is_sound_and_starts_a_monitor() {
    let place = Place::new();
    let unit = include_str!("../../../../contrib/systemd/lockkeeper-monitor.service");
    if let Some(line) = sound_unit(&place, "lockkeeper-monitor.service", unit) {
        assert_eq!(line, "monitor --state ${STATE_DIRECTORY}/alerts", "it is what other tests start");
    }
}

#[test]
fn the_rules_for_prometheus_are_sound_and_tell_what_they_should() {
    if !has_file(PROMTOOL, "prometheus") {
        return;
    }
    for (what, file) in [("check", "lockkeeper.rules.yml"), ("test", "lockkeeper.rules.test.yml")] {
        let ended = finish(Command::new(PROMTOOL).args([what, "rules"]).arg(contributed("prometheus").join(file)));
        assert!(ended.code == Some(0) && ended.stdout.contains("SUCCESS"), "{ended:?}");
    }
}

#[test]
fn every_metric_that_is_named_for_operators_is_served_and_every_one_that_is_served_is_named() {
    let place = Place::new();
    let monitor = Monitor::start(&place, &["--lock-metrics", "*"]);
    let served = monitor.get("/metrics").1;
    let served: BTreeSet<&str> =
        served.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/operating.md");
    let dashboard = contributed("grafana/lockkeeper.json");
    let parsed: Value = serde_json::from_str(&std::fs::read_to_string(&dashboard).unwrap()).unwrap();
    assert!(parsed["panels"].as_array().is_some_and(|panels| !panels.is_empty()));
    let mut named = BTreeSet::new();
    for file in [guide, dashboard, contributed("prometheus/lockkeeper.rules.yml")] {
        let text = std::fs::read_to_string(&file).unwrap();
        for name in text.split(|mark: char| !mark.is_ascii_alphanumeric() && mark != '_') {
            if name.starts_with("lockkeeper_") {
                assert!(served.contains(name), "{name} in {} is not served", file.display());
                named.insert(name.to_owned());
            }
        }
    }
    assert_eq!(served, named.iter().map(String::as_str).collect(), "what is served is documented");
}
