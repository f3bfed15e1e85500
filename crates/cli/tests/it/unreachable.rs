//! A service whose servers all refuse: how long commands try, and what they print meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use lockkeeper_faults::long;

use crate::support::{Place, TestChild, ended, in_time, now};

/// An address at which no process listens.
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
        assert!(!long::is_asked_for() || took < Duration::from_secs(2), "{took:?}");
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
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(!long::is_asked_for() || took < Duration::from_secs(8), "{took:?}");
    let waits = format!("lockkeeper: waiting for x: cannot reach {url} (Connection refused), trying again; ");
    assert!(ended.stderr.lines().any(|line| line.starts_with(&waits)), "{ended:?}");
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.contains("Connection refused"), "{ended:?}");
}

#[test]
fn looks_and_waits_go_on_when_the_service_is_there_again() {
    let place = Place::new();
    let url = refusing();
    for arguments in [&["show", "x"][..], &["ls"], &["wait", "x"]] {
        let arguments = [arguments, &["--connect", &url]].concat();
        let mut command =
            TestChild(place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        let mut stderr = BufReader::new(command.0.stderr.take().unwrap());
        let said = move || {
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            (line, stderr)
        };
        let (line, mut stderr) = in_time("it says that it tries again", said);
        assert!(line.contains("trying again"), "{arguments:?}: {line}");
        let address = url.strip_prefix("zk://").unwrap();
        let _server = TestChild(place.command(&["server", "--listen", address]).stderr(Stdio::null()).spawn().unwrap());
        let code = ended(&mut command.0).code();
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).unwrap();
        assert_eq!(code, Some(0), "{arguments:?}: {line}{rest}");
    }
}

#[test]
fn looks_are_tried_again_by_the_policy_of_the_config_file() {
    let place = Place::new();
    let url = refusing();
    let retry = "[retry]\npolicy = \"n-times\"\nmax_retries = 1\nbase_sleep = \"10ms\"";
    place.file(".config/lockkeeper/config.toml", &format!("url = \"{url}\"\n{retry}"));
    for arguments in [&["show", "x"][..], &["ls"]] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, Some(125), "{ended:?}");
        let lines: Vec<_> = ended.stderr.lines().collect();
        let [again, failed] = lines[..] else { panic!("{ended:?}") };
        assert!(again.starts_with(&format!("lockkeeper: cannot look at {url}, trying again: ")), "{ended:?}");
        assert!(failed.contains("Connection refused"), "{ended:?}");
    }
}
