//! One queue with Curator, as it comes.

use std::time::Duration;

use lockkeeper_faults::peers::{Kind, curator};

use crate::support::{Ended, can_run};
use crate::zookeeper::{LONG, nodes, server, site};

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/job";

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn while_curator_holds_run_gives_up_with_124_and_while_run_holds_curator_gets_nothing() {
    if !can_run(curator::availability()) {
        return;
    }
    let Some(server) = server().await else { return };
    let address = server.address().to_string();
    let site = site(&server, LONG);
    let mut curator = curator::start(&address, SESSION_TIMEOUT).await.unwrap();

    assert_eq!(curator.try_lock(Kind::Mutex, PATH).await, Ok(true));
    // After a second it says what it waits for.
    for (options, lines) in [(&["-n"][..], 1), (&["-w", "4s"], 2)] {
        let Ended { code, stdout, stderr } = site.run(&[&["run"], options, &[PATH, "--", "echo", "ran"]].concat());
        assert_eq!((code, stdout.as_str()), (Some(124), ""), "{stderr}");
        assert_eq!(stderr.lines().count(), lines, "{stderr}");
        assert_eq!(nodes(&server).await.len(), 1, "the holder's alone is left");
    }
    let waiting = site.join(PATH, 1, "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done", &[]);
    curator.release(Kind::Mutex, PATH).await.unwrap();
    site.note("child");

    assert_eq!(curator.try_lock(Kind::Mutex, PATH).await, Ok(false));
    site.write("end", "");
    assert_eq!(waiting.end().code, Some(0));
    assert_eq!(curator.try_lock(Kind::Mutex, PATH).await, Ok(true));
    curator.release(Kind::Mutex, PATH).await.unwrap();
    assert_eq!(nodes(&server).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_curators_revoker_ends_the_command_or_is_only_reported_as_configured() {
    if !can_run(curator::availability()) {
        return;
    }
    let Some(server) = server().await else { return };
    let address = server.address().to_string();
    for (on_revoke, code, is_held) in [("stop", 143, false), ("ignore", 0, true)] {
        let site = site(&server, LONG);
        let script = r#"
            echo $LOCKKEEPER_CONTENDER > contender
            echo $$ > child
            while [ ! -e end ]; do sleep 0.01; done
            "$LOCKKEEPER" check"#;
        let holder = site.start(&["--on-revoke", on_revoke], PATH, script, &[]);
        site.note("child");
        let mut curator = curator::start(&address, SESSION_TIMEOUT).await.unwrap();
        curator.revoke(&format!("{PATH}/{}", site.read("contender").trim())).await.unwrap();
        holder.until_said(&format!("lockkeeper: {PATH}: asked to give the lock up"));
        if is_held {
            assert_eq!(curator.try_lock(Kind::Mutex, PATH).await, Ok(false), "it is still held");
            site.write("end", "");
        }
        let ended = holder.end();
        assert_eq!(ended.code, Some(code), "{on_revoke}: {ended:?}");
        assert_eq!(curator.try_lock(Kind::Mutex, PATH).await, Ok(true), "{on_revoke}");
        curator.release(Kind::Mutex, PATH).await.unwrap();
    }
}
