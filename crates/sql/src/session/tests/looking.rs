//! Looks that belong to no session.

use std::sync::Arc;

use lockkeeper_core::{LossReason, Operation, ServiceUrl};
use lockkeeper_session::{FailureKind, Names};

use super::memory::Database;
use super::{TIMEOUT, pass_ms, session};
use crate::engine::WakeMethod;
use crate::look::{self, Onlooker, ask};
use crate::site::SqlSite;
use crate::statement::{Argument, Statement};
use crate::url::Config;

fn onlooker(database: &Database) -> Arc<Onlooker> {
    let url = ServiceUrl::parse("postgres://h1,h2/db?session_timeout=12s").unwrap();
    let mut config = Config::from_url(&url).unwrap();
    config.names = Names::unresolved();
    let (engine, config, clock) = (Arc::new(database.clone()), Arc::new(config), database.clock.clone());
    Arc::new(look::onlooker(&SqlSite::over(engine, config, clock)))
}

fn missing() -> Statement {
    Statement::new("missing", vec![Argument::Ids(vec![1])])
}

#[tokio::test(start_paused = true)]
async fn they_go_over_a_separate_connection_that_is_opened_once() {
    let database = Database::new(WakeMethod::Polled);
    let onlooker = onlooker(&database);
    assert!(database.data().connected.is_empty());
    for _ in 0..2 {
        assert_eq!(ask(&onlooker, missing(), Operation::Inspect).await.unwrap().len(), 2);
    }
    assert_eq!(database.data().connected, [0]);
    database.cut();
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap();
    assert_eq!(database.data().connected, [0, 0]);
    onlooker.close().await.unwrap();
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap_err();
    assert!(database.data().sessions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn they_go_over_a_sessions_connection_while_it_has_one() {
    let database = Database::new(WakeMethod::Polled);
    let (onlooker, core) = (onlooker(&database), session(&database).await);
    onlooker.note(Ok(&core.life));
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap();
    assert_eq!(database.data().connected, [0]);
    core.life.bond().lose(LossReason::Closed);
    core.life.ended().await;
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap();
    assert_eq!(database.data().connected, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn they_are_answered_while_the_data_is_not_settled() {
    let database = Database::new(WakeMethod::Polled);
    let (onlooker, core) = (onlooker(&database), session(&database).await);
    onlooker.note(Ok(&core.life));
    database.data().instance = "two".to_owned();
    database.cut();
    pass_ms(100).await;
    assert!(core.life.present_link().is_none());
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn they_are_made_again_after_a_failure_in_passing_and_end_in_time() {
    let database = Database::new(WakeMethod::Polled);
    let onlooker = onlooker(&database);
    database.data().is_busy = true;
    let error = ask(&onlooker, missing(), Operation::Inspect).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(database.count("missing"), 4);
    database.data().is_busy = false;
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap();
    database.data().is_stuck = true;
    let begun = tokio::time::Instant::now();
    ask(&onlooker, missing(), Operation::Inspect).await.unwrap_err();
    assert!(begun.elapsed() <= TIMEOUT * 2, "{:?}", begun.elapsed());
    database.data().is_stuck = false;
    database.data().down = [(0, FailureKind::ReadOnly), (1, FailureKind::Refused)].into();
    database.cut();
    let error = ask(&onlooker, missing(), Operation::Inspect).await.unwrap_err();
    assert_eq!(error.kind(), lockkeeper_core::ErrorKind::Refused);
}
