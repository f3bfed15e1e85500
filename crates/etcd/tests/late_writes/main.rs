//! Writes that the server takes in late, when what they were meant for is gone: a join after its withdrawal was
//! answered, a deletion or a request when another contender has the same key, a value when a later one was written. It
//! is a separate binary, since it has long rounds.
//!
//! A session that stands in the queue again has the same key as before. In `stopped` a member of a cluster stands still
//! with a release unread, and goes on.

#[path = "../support/service.rs"]
mod service;
mod stopped;

use std::net::SocketAddr;
use std::sync::Arc;

use lockkeeper_core::{Backend, Request, Revocation};
use lockkeeper_etcd::{Bug, EtcdBackend};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::late::{Stage, Write};

use crate::service::ETCD;

/// A server, and its clients, whose writes are conditional or not.
async fn stage(layout: &'static str, is_planted: bool) -> Option<(Server, Stage)> {
    let server = Server::standalone_or_skip().await?;
    let open = move |servers: &[SocketAddr]| open(servers, &format!("session_timeout=60s{layout}"), is_planted);
    let stage = Stage::new(server.address(), open).await;
    Some((server, stage))
}

/// Makes a client; a planted one's writes meet whatever stands there.
fn open(servers: &[SocketAddr], settings: &str, is_planted: bool) -> Arc<dyn Backend> {
    let url = (ETCD.url)(servers, settings);
    let backend = EtcdBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    if is_planted {
        backend.testing().plant(Bug::IgnoresConditions);
    }
    Arc::new(backend)
}

const BREAK: Write = Write::Request(|first| Request::Break { token: first.token });

/// The record is read before it is written.
const YIELD: Write = Write::SecondOfRequest(|_| Request::Yield(Revocation::new(None, None)));

macro_rules! late {
    ($($write:expr, $layout:literal: $holds:ident, $planted:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $holds() {
            let Some((_server, stage)) = stage($layout, false).await else { return };
            stage.play(concat!("etcd, ", stringify!($write), $layout), $write).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $planted() {
            let Some((_server, stage)) = stage($layout, true).await else { return };
            stage.find($write).await;
        }
    )*};
}

late! {
    Write::Removal, "":
        a_late_deletion_leaves_the_next_contender_of_its_session_alone,
        without_the_condition_a_late_deletion_takes_the_next_contender;
    Write::Removal, "&layout=etcdctl":
        a_late_deletion_of_a_key_that_etcdctl_shares_leaves_the_next_contender_alone,
        without_the_condition_a_late_deletion_of_a_shared_key_takes_the_next_contender;
    Write::Withdrawal, "":
        a_late_withdrawal_of_an_unanswered_join_leaves_the_next_contender_alone,
        without_the_look_a_late_withdrawal_of_an_unanswered_join_takes_the_next_contender;
    BREAK, "":
        a_late_order_to_break_leaves_the_next_contender_alone,
        without_the_condition_a_late_order_to_break_takes_the_next_contender;
    YIELD, "":
        a_late_request_to_yield_is_not_told_to_the_next_contender,
        without_the_condition_a_late_request_to_yield_overwrites_the_next_contender;
    Write::Value, "":
        a_late_value_never_replaces_a_later_one,
        without_the_condition_a_late_value_replaces_a_later_one;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later() {
    let Some((_server, stage)) = stage("", false).await else { return };
    stage.play("etcd, joins", Write::Join).await;
}
