//! Commands of whom Curator asks something, as it comes.

use std::time::Duration;

use lockkeeper_faults::peers::{Kind, curator};

use crate::support::can_run;
use crate::zookeeper::{LONG, server, site};

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/job";

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

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
