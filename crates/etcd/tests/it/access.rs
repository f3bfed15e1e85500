//! Users: who may do what, and what they are told.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Advice, ErrorKind};
use lockkeeper_etcd::EtcdBackend;
use lockkeeper_faults::etcd::Server;
use lockkeeper_recipes::Keeper;
use serde_json::{Value, json};

use crate::open;
use crate::operator::Operator;

const PASSWORD: &str = "s:cret";

async fn ask(address: SocketAddr, path: &str, request: Value) {
    Server::ask(address, path, &request.to_string()).await.expect(path);
}

fn below_the_base() -> [String; 2] {
    ["/lockkeeper/", "/lockkeeper0"].map(|key| BASE64_STANDARD.encode(key))
}

/// A request that lets the role `locks` read and write below `/lockkeeper/`.
pub(crate) fn right_granted() -> Value {
    let [key, range_end] = below_the_base();
    json!({ "name": "locks", "perm": { "permType": 2, "key": key, "range_end": range_end } })
}

pub(crate) fn right_revoked() -> Value {
    let [key, range_end] = below_the_base();
    json!({ "role": "locks", "key": key, "range_end": range_end })
}

pub(crate) fn all_contenders() -> Value {
    let [key, range_end] = ["/lockkeeper/q/", "/lockkeeper/q0"].map(|key| BASE64_STANDARD.encode(key));
    json!({ "key": key, "range_end": range_end })
}

/// A server that knows `root` and `ann`, whose role is to read and write below `/lockkeeper/`.
/// The test that asks is skipped if there is none.
pub(crate) async fn guarded() -> Option<Server> {
    let server = Server::standalone_or_skip().await?;
    let address = server.address();
    ask(address, "/v3/auth/role/add", json!({ "name": "locks" })).await;
    ask(address, "/v3/auth/role/grant", right_granted()).await;
    for (user, role) in [("root", "root"), ("ann", "locks")] {
        ask(address, "/v3/auth/user/add", json!({ "name": user, "password": PASSWORD })).await;
        if role == "root" {
            ask(address, "/v3/auth/role/add", json!({ "name": role })).await;
        }
        ask(address, "/v3/auth/user/grant", json!({ "user": user, "role": role })).await;
    }
    ask(address, "/v3/auth/enable", json!({})).await;
    Some(server)
}

/// Changes users and roles of a server that asks who we are.
pub(crate) async fn operate(address: SocketAddr, path: &str, request: Value) {
    let login = json!({ "name": "root", "password": PASSWORD }).to_string();
    let answer = Server::ask(address, "/v3/auth/authenticate", &login).await.expect("root");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let token = answer["token"].as_str().expect("a token");
    Server::ask_as(address, token, path, &request.to_string()).await.expect(path);
}

/// The service, as `ann` uses it.
pub(crate) fn as_ann(address: SocketAddr, settings: &str) -> EtcdBackend {
    open(&format!("etcd://ann:s%3Acret@{address}{settings}"))
}

async fn refusal(url: &str) -> lockkeeper_core::Error {
    let keeper = Keeper::new(Arc::new(open(url)));
    let locking = keeper.mutex("door").expect("a name").try_lock().await;
    locking.expect_err("it is refused")
}

#[tokio::test]
async fn a_user_of_the_least_rights_locks_and_others_are_told_why_they_cannot() {
    let Some(server) = guarded().await else { return };
    let address = server.address();
    let keeper = Keeper::new(Arc::new(as_ann(address, "")));
    let guard = soon("the grant", keeper.mutex("door").expect("a name").lock()).await.expect("the lock is granted");
    assert_eq!(keeper.contenders("door").await.expect("a look").len(), 1);
    assert_eq!(keeper.admin().queues("").await.expect("a look").len(), 1);
    soon("the release", guard.release()).await.expect("it is given back");

    soon("the end", keeper.close()).await.expect("the end");

    for (url, what, base) in [
        (format!("etcd://ann:wrong@{address}"), "authentication failed", "/lockkeeper/"),
        (format!("etcd://ann:s%3Acret@{address}/elsewhere"), "permission denied", "/elsewhere/"),
        (format!("etcd://{address}"), "user", "/lockkeeper/"),
    ] {
        let error = soon("the refusal", refusal(&url)).await;
        let told = format!("{error:#}");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::Refused, Advice::Permanent), "{told}");
        assert!(told.contains(what) && told.contains(base), "{told}");
        assert!(!told.contains(PASSWORD) && !told.contains('\n'), "{told}");
    }
    let ended = async || Operator(address).leases().await.expect("a look").is_empty().then_some(());
    lockkeeper_faults::wait::until("no session", SOON, ended).await.expect("nothing is left");
}
