//! Writes that the server takes in late, when what they were meant for is gone: a removal or a request when the same
//! session stands in the queue again, a value when a later one was written. It is a separate binary, since it has long
//! rounds.

#[path = "../support/service.rs"]
mod service;
#[path = "../support/stage.rs"]
mod stage;

use lockkeeper_core::{Enqueued, Request, Revocation};
use lockkeeper_redis::Bug;
use lockkeeper_trials::late::Write;

use crate::stage::stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_next_contender_of_its_session_alone() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    stage.play("Redis, removals", Write::Removal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_plain_lock_of_the_next_contender_alone() {
    let Some((_server, stage)) = stage("&layout=setnx", |_| {}).await else { return };
    stage.play("Redis, removals, setnx", Write::Removal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_order_to_break_leaves_the_next_contender_alone() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    let order = |first: &Enqueued| Request::Break { token: first.token };
    stage.play("Redis, orders to break", Write::Request(order)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_to_yield_is_not_told_to_the_next_contender() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    let request = |_: &Enqueued| Request::Yield(Revocation::new(None, None));
    stage.play("Redis, requests to yield", Write::Request(request)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_value_never_replaces_a_later_one() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    stage.play("Redis, values", Write::Value).await;
}

/// A contender's name, with a number and a ticket that no other has, is the only condition of a removal and a request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_for_the_first_contender_and_not_for_a_name_is_found() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    stage.find_by_place(|first| Request::Break { token: first.token }).await;
    stage.find_by_place(|_| Request::Yield(Revocation::new(None, None))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_late_value_replaces_a_later_one() {
    let Some((_server, stage)) = stage("", |backend| backend.testing().plant(Bug::IgnoresEpochs)).await else { return };
    stage.find(Write::Value).await;
}
