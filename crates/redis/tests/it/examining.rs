//! Findings of an examination on real servers.

use std::sync::Arc;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{
    Advice, Backend, ErrorKind, Exclusion, Fencing, Finding, Requirement, Scrutiny, Severity, StoppedHolder,
};
use lockkeeper_faults::redis::{Flush, Server, Setup};
use lockkeeper_recipes::Keeper;

use crate::backend;

async fn examine(server: &Server, scrutiny: Scrutiny) -> Vec<Finding> {
    soon("the examination", backend(server.address(), "").admin().examine(scrutiny)).await.expect("it is examined")
}

/// Asserts that these are found and nothing else, by how they matter and a word of each.
async fn assert_found(server: &Server, expected: &[(Severity, &str)]) {
    let found = examine(server, Scrutiny::Full).await;
    let is_one = |(finding, (severity, word)): (&Finding, &(Severity, &str))| {
        finding.severity == *severity && finding.what.contains(word)
    };
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_one), "{expected:?}: {found:?}");
    let left: Vec<String> = server.ask(&["KEYS", "*"]).await.expect("a look");
    assert_eq!(left, Vec::<String>::new(), "the examination leaves nothing");
}

#[tokio::test]
async fn a_server_is_examined_and_nothing_is_left_there() {
    let note = (Severity::Note, "no replica");
    let durable = Setup::new().append_only(Flush::Always);
    let Some(durable) = Server::start_or_skip(durable).await else { return };
    assert_found(&durable, &[note]).await;
    assert_eq!(examine(&durable, Scrutiny::Brief).await, []);
    let forgetful = Server::standalone().await.expect("a server");
    assert_found(&forgetful, &[(Severity::Warning, "all grants"), note]).await;
    let evicting = Setup::new().append_only(Flush::EverySecond).memory(64 << 20, "allkeys-lru");
    let evicting = evicting.start().await.expect("a server");
    assert_found(&evicting, &[(Severity::Error, "allkeys-lru"), (Severity::Note, "last second"), note]).await;
    let in_brief = examine(&evicting, Scrutiny::Brief).await;
    assert!(in_brief.len() == 1 && in_brief[0].severity == Severity::Error, "{in_brief:?}");
}

#[tokio::test]
async fn a_server_whose_memory_is_full_is_found() {
    let setup = Setup::new().append_only(Flush::Always);
    let Some(server) = Server::start_or_skip(setup).await else { return };
    server.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await.expect("a limit");
    assert_found(&server, &[(Severity::Note, "no replica"), (Severity::Error, "no contender can join")]).await;
}

#[tokio::test]
async fn a_master_is_examined_with_its_replicas() {
    let setup = Setup::new().append_only(Flush::Always);
    let Some(master) = Server::start_or_skip(setup).await else { return };
    let replica = Setup::new().replica_of(&master).start().await.expect("a replica");
    replica.replicating().await.expect("a replica");
    let is_online = async || {
        examine(&master, Scrutiny::Full).await.iter().all(|one| !one.what.contains("not all data")).then_some(())
    };
    lockkeeper_faults::wait::until("the replica", SOON, is_online).await.expect("it is online");
    assert_found(&master, &[(Severity::Warning, "cut off")]).await;
    for (count, expected) in
        [("1", &[][..]), ("2", &[(Severity::Error, "asks for 2"), (Severity::Error, "fewer good replicas")])]
    {
        master.ask::<String>(&["CONFIG", "SET", "min-replicas-to-write", count]).await.expect("a setting");
        assert_found(&master, expected).await;
    }
}

#[tokio::test]
async fn a_clock_that_differs_from_ours_is_found() {
    let setup = Setup::new().append_only(Flush::Always).movable_clock();
    let Some(server) = Server::start_or_skip(setup).await else { return };
    server.move_clock(600).await.expect("its clock moves");
    assert_found(&server, &[(Severity::Note, "no replica"), (Severity::Warning, "ahead of")]).await;
    server.move_clock(-600).await.expect("its clock moves");
    assert_found(&server, &[(Severity::Note, "no replica"), (Severity::Warning, "behind")]).await;
}

#[tokio::test]
async fn a_program_that_requires_more_than_redis_promises_is_refused_before_the_first_grant() {
    let Some(server) = Server::start_or_skip(Setup::new()).await else { return };
    let requiring = |promise: Requirement| Keeper::builder(Arc::new(backend(server.address(), ""))).require(promise);
    let unmet = requiring(Exclusion::Timed.into()).build();
    let error = soon("the refusal", unmet.mutex("door").unwrap().lock()).await.unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent));
    assert!(error.to_string().contains("best effort"), "{error}");
    let left: Vec<String> = server.ask(&["KEYS", "*"]).await.expect("a look");
    assert_eq!(left, Vec::<String>::new(), "nothing is left there");
    let met = requiring(Fencing::Clock.into()).require(StoppedHolder::Expires).build();
    let guard = soon("the grant", met.mutex("door").unwrap().lock()).await.expect("it is granted");
    guard.release().await.expect("it is given back");
}
