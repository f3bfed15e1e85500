//! Joins that the server takes in late, after their withdrawal was answered over another connection. It is a separate
//! binary, since it has long rounds.

#[path = "../support/service.rs"]
mod service;
#[path = "../support/stage.rs"]
mod stage;

use lockkeeper_redis::Bug;
use lockkeeper_trials::late::Write;

use crate::stage::stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_withdrawal_was_answered_never_stands_in_the_queue_later() {
    let Some((_server, stage)) = stage("", |_| {}).await else { return };
    stage.play("Redis, joins", Write::Join).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_join_that_comes_late_is_seen() {
    let Some((_server, stage)) = stage("", |backend| backend.testing().plant(Bug::IgnoresEpochs)).await else { return };
    stage.find(Write::Join).await;
}
