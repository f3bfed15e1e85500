//! The runnable examples, in which a holder that was overtaken is refused.

use std::env;
use std::process::{Command, Stdio};

use lockkeeper_faults::{etcd, mariadb, postgres, redis, sqlite};

use crate::rounds::can_run;

/// Runs an example, which cargo builds with the tests beside it.
async fn run(example: &str, resource: Option<String>) {
    let path = env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples").join(example);
    assert!(path.exists(), "{} is built by `cargo test -p lockkeeper --features full`", path.display());
    let mut command = Command::new(path);
    command.args(resource).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{example}: {said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("next holder: written\n"), "{said}");
    assert!(said.lines().last().is_some_and(|line| line.starts_with("slow holder: refused: ")), "{said}");
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_a_file() {
    run("fenced_file", None).await;
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_zookeeper() {
    run("fenced_zookeeper", None).await;
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_etcd() {
    if can_run(etcd::availability()) {
        let server = etcd::Server::standalone().await.unwrap();
        run("fenced_etcd", Some(server.address().to_string())).await;
    }
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_redis() {
    if can_run(redis::availability()) {
        let server = redis::Server::standalone().await.unwrap();
        run("fenced_redis", Some(format!("redis://{}", server.address()))).await;
    }
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_postgresql() {
    if can_run(postgres::availability()) {
        let server = postgres::Setup::new().start().await.unwrap();
        run("fenced_postgres", Some(server.url("postgres"))).await;
    }
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_mariadb() {
    if can_run(mariadb::availability()) {
        let server = mariadb::Setup::new().start().await.unwrap();
        server.ask("CREATE DATABASE app").await.unwrap();
        run("fenced_mysql", Some(format!("mysql://root@{}/app", server.address()))).await;
    }
}

#[tokio::test]
async fn a_stale_holder_is_refused_by_sqlite() {
    if can_run(sqlite::availability()) {
        run("fenced_sqlite", None).await;
    }
}
