//! Tokens over a service whose data went back, or are gone.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_conformance::soon;
use lockkeeper_core::FencingToken;
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_recipes::Keeper;
use serde_json::json;
use tempfile::TempDir;

use crate::keeper;

/// How many grants a snapshot knows nothing of.
const GRANTS: usize = 20;

struct Stage {
    server: Server,
    ann: Keeper,
}

impl Stage {
    async fn set() -> Option<Self> {
        let server = Server::standalone_or_skip().await?;
        let ann = keeper(server.address(), "");
        Some(Self { server, ann })
    }
}

async fn grant(keeper: &Keeper) -> FencingToken {
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("the lock is granted");
    let token = guard.fencing_token();
    soon("the release", guard.release()).await.expect("it is given back");
    token
}

/// Takes the lock many times behind a snapshot; returns the snapshot's folder, and the last token.
async fn grants_behind_a_snapshot(server: &Server, keeper: &Keeper) -> (TempDir, FencingToken) {
    let mut last = grant(keeper).await;
    let folder = tempfile::tempdir().expect("a folder");
    server.save_snapshot(&folder.path().join("snapshot")).expect("saved");
    for _ in 0..GRANTS {
        let token = grant(keeper).await;
        assert!(token > last);
        last = token;
    }
    (folder, last)
}

#[tokio::test]
async fn tokens_grow_over_a_restored_snapshot_if_a_session_lives_over_it() {
    let Some(Stage { mut server, ann }) = Stage::set().await else { return };
    let address = server.address();
    let (folder, last) = grants_behind_a_snapshot(&server, &ann).await;
    server.restore_snapshot(&folder.path().join("snapshot")).await.expect("restored");
    let hers = grant(&ann).await;
    assert!(hers > last, "{hers} after {last}");
    let bobs = grant(&keeper(address, "")).await;
    assert!(bobs > hers, "{bobs} after {hers}");
}

/// Other clients bring the revisions beyond all that the session has seen before it comes back: then only the offset
/// shows that the data are older.
#[tokio::test]
async fn tokens_grow_over_a_snapshot_from_before_tokens_were_renewed_if_a_session_lives_over_it() {
    let Some(Stage { mut server, .. }) = Stage::set().await else { return };
    let address = server.address();
    let proxy = Proxy::of_bytes(address).await.expect("a proxy");
    let ann = keeper(proxy.address(), "");
    let (folder, _) = grants_behind_a_snapshot(&server, &ann).await;
    keeper(address, "").admin().after_restore().await.expect("tokens begin anew");
    let last = grant(&ann).await;
    proxy.blackhole();
    server.restore_snapshot(&folder.path().join("snapshot")).await.expect("restored");
    let put = json!({ "key": BASE64_STANDARD.encode("other"), "value": "" }).to_string();
    for _ in 0..10 * GRANTS {
        Server::ask(address, "/v3/kv/put", &put).await.expect("written");
    }
    proxy.heal();
    let hers = grant(&ann).await;
    assert!(hers > last, "{hers} after {last}");
}

#[tokio::test]
async fn tokens_grow_over_a_restored_snapshot_if_an_operator_has_deleted_the_offset() {
    let Some(Stage { mut server, ann }) = Stage::set().await else { return };
    let address = server.address();
    let (folder, last) = grants_behind_a_snapshot(&server, &ann).await;
    soon("closing", ann.close()).await.expect("closed");
    server.restore_snapshot(&folder.path().join("snapshot")).await.expect("restored");
    let offset = json!({ "key": BASE64_STANDARD.encode("/lockkeeper/e") });
    Server::ask(address, "/v3/kv/deleterange", &offset.to_string()).await.expect("deleted");
    let bobs = grant(&keeper(address, "")).await;
    assert!(bobs > last, "{bobs} after {last}");
}
