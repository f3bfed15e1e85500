//! Copies on replicas, where the URL asks for them.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Advice, Backend, ErrorKind};
use lockkeeper_faults::redis::{Server, Setup};
use lockkeeper_faults::wait;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::backend;

/// A replica has a tenth of the session timeout to have its copy.
const COPIES: &str = "?replicas=1&session_timeout=10s";

/// Long enough for one on a busy machine.
const PATIENT_COPIES: &str = "?replicas=1&session_timeout=40s";

/// Waits until the master counts its replica: until then it asks it for nothing.
async fn until_heard_of(master: &Server) {
    let is_heard_of = async || {
        let replica = master.info("slave0").await.ok()?;
        (replica.contains("state=online") && replica.contains("lag=0")).then_some(())
    };
    wait::until("the replica is heard of", SOON, is_heard_of).await.expect("it is heard of");
}

#[tokio::test]
async fn a_join_counts_once_a_replica_has_it_and_is_taken_back_where_none_has() {
    let Some(master) = Server::standalone_or_skip().await else { return };
    let mut replica = Setup::new().replica_of(&master).start().await.expect("a server");
    soon("the replica", until_heard_of(&master)).await;
    let backend = backend(master.address(), PATIENT_COPIES);
    let ours = session(&backend).await;
    let copied = ticket();
    soon("a place", ours.enqueue_one(&door(), entry(copied))).await.expect("a place");
    let found: u64 = replica.ask(&["EXISTS", &format!("{{lockkeeper}}:c:{copied}")]).await.expect("a look");
    assert_eq!(found, 1, "the replica has it by then");
    replica.pause().expect("it runs");
    let refused = soon("the refusal", ours.enqueue_one(&door(), entry(ticket()))).await.expect_err("no copy");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{refused}");
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");
    assert_eq!(tickets(&*ours).await, [Some(copied)], "what has no copy does not stay");
    replica.resume().expect("it runs");
    soon("the replica", until_heard_of(&master)).await;
    soon("a place", ours.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    assert!(ours.bond().liveness().is_held());
    soon("the end", ours.close()).await.expect("the end");
}

#[tokio::test]
async fn a_session_that_asks_for_copies_is_refused_where_no_replica_is() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let refused = soon("the refusal", backend(server.address(), COPIES).session()).await.expect_err("no replica");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{refused}");
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");
}
