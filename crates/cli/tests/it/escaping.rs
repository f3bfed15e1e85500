//! Names, data and nodes of any client, with what a terminal obeys or a reader is deceived by: every command prints
//! them escaped, and JSON says the same.

use std::fs;

use lockkeeper_zookeeper::NewNode;
use serde_json::Value;

use crate::crossing::place_of;
use crate::monitor::Monitor;
use crate::server::Server;
use crate::support::{Ended, Place, Running, eventually};

/// A name of 200 bytes, with all that a name may have and a terminal or a page should not get.
fn hostile_name() -> String {
    let marks = "<script>\u{202e}\u{2066}\u{61c}\u{200f}\u{2028}\"'\\&amp;`$(x)`%s../\u{e000}\u{feff}";
    let name = format!("{marks}{}", "\u{202b}e".repeat(200));
    let mut end = 200;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}

/// Asserts that a text steers no terminal and turns no reading direction around.
fn assert_harmless(what: &str, text: &str) {
    let is_harmful = |letter: char| {
        letter != '\n' && letter.is_control()
            || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let harm: Vec<_> = text.lines().filter(|line| line.contains(is_harmful)).collect();
    assert!(harm.is_empty() && !text.contains('\r'), "{what}: {harm:?}");
}

/// Runs all commands that look, each as text and as JSON, and returns all that they print.
fn look_by_all(place: &Place, locks: &[&str]) -> String {
    let mut orders: Vec<Vec<&str>> = ["ls", "deadlocks", "doctor", "gc"].map(|command| vec![command]).into();
    orders.extend(locks.iter().map(|&lock| vec!["show", lock]));
    let mut all = String::new();
    for order in orders {
        let Ended { stdout, stderr, .. } = place.run(&order);
        let json = place.run(&[&order[..], &["--json"]].concat());
        for text in [&stdout, &stderr, &json.stdout, &json.stderr] {
            assert_harmless(&format!("{order:?}"), text);
        }
        serde_json::from_str::<Value>(&json.stdout).unwrap_or_else(|error| panic!("{error}: {order:?}: {json:?}"));
        all += &(stdout + &json.stdout);
    }
    all
}

/// Asks a monitor for all that it serves, and asserts what it is told by alerts.
fn assert_a_monitor_escapes(place: &Place, url: &str, lock: &str) {
    let told = place.locks().join("told");
    let command = format!(r#"['sh', '-c', 'cat >> "$0"', '{}']"#, told.display());
    let settings = format!("{url}\n[monitor]\nlong_hold_threshold = '100ms'\ncommand = {command}\n");
    place.configure(&settings);
    let monitor = Monitor::start(place, &["--lock-metrics", "*"]);
    // Other locks are held too.
    let alerts = eventually("an alert of the lock is told", || {
        let alerts = fs::read_to_string(&told).ok()?;
        let mut all = serde_json::Deserializer::from_str(&alerts).into_iter::<Value>().map_while(Result::ok);
        all.any(|alert| alert["lock"] == lock).then_some(alerts)
    });
    assert_harmless("the command's input", &alerts);
    let encoded: String = lock.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let of_lock = format!("/api/locks/{encoded}");
    for path in ["/api/locks", &of_lock, "/api/events", "/api/deadlocks", "/api/alerts", "/healthz"] {
        let (status, body) = monitor.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        assert_harmless(path, &body);
        serde_json::from_str::<Value>(&body).unwrap_or_else(|error| panic!("{error}: {path}: {body}"));
    }
    for path in ["/metrics", "/", "/api/locks/%1B%5B2J%E2%80%AE", "/api/locks?limit=%1B%E2%80%AE", "/%1B%E2%80%AE"] {
        assert_harmless(path, &monitor.get(path).1);
    }
    let (_, said) = monitor.stop();
    assert!(said.contains("holds it for"), "{said}");
    assert_harmless("the log", &said);
}

/// Has a lock of a hostile name held, waited for and frozen, and looks at it in all ways.
fn names_are_escaped(place: &Place, url: &str) {
    let (name, frozen) = (hostile_name(), "\u{202e}frozen");
    let _holder = place.hold_by(&["-q"], &name);
    let waiting = place.queue(&[], &name);
    assert_eq!(place.run(&["freeze", frozen, "--reason", "new \u{202e}disks"]).code, Some(0));
    let printed = look_by_all(place, &[&name, frozen]);
    assert!(printed.contains("<script>\\u{202e}\\u{2066}\\u{61c}\\u{200f}\\u{2028}"), "{printed}");
    assert!(printed.contains("<script>\\u202e\\u2066\\u061c\\u200f\\u2028"), "{printed}");
    let watch = Running::start(&mut place.command(&["show", &name, "--watch", "--json"]));
    let line = watch.line();
    assert_harmless("show --watch", &line);
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["name"], name);
    assert_a_monitor_escapes(place, url, &name);
    assert_eq!(place.run(&["thaw", frozen]).code, Some(0));
    drop((watch, waiting));
}

#[test]
fn names_are_escaped_everywhere_on_files() {
    names_are_escaped(&Place::new(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_data_of_other_clients_are_escaped_everywhere_on_zookeeper() {
    let server = Server::start(&Place::new(), &[]);
    let place = place_of(server.url());
    let client = server.client("").await;
    let harm = "\u{1b}[2J\u{9b}2J\r\n\u{202e}\u{61c}<b>";
    let owner = r#"{"host":"\u001b[2J\u202e","pid":7,"command":"\r\n\u061c","since":0}"#;
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    for (path, data) in [
        ("/lockkeeper", ""),
        ("/lockkeeper/door", ""),
        (&*format!("/lockkeeper/door/_c_{uuid}-lock-0000000001"), harm),
        (&*format!("/lockkeeper/door/_c_{uuid}-lock-0000000002"), owner),
        ("/lockkeeper/door/\u{202e}lock-0000000003", harm),
        ("/lockkeeper/door/\u{202e}\u{2066}-0000000004", harm),
        ("/lockkeeper/%1B%5B2J", harm),
        ("/lockkeeper/\u{202e}\u{61c}x", ""),
        ("/lockkeeper/\u{202e}\u{61c}x/lock-0000000001", harm),
    ] {
        client.create(NewNode::persistent(path).with_data(data.as_bytes().to_vec())).await.unwrap();
    }
    let printed = look_by_all(&place, &["door", "\u{202e}\u{61c}x"]);
    for word in ["blocks its lock for ever", "<b>", "\\u001b[2J", "0000000004"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    names_are_escaped(&place, &format!("url = '{}'", server.url()));
}
