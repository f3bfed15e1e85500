//! Writes that the server takes in late, when what they were meant for is gone: a join after its withdrawal was
//! answered over another connection, a removal or a request when the same session stands in the queue again, a value
//! when a later one was written. It is a separate binary, since it has long rounds.

#[path = "../support/service.rs"]
mod service;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Enqueued, Request, Revocation};
use lockkeeper_faults::redis::Server;
use lockkeeper_redis::{Bug, RedisBackend};
use lockkeeper_trials::late::{Stage, Write};

use crate::service::REDIS;

/// A server, and its clients, with these bugs; `None` if there is no Redis here.
async fn stage(settings: &'static str, bugs: &'static [Bug]) -> Option<(Server, Stage)> {
    let server = Server::standalone_or_skip().await?;
    let open = move |servers: &[SocketAddr]| -> Arc<dyn Backend> {
        let url = (REDIS.url)(servers, &format!("session_timeout=60s{settings}"));
        let backend = RedisBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        bugs.iter().for_each(|&bug| backend.testing().plant(bug));
        Arc::new(backend)
    };
    let stage = Stage::new(server.address(), open).await;
    Some((server, stage))
}

fn to_break(first: &Enqueued) -> Request {
    Request::Break { token: first.token }
}

fn to_yield(_: &Enqueued) -> Request {
    Request::Yield(Revocation::new(None, None))
}

macro_rules! late {
    ($($settings:literal, $write:expr, $name:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let Some((_server, stage)) = stage($settings, &[]).await else { return };
            stage.play(concat!("Redis, ", stringify!($write), $settings), $write).await;
        }
    )*};
}

late! {
    "", Write::Join, a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later;
    "", Write::Removal, a_late_removal_leaves_the_next_contender_of_its_session_alone;
    "&layout=setnx", Write::Removal, a_late_removal_leaves_the_plain_lock_of_the_next_contender_alone;
    "", Write::Request(to_break), a_late_order_to_break_leaves_the_next_contender_alone;
    "", Write::Request(to_yield), a_late_request_to_yield_is_not_told_to_the_next_contender;
    "", Write::Value, a_late_value_never_replaces_a_later_one;
}

/// A contender's name, with a number and a ticket that no other has, is the only condition of a removal and a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_for_the_first_contender_and_not_for_a_name_is_found() {
    let Some((_server, stage)) = stage("", &[]).await else { return };
    stage.find_by_place(to_break).await;
    stage.find_by_place(to_yield).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_late_value_replaces_a_later_one() {
    let Some((_server, stage)) = stage("", &[Bug::IgnoresEpochs]).await else { return };
    stage.find(Write::Value).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_join_that_comes_late_is_seen() {
    let Some((_server, stage)) = stage("", &[Bug::IgnoresEpochs]).await else { return };
    stage.find(Write::Join).await;
}
