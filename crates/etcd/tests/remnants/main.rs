//! Remnants are removed again and again on a real server while clients come and go. No contender that lives is ever
//! removed, and what was listed and dead is gone in the end, unless it was written since.
//!
//! A thousand rounds in `cargo xtask test --long`, a tenth otherwise. The file is alone, since it plays long rounds.

#[path = "../support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_conformance::soon;
use lockkeeper_core::{Remnant, RemnantKind, Severity, Wait};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::{figures, long};
use lockkeeper_recipes::{Keeper, LockKind};
use lockkeeper_trials::Passers;
use serde_json::{Value, json};

use crate::service::ETCD;

/// How often all that is left is removed in the long run.
const ROUNDS: u32 = 1_000;

/// In one round of this number what is dead is written after it was listed.
const WRITTEN_EACH: u32 = 3;

fn keeper(address: SocketAddr) -> Keeper {
    ETCD.keeper(&[address], "")
}

async fn remnants(keeper: &Keeper) -> Vec<Remnant> {
    soon("the remnants", keeper.admin().remnants(Duration::ZERO)).await.expect("they are listed")
}

async fn remove(keeper: &Keeper, remnant: &Remnant) -> bool {
    soon("a removal", keeper.admin().remove_remnant(remnant)).await.expect("it is removed or left")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_contender_that_lives_is_removed_while_clients_come_and_go() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let address = server.address();
    let standing = keeper(address);
    let held = standing.mutex("held").unwrap().lock().await.unwrap();
    assert!(standing.admin().freeze("frozen", LockKind::Mutex, "disks", Wait::Forever).await.unwrap().is_some());
    let passers = Passers::start(move || keeper(address));
    let eve = keeper(address);
    let (mut removed, mut left) = (0, 0);
    let rounds = long::rounds(ROUNDS);
    for round in 0..rounds {
        // A contender as one stood there, without its lease.
        let lock = format!("dead-{round}");
        let guard = standing.mutex(&lock).unwrap().lock().await.unwrap();
        let [dead] = contenders(address, &lock).await.try_into().expect("one stands there");
        guard.release().await.unwrap();
        put(address, &dead).await;
        if round == 0 {
            let findings = soon("the findings", eve.admin().examine()).await.expect("it can be examined");
            let told = findings.iter().find(|finding| finding.what.contains("blocks its lock for ever"));
            assert!(told.is_some_and(|told| told.severity == Severity::Error), "{findings:?}");
        }
        let mut found = remnants(&eve).await;
        if round % WRITTEN_EACH == 0 {
            put(address, &dead).await;
            assert!(!remove(&eve, &found[0]).await, "it was written since");
            left += 1;
            found = remnants(&eve).await;
        }
        let [found] = found.try_into().expect("nothing but what is dead");
        let name = found.lock.as_ref().map(|lock| lock.as_str());
        assert_eq!((found.kind, name), (RemnantKind::Unbound, Some(lock.as_str())));
        assert!(remove(&eve, &found).await);
        assert!(contenders(address, &lock).await.is_empty(), "it is removed");
        removed += 1;
        passers.check();
    }
    let holds = passers.end().await;
    assert!(held.hold().is_held());
    assert_eq!(standing.contenders("frozen").await.unwrap().len(), 1);
    assert!(remnants(&eve).await.is_empty());
    figures::tell(&format!(
        "gc on etcd: {rounds} rounds, {holds} holds meanwhile and none lost, {removed} removed, {left} left since they \
         were written"
    ));
}

async fn ask(address: SocketAddr, path: &str, request: Value) -> Value {
    let answer = Server::ask(address, path, &request.to_string()).await.expect(path);
    serde_json::from_str(&answer).expect("an answer in JSON")
}

/// The keys of the contenders of this lock, with what is stored there; both as the server encodes them.
async fn contenders(address: SocketAddr, lock: &str) -> Vec<(String, String)> {
    let (begin, end) = (format!("/lockkeeper/q/{lock}/"), format!("/lockkeeper/q/{lock}0"));
    let range = json!({ "key": BASE64_STANDARD.encode(begin), "range_end": BASE64_STANDARD.encode(end) });
    let found = ask(address, "/v3/kv/range", range).await;
    let text = |kv: &Value, field| kv[field].as_str().expect("a text").to_owned();
    found["kvs"].as_array().into_iter().flatten().map(|kv| (text(kv, "key"), text(kv, "value"))).collect()
}

async fn put(address: SocketAddr, (key, value): &(String, String)) {
    ask(address, "/v3/kv/put", json!({ "key": key, "value": value })).await;
}
