//! `ls`, `show`, `wait`, `capabilities` and `check`: what is shown of a service is what is there.

use lockkeeper_zk_proto::message::{Acl, Permissions};
use serde_json::Value;

use crate::site::Site;
use crate::support::{Ended, Running};
use crate::zookeeper::{LONG, client, server, site};

#[tokio::test(flavor = "multi_thread")]
async fn ls_and_show_tell_who_holds_and_who_waits() {
    let Some(server) = server().await else { return };
    let address = server.address().to_string();
    let site = site(&server, LONG);
    assert_eq!(site.printed(&["ls"]), "");
    assert_eq!(site.json(&["ls", "--json"]), Value::Array(Vec::new()));
    let empty = site.printed(&["show", "reports/daily"]);
    assert!(empty.starts_with("reports/daily (zk://") && empty.contains("free, no waiters"), "{empty}");

    let holder = site.hold("reports/daily");
    let other = site.hold("other");
    let waiter = site.join("reports/daily", 1, "true", &[]);
    let ephemerals = server.ephemerals().await.unwrap();
    let shown = site.json(&["show", "--json", "reports/daily"]);
    assert_eq!(shown["kind"], "mutex");
    assert!(shown["service"].as_str().unwrap().contains(&address));
    let contenders = shown["contenders"].as_array().unwrap();
    assert_eq!(contenders.len(), 2);
    for (contender, state) in contenders.iter().zip(["holder", "waiter"]) {
        assert_eq!(contender["state"], state);
        assert_eq!(contender["owner"]["command"], "sh");
        // By the server's own account: this session has made this node.
        let path = format!("/lockkeeper/reports%2Fdaily/{}", contender["id"].as_str().unwrap());
        let (session, _) = ephemerals.iter().find(|(_, node)| *node == path).expect("the node is there");
        assert_eq!(contender["session"], format!("{session:#x}"));
    }
    assert_eq!(contenders[0]["owner"]["pid"], holder.process.id());
    let tokens: Vec<u64> =
        contenders.iter().map(|contender| contender["token"].as_str().unwrap().parse().unwrap()).collect();
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    let text = site.printed(&["show", "reports/daily"]);
    assert!(text.contains("holder") && text.contains(&format!("pid {} sh", holder.process.id())), "{text}");

    let listed = site.json(&["ls", "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["other", "reports/daily"]);
    assert_eq!((&listed[1]["waiters"], &listed[1]["holders"][0]["token"]), (&1.into(), &tokens[0].to_string().into()));
    assert!(site.printed(&["ls", "rep"]).contains("reports/daily"));
    assert!(!site.printed(&["ls", "rep"]).contains("other"));

    holder.end();
    other.end();
    assert_eq!(waiter.end().code, Some(0));
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_when_the_last_has_left_or_its_time_is_up() {
    let Some(server) = server().await else { return };
    let site = site(&server, LONG);
    assert_eq!(site.run(&["wait", "job"]).code, Some(0), "it is free");
    let holder = site.hold("job");
    // After a second it says what it waits for.
    for (limit, lines) in [("0", 1), ("4s", 2)] {
        let Ended { code, stderr, .. } = site.run(&["wait", "job", "-w", limit]);
        assert_eq!(code, Some(124), "{stderr}");
        assert!(stderr.ends_with(" is still in use\n") && stderr.lines().count() == lines, "{stderr}");
    }
    let waiter = site.join("job", 1, "echo $$ > second; while [ ! -e end ]; do sleep 0.01; done", &[]);
    let mut waiting = Running::start(&mut site.command(&["wait", "job", "-w", "10m"]));
    holder.end();
    site.note("second");
    assert!(!waiting.is_over(), "one still holds it");
    site.write("end", "");
    assert_eq!(waiting.end().code, Some(0), "long before its own time is up");
    assert_eq!(waiter.end().code, Some(0));
}

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
