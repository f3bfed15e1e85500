//! A service whose servers all refuse: how long commands try, and what they print meanwhile.

use std::net::TcpListener;
use std::time::Duration;

use lockkeeper_faults::long;

use crate::support::{Place, Running, now};

/// A URL of an address at which no process listens.
pub(crate) fn refusing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("zk://{}", listener.local_addr().unwrap())
}

#[test]
fn what_does_not_wait_ends_within_two_seconds() {
    let place = Place::new();
    let url = refusing();
    let briefly = format!("{url}?connect_timeout=1s");
    for arguments in [
        &["run", "-n", "--connect", &url, "x", "--", "true"][..],
        &["run", "-w", "0", "--connect", &url, "x", "--", "true"],
        &["run", "-n", "-s", "--connect", &url, "x", "--", "true"],
        &["run", "-n", "--connect", &briefly, "x", "--", "true"],
        &["wait", "-w", "0", "--connect", &briefly, "x"],
    ] {
        let start = now();
        let ended = place.run(arguments);
        let took = now() - start;
        assert!(ended.code == Some(125) && ended.stderr.contains("Connection refused"), "{ended:?}");
        assert!(!arguments.contains(&&*briefly) || ended.stderr.lines().count() == 1, "{ended:?}");
        assert!(!long::is_asked_for() || took < Duration::from_secs(2), "{took:?}");
    }
}

#[test]
fn a_server_that_never_answers_is_given_up_after_the_connection_timeout() {
    let place = Place::new();
    // The kernel accepts, and no process answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for (scheme, is_built_in) in [
        ("zk", true),
        ("etcd", cfg!(feature = "etcd")),
        ("redis", cfg!(feature = "redis")),
        ("postgres", cfg!(feature = "postgres")),
        ("mariadb", cfg!(feature = "mysql")),
    ] {
        if is_built_in {
            let url = format!("{scheme}://{address}?connect_timeout=1s");
            let start = now();
            place.run(&["run", "-n", "--connect", &url, "x", "--", "true"]).assert_refused(125, &[]);
            let took = now() - start;
            assert!(!long::is_asked_for() || took < Duration::from_secs(2), "{scheme}: {took:?}");
        }
    }
}

#[test]
fn what_waits_tries_until_its_time_is_up_and_says_why_meanwhile() {
    let place = Place::new();
    let url = refusing();
    for command in
        [&["run", "-w", "4s", "--connect", &url, "x", "--", "true"][..], &["wait", "-w", "4s", "--connect", &url, "x"]]
    {
        let start = now();
        let ended = place.run(command);
        let took = now() - start;
        assert_eq!(ended.code, Some(125), "{ended:?}");
        assert!(took >= Duration::from_secs(4), "{took:?}");
        assert!(!long::is_asked_for() || took < Duration::from_secs(8), "{took:?}");
        let waits = format!("lockkeeper: waiting for x: cannot reach {url} (Connection refused), trying again; ");
        assert!(ended.stderr.lines().any(|line| line.starts_with(&waits)), "{ended:?}");
        assert!(ended.stderr.lines().last().unwrap().contains("Connection refused"), "{ended:?}");
    }
}

#[test]
fn looks_and_waits_go_on_when_the_service_is_there_again() {
    let place = Place::new();
    let url = refusing();
    for arguments in [&["show", "x"][..], &["ls"], &["wait", "x"]] {
        let looking = Running::start(&mut place.command(&[arguments, &["--connect", &url]].concat()));
        let line = looking.said();
        assert!(line.contains("trying again"), "{arguments:?}: {line}");
        let address = url.strip_prefix("zk://").unwrap();
        let _server = Running::start(&mut place.command(&["server", "--listen", address]));
        let ended = looking.end();
        assert_eq!(ended.code, Some(0), "{arguments:?}: {line}{ended:?}");
    }
}

#[test]
fn looks_are_tried_again_for_five_seconds_or_by_the_policy_of_the_config_file() {
    let place = Place::new();
    let url = refusing();
    let retry = "[retry]\npolicy = \"n-times\"\nmax_retries = 1\nbase_sleep = \"10ms\"";
    for (policy, tried, arguments) in
        [("", " for 5s", &["show", "x"][..]), (retry, "", &["show", "x"]), (retry, "", &["ls"])]
    {
        place.configure(&format!("url = \"{url}\"\n{policy}"));
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(125), "{ended:?}");
        let lines: Vec<_> = ended.stderr.lines().collect();
        let [again, failed] = lines[..] else { panic!("{ended:?}") };
        assert!(again.starts_with(&format!("lockkeeper: cannot look at {url}, trying again{tried}: ")), "{ended:?}");
        assert!(failed.contains("Connection refused"), "{ended:?}");
    }
}
