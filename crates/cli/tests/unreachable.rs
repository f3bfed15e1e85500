//! A service whose servers all refuse: how long commands try, and what they say meanwhile.

mod cli_support;
mod run_support;

use std::net::TcpListener;
use std::time::Duration;

use cli_support::Place;
use run_support::now;

/// Where nobody listens.
fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("zk://{}", listener.local_addr().unwrap())
}

#[test]
fn a_run_that_does_not_wait_ends_within_two_seconds() {
    let place = Place::new();
    let url = refusing();
    for arguments in [
        &["run", "-n", "--connect", &url, "x", "--", "true"][..],
        &["run", "-w", "0", "--connect", &url, "x", "--", "true"],
        &["run", "-n", "-s", "--connect", &url, "x", "--", "true"],
    ] {
        let start = now();
        let ended = place.run(arguments);
        let took = now() - start;
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(ended.stderr.contains("Connection refused"), "{ended:?}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn a_run_that_waits_tries_until_its_time_is_up_and_says_why_meanwhile() {
    let place = Place::new();
    let url = refusing();
    let start = now();
    let ended = place.run(&["run", "-w", "4s", "--connect", &url, "x", "--", "true"]);
    let took = now() - start;
    assert_eq!(ended.code, Some(125), "{ended:?}");
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&took), "{took:?}");
    let waits = format!("lockkeeper: waiting for x: cannot reach {url} (");
    let line = ended.stderr.lines().find(|line| line.starts_with(&waits));
    let line = line.unwrap_or_else(|| panic!("{ended:?}"));
    assert!(line.contains("Connection refused") && line.contains("), trying again; "), "{line}");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("Connection refused"), "{ended:?}");
}
