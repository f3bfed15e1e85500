//! Commands beside plain locks of other clients, of a user with the least rights.

use lockkeeper_faults::redis::{Server, Setup};

use crate::redis_access::LEAST_RIGHTS;
use crate::services::Service;
use crate::site::{SETTINGS, Site, assert_refused};

async fn guarded() -> Option<Server> {
    if !Service::Redis.can_start() {
        return None;
    }
    let shared = LEAST_RIGHTS.replace("~{lockkeeper}*", "~{lockkeeper}* ~Lock-* ~count");
    let [ann, bob] = [format!("ann on >s3cret {shared} +pttl"), format!("bob on >s3cret {LEAST_RIGHTS} +pttl")];
    Some(Setup::new().user(&ann).user(&bob).start().await.expect("a server"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_once_another_clients_key_is_gone_and_keeps_others_out_meanwhile() {
    let Some(server) = guarded().await else { return };
    let site = Site::of(&format!("redis://ann:s3cret@{}?{SETTINGS}&layout=setnx", server.address()));
    let take = ["SET", "Lock-0", "theirs", "NX", "PX", "60000"];
    assert_eq!(server.ask::<Option<String>>(&take).await.expect("an answer").as_deref(), Some("OK"));
    let script = "echo $$ > child; until [ -e go ]; do sleep 0.02; done";
    let waiting = site.join("Lock-0", 1, script, &[]);
    let shown = site.run(&["show", "Lock-0"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("theirs"), "{shown:?}");
    assert!(!site.notes().join("child").exists());
    assert_eq!(server.ask::<u64>(&["DEL", "Lock-0"]).await.expect("an answer"), 1);
    site.note("child");
    assert_eq!(server.ask::<Option<String>>(&take).await.expect("an answer"), None, "ours holds it");
    site.write("go", "");
    assert_eq!(waiting.end().code, Some(0));
    assert_eq!(server.ask::<u64>(&["EXISTS", "Lock-0"]).await.expect("an answer"), 0);
    site.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_on_plain_locks_of_a_user_with_the_least_rights_count_without_losing_one() {
    let Some(server) = guarded().await else { return };
    let url = |user: &str| format!("redis://{user}:s3cret@{}?{SETTINGS}&layout=setnx", server.address());
    Site::of(&url("ann")).fifty_count("Redis, plain locks, least rights");
    assert_refused(&url("bob"), &["lacks the right", "key"]);
}
