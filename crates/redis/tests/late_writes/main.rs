//! Writes that the server takes in late, when what they were meant for is gone: a removal or a request when the same
//! session stands in the queue again, a value when a later one was written. It is a separate binary, since it has long
//! rounds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use lockkeeper_core::{Enqueued, Request, Revocation};
use lockkeeper_faults::redis::{self, Server};
use lockkeeper_redis::RedisBackend;
use lockkeeper_trials::late::{Stage, Write};

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
fn can_run() -> bool {
    redis::availability().or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// Makes a client of one server behind several addresses.
fn open(servers: &[SocketAddr], settings: &str) -> RedisBackend {
    let hosts: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    let url = format!("redis://{}?session_timeout=60s{settings}", hosts.join(","));
    RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL")
}

/// A server, and its clients; `None` if there is no Redis here.
async fn stage(settings: &'static str) -> Option<(Server, Stage)> {
    if !can_run() {
        return None;
    }
    let server = Server::standalone().await.expect("a server");
    let stage = Stage::new(server.address(), move |servers| Arc::new(open(servers, settings))).await;
    Some((server, stage))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_next_contender_of_its_session_alone() {
    let Some((_server, stage)) = stage("").await else { return };
    stage.play("Redis, removals", Write::Removal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_plain_lock_of_the_next_contender_alone() {
    let Some((_server, stage)) = stage("&layout=setnx").await else { return };
    stage.play("Redis, removals, setnx", Write::Removal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_order_to_break_leaves_the_next_contender_alone() {
    let Some((_server, stage)) = stage("").await else { return };
    let order = |first: &Enqueued| Request::Break { token: first.token };
    stage.play("Redis, orders to break", Write::Request(order)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_to_yield_is_not_told_to_the_next_contender() {
    let Some((_server, stage)) = stage("").await else { return };
    let request = |_: &Enqueued| Request::Yield(Revocation::new(None, None));
    stage.play("Redis, requests to yield", Write::Request(request)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_value_never_replaces_a_later_one() {
    let Some((_server, stage)) = stage("").await else { return };
    stage.play("Redis, values", Write::Value).await;
}

/// A contender's name, with a number and a ticket that no other has, is the only condition of a removal and a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_for_the_first_contender_and_not_for_a_name_is_found() {
    let Some((_server, stage)) = stage("").await else { return };
    stage.find_by_place(|first| Request::Break { token: first.token }).await;
    stage.find_by_place(|_| Request::Yield(Revocation::new(None, None))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_late_value_replaces_a_later_one() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let stage = Stage::new(server.address(), |servers| {
        let backend = open(servers, "");
        backend.testing().ignore_epochs();
        Arc::new(backend)
    });
    stage.await.find(Write::Value).await;
}
