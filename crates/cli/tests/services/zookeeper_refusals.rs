//! Servers of ZooKeeper that cannot be reached or used, and URLs that are not valid: one clear line, in time.

use std::net::TcpListener;
use std::time::Duration;

use lockkeeper_faults::long;
use lockkeeper_faults::ports::ReservedPort;

use crate::site::Site;
use crate::support::now;
use crate::zookeeper::{nodes, server, site};

/// How much longer than its wait a command may take to start, leave and end; judged in the long run.
const LATE_MAX: Duration = Duration::from_millis(1_500);

/// Runs a command that must fail, and asserts that its last line says why with these words, and after how many seconds;
/// returns what it said before.
fn assert_refused(site: &Site, line: &[&str], words: &[&str], after_s: u64) -> String {
    let begun = now();
    let mut ended = site.run(line);
    let took = begun.elapsed();
    let end = ended.stderr.trim_end().rfind('\n').map_or(0, |end| end + 1);
    let last = ended.stderr.split_off(end);
    let before = std::mem::replace(&mut ended.stderr, last);
    ended.assert_refused(125, words);
    let within = Duration::from_secs(after_s) + LATE_MAX;
    assert!(!long::is_asked_for() || took < within, "{line:?} took {took:?}");
    before
}

fn site_of(address: &str, settings: &str) -> Site {
    Site::of(&format!("zk://{address}{settings}"))
}

#[test]
fn a_look_at_a_server_that_cannot_be_reached_is_given_up_after_five_seconds() {
    // An ensemble that elects a leader refuses too, so a look is tried again for a while.
    let address = ReservedPort::take().unwrap().address().to_string();
    let site = site_of(&address, "");
    for line in [&["show", "job"][..], &["ls"]] {
        let before = assert_refused(&site, line, &[&address, "refused"], 5);
        assert_eq!(before.matches("trying again for 5s").count(), 1, "{before}");
    }
}

#[test]
fn a_server_that_takes_the_connection_and_does_not_answer_is_given_up_in_time() {
    // Never accepted: the kernel takes connections all the same.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let site = site_of(&address, "");
    let wait = ["run", "-w", "2s", "job", "--", "true"];
    assert_eq!(assert_refused(&site, &wait, &["job: ", &address, "not answered"], 2), "");
    let site = site_of(&address, "?connect_timeout=1s");
    assert_eq!(assert_refused(&site, &["run", "-n", "job", "--", "true"], &[&address, "no session"], 1), "");
    // A look is tried again for five seconds, and its last try has its own second.
    assert_refused(&site, &["show", "job"], &[&address, "no session"], 6);
}

#[test]
fn what_is_wrong_with_a_url_is_named() {
    for (settings, words) in [
        ("?sesion_timeout=3s", &["`sesion_timeout`", "`session_timeout`"][..]),
        ("?session_timeout=soon", &["session_timeout", "`soon`"]),
        ("?session_timeout=10ms", &["`session_timeout`", "`1s`"]),
        ("?layout=zookeeper", &["layout"]),
        ("?foreign=eat", &["foreign"]),
        ("?base=locks", &["`base`"]),
        ("/../x", &["chroot"]),
    ] {
        let site = site_of("127.0.0.1:1", settings);
        for line in [&["run", "job", "--", "true"][..], &["ls"]] {
            assert_eq!(assert_refused(&site, line, words, 0), "");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_that_does_not_exist_is_reported_and_nothing_is_made() {
    let Some(server) = server().await else { return };
    let site = site(&server, "/nowhere");
    let line = ["run", "-w", "10m", "job", "--", "true"];
    assert_eq!(assert_refused(&site, &line, &["/nowhere", "chroot"], 1), "");
    assert_eq!(nodes(&server).await, [""; 0]);
}
