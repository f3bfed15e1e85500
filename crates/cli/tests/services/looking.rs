//! Reports of `doctor`, `capabilities` and `check` about a service, and what looks leave there.

use lockkeeper_zk_proto::message::{Acl, Permissions};
use serde_json::Value;

use crate::site::Site;
use crate::support::Running;
use crate::zookeeper::{LONG, client, server, server_of_twenty_ticks, site};

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_and_check_tell_of_a_hold_with_a_deadline() {
    let Some(server) = server().await else { return };
    let site = site(&server, "?session_timeout=10s&tick=500ms");
    let promised = site.json(&["capabilities", "--json"]);
    assert_eq!((&promised["backend"], &promised["exclusion"]), (&"zookeeper".into(), &"timed".into()));
    assert_eq!((&promised["fencing"], &promised["stopped_holder"]), (&"service".into(), &"expires".into()));
    assert!(site.printed(&["capabilities"]).contains("zookeeper"));

    let script = r#""$LOCKKEEPER" check --json && echo "$LOCKKEEPER_TOKEN $LOCKKEEPER_CONTENDER""#;
    let stdout = site.printed(&["run", "job", "--", "sh", "-c", script]);
    let (checked, ours) = stdout.trim_end().rsplit_once('\n').unwrap();
    let checked: Value = serde_json::from_str(checked).unwrap();
    assert_eq!(checked["held"], true);
    let safe_for_ms = checked["safe_for_ms"].as_u64().expect("it has a deadline");
    assert!((2_000..10_000).contains(&safe_for_ms), "{safe_for_ms}");
    let (token, contender) = ours.split_once(' ').unwrap();
    assert_eq!(checked["token"], token);
    assert!(contender.starts_with("_c_") && contender.contains("-lock-"), "{contender}");
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_leave_no_session_and_a_waiter_needs_one_connection() {
    let Some(server) = server().await else { return };
    let site = site(&server, LONG);
    for line in [&["ls"][..], &["show", "job"], &["wait", "job"]] {
        site.printed(line);
        assert_eq!(server.metric("zk_global_sessions").await.unwrap() as u32, 0, "after {line:?}");
    }
    let holder = site.hold("job");
    let waiter = Running::start(&mut site.command(&["run", "job", "--", "true"]));
    let line = waiter.said();
    // It has looked at the queue for that.
    assert!(line.contains("held by"), "{line}");
    assert_eq!(server.metric("zk_global_sessions").await.unwrap() as u32, 2, "the holder's and the waiter's");
    holder.end();
    assert_eq!(waiter.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_chroot_does_not_exist_looks_say_so_as_run_does() {
    let Some(server) = server().await else { return };
    let site = site(&server, &format!("/no/such{LONG}"));
    let words = "the chroot /no/such does not exist";
    for line in
        [&["run", "x", "--", "true"][..], &["show", "x"], &["show", "--watch", "x"], &["wait", "x"], &["ls"], &["gc"]]
    {
        if line != ["gc"] || cfg!(feature = "monitor") {
            site.run(line).assert_refused(125, &[words]);
        }
    }
    let examined = site.run(&["doctor"]);
    assert!(examined.code == Some(2) && examined.stdout.contains(words), "{examined:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_works_for_a_user_who_may_only_list_the_queue() {
    let Some(server) = server().await else { return };
    let site = Site::of(&format!("zk://ann:secret@{}{LONG}&acl=creator", server.address()));
    let holder = site.hold("job");
    let ann = client(&server, "ann:secret@").await;
    let connect = format!("zk://{}", server.address());
    let wait = |options: &[&str]| site.run(&[&["wait", "job", "--connect", &connect], options].concat());
    let refused = wait(&["-w", "10s"]);
    assert_eq!(refused.code, Some(125), "{refused:?}");
    // The queue may be read by all, its contenders by no other user.
    let (mut acl, _) = ann.get_acl("/lockkeeper/job").await.unwrap();
    acl.push(Acl { permissions: Permissions::READ, ..Acl::open() });
    ann.set_acl("/lockkeeper/job", acl, None).await.unwrap();
    let in_use = wait(&["-w", "4s"]);
    assert_eq!(in_use.code, Some(124), "{in_use:?}");
    let waiter = Running::start(&mut site.command(&["wait", "job", "--connect", &connect]));
    let line = waiter.said();
    assert!(line.contains("waiting for job"), "{line}");
    holder.end();
    assert_eq!(waiter.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_ends_with_what_weighs_most_and_capabilities_with_what_is_left() {
    let Some(server) = server_of_twenty_ticks().await else { return };
    for (settings, code, exclusion, word) in [
        ("?session_timeout=6s&tick=500ms", 0, "timed", "note: the service is one server"),
        ("?session_timeout=60s&tick=500ms", 1, "timed", "warning: the server grants a session timeout of 10s"),
        ("?session_timeout=6s&tick=100ms", 2, "best-effort", "error: the URL says tick=100ms"),
    ] {
        let site = site(&server, settings);
        let ended = site.run(&["doctor"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(code), ""), "{settings}: {ended:?}");
        assert!(ended.stdout.lines().any(|line| line.starts_with(word)), "{settings}: {ended:?}");
        let promised: Value = site.run(&["capabilities", "--json"]).json();
        assert_eq!(promised["exclusion"], exclusion, "{promised}");
        assert_eq!(promised["findings"].as_array().unwrap().is_empty(), code == 0, "{promised}");
    }
}
