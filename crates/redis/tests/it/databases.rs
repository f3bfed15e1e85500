//! The numbered databases of one server, and a cluster, which has but one.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, ErrorKind};
use lockkeeper_faults::redis::{self, Cluster, Server};
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::backend;

#[tokio::test]
async fn locks_of_two_databases_do_not_meet() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let [first, third, same] = ["", "/3", "/3"].map(|database| backend(server.address(), database));
    let (of_first, of_third, of_same) = (session(&first).await, session(&third).await, session(&same).await);
    let [one, other, behind] = [ticket(), ticket(), ticket()];
    soon("a place", of_first.enqueue_one(&door(), entry(one))).await.expect("a place");
    soon("a place", of_third.enqueue_one(&door(), entry(other))).await.expect("a place");
    soon("a place", of_same.enqueue_one(&door(), entry(behind))).await.expect("a place");
    assert_eq!(tickets(&*of_first).await, [Some(one)]);
    assert_eq!(tickets(&*of_third).await, [Some(other), Some(behind)]);
    server.ask::<String>(&["FLUSHDB"]).await.expect("the first one is emptied");
    assert_eq!(tickets(&*of_same).await, [Some(other), Some(behind)]);
    for session in [of_third, of_same] {
        soon("the end", session.close()).await.expect("the end");
    }
}

#[tokio::test]
async fn a_cluster_has_no_other_database_and_says_so_in_one_line() {
    if !redis::availability().or_skip_here() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let refused = soon("the refusal", backend(cluster.addresses()[0], "/3").session()).await.expect_err("a cluster");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::InvalidConfig, Advice::Permanent), "{refused:#}");
    let told = format!("{refused:#}");
    assert!(told.contains("the database 3 cannot be used") && !told.contains('\n'), "{told}");
}
