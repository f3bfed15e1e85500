//! Servers that cannot be reached or used, and URLs that are not valid: one clear line, in time.

use std::net::TcpListener;
use std::time::Duration;

use lockkeeper_faults::long;
use lockkeeper_faults::ports::ReservedPort;

use crate::site::{LONG, Site, can_start, nodes, server};
use crate::support::{Ended, now};

/// How much longer than its wait a command may take to start, leave and end; judged in the long run.
const LATE_MAX: Duration = Duration::from_millis(1_500);

/// Runs a command that must fail, and asserts that it says why in one line with these words, and after how long.
fn assert_refused(site: &Site, line: &[&str], words: &[&str], after: Duration) {
    let stderr = assert_refused_at_last(site, line, words, after);
    assert_eq!(stderr.lines().count(), 1, "{line:?}: {stderr}");
}

/// Runs a command that must fail, and asserts that its last line says why with these words, and after how long.
fn assert_refused_at_last(site: &Site, line: &[&str], words: &[&str], after: Duration) -> String {
    let begun = now();
    let Ended { code, stdout, stderr } = site.place.run(line);
    let took = begun.elapsed();
    assert_eq!((code, stdout.as_str()), (Some(125), ""), "{line:?}: {stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("lockkeeper: "), "{line:?}: {stderr}");
    for word in words {
        assert!(last.contains(word), "{line:?}: {stderr}");
    }
    assert!(!long::is_asked_for() || took < after + LATE_MAX, "{line:?} took {took:?}");
    stderr
}

#[test]
fn a_server_that_cannot_be_reached_is_named_when_the_time_is_up() {
    let port = ReservedPort::take().unwrap();
    let address = port.address().to_string();
    let site = Site::new(&address, "");
    let wait = ["run", "-w", "2s", "job", "--", "true"];
    let stderr = assert_refused_at_last(&site, &wait, &["job: ", &address, "refused"], Duration::from_secs(2));
    assert!(stderr.contains("cannot reach") && stderr.contains("trying again"), "{stderr}");
    let site = Site::new(&address, "?connect_timeout=1s");
    assert_refused(&site, &["run", "-n", "job", "--", "true"], &[&address, "refused"], Duration::from_secs(1));
    assert_refused(&site, &["wait", "-w", "0", "job"], &[&address, "refused"], Duration::from_secs(1));
    let stderr =
        assert_refused_at_last(&site, &["wait", "-w", "2s", "job"], &[&address, "refused"], Duration::from_secs(2));
    assert!(stderr.contains("cannot reach") && stderr.contains("trying again"), "{stderr}");
    // An ensemble that elects a leader refuses too, so a look is tried again for a while.
    for line in [&["show", "job"][..], &["ls"]] {
        let stderr = assert_refused_at_last(&site, line, &[&address, "refused"], Duration::from_secs(5));
        assert_eq!(stderr.matches("trying again for 5s").count(), 1, "{stderr}");
    }
}

#[test]
fn a_server_that_takes_the_connection_and_does_not_answer_is_given_up_in_time() {
    // Never accepted: the kernel takes connections all the same.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let site = Site::new(&address, "");
    let wait = ["run", "-w", "2s", "job", "--", "true"];
    assert_refused(&site, &wait, &["job: ", &address, "not answered"], Duration::from_secs(2));
    let site = Site::new(&address, "?connect_timeout=1s");
    assert_refused(&site, &["run", "-n", "job", "--", "true"], &[&address, "no session"], Duration::from_secs(1));
    // A look is tried again for five seconds, and its last try has its own second.
    assert_refused_at_last(&site, &["show", "job"], &[&address, "no session"], Duration::from_secs(6));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_held_is_a_conflict_and_not_a_failure() {
    if !can_start("refusal::a_lock_that_is_held_is_a_conflict_and_not_a_failure") {
        return;
    }
    let server = server().await;
    let site = Site::new(&server.address().to_string(), LONG);
    let holder = site.place.hold("job");
    // After a second it says what it waits for.
    for (options, lines) in [(&["-n"][..], 1), (&["-w", "0"], 1), (&["-w", "4s"], 2)] {
        let Ended { code, stderr, .. } = site.place.run(&[&["run"], options, &["job", "--", "true"]].concat());
        assert_eq!(code, Some(124), "{options:?}: {stderr}");
        assert_eq!(stderr.lines().count(), lines, "{stderr}");
        assert_eq!(nodes(&server).await.len(), 1, "the holder's alone is left");
    }
    holder.end();
    assert_eq!(nodes(&server).await, [""; 0]);
}

#[test]
fn what_is_wrong_with_a_url_is_named() {
    for (settings, words) in [
        ("?sesion_timeout=3s", &["`sesion_timeout`", "`session_timeout`"][..]),
        ("?session_timeout=soon", &["session_timeout", "`soon`"]),
        ("?session_timeout=10ms", &["session timeout", "1s"]),
        ("?layout=zookeeper", &["layout"]),
        ("?foreign=eat", &["foreign"]),
        ("?base=locks", &["`base`"]),
        ("/../x", &["chroot"]),
    ] {
        let site = Site::new("127.0.0.1:1", settings);
        for line in [&["run", "job", "--", "true"][..], &["ls"]] {
            assert_refused(&site, line, words, Duration::ZERO);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_reported_and_nothing_is_made() {
    if !can_start("refusal::a_chroot_that_does_not_exist_is_reported_and_nothing_is_made") {
        return;
    }
    let server = server().await;
    let site = Site::new(&server.address().to_string(), "/nowhere");
    let line = ["run", "-w", "10m", "job", "--", "true"];
    assert_refused(&site, &line, &["/nowhere", "chroot"], Duration::from_secs(1));
    assert_eq!(nodes(&server).await, [""; 0]);
}
