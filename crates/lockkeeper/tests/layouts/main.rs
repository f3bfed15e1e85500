//! The layouts of today: all that each service stores of locks, as its own tools show it. Clients of all versions with
//! one layout stand in one queue; a change here is a change of layout, which CHANGELOG marks as breaking.
//!
//! Each picture is a file beside this one. Where a change is meant, the new picture takes its place, which a failing
//! test prints.

mod pictures;

use lockkeeper::once::{Slot, SlotClaim};
use lockkeeper::{Keeper, Owner};
use lockkeeper_conformance::{soon, until};
use lockkeeper_faults::server::Server;
use lockkeeper_faults::sql::{Setup, Sql};
use lockkeeper_faults::{etcd, mariadb, postgres, redis};
use lockkeeper_zk_server::EmbeddedServer;

use crate::pictures::{MARIADB, POSTGRES, SeenNodes, etcd_keys, files, redis_keys};

/// Long enough for all that is taken before the picture.
const SETTINGS: &str = "session_timeout=60s";

/// What a picture calls this process.
const HOST: &str = "web-3";
const PID: u32 = 4_121;

fn keeper(url: &str) -> Keeper {
    let builder = lockkeeper::builder(url).expect("a good URL");
    builder.owner(Owner::new(HOST, PID, "backup.sh")).build()
}

/// Takes one of each kind, takes the picture meanwhile, and compares it.
async fn compare(service: &str, url: &str, kept: &str, picture: impl AsyncFn() -> Vec<String>) {
    let (first, second) = (keeper(url), keeper(url));
    let door = soon("a grant", first.mutex("door").unwrap().lock()).await.unwrap();
    let waiter = second.mutex("door").unwrap();
    let waiting = tokio::spawn(async move { waiter.lock().await });
    until("a waiter", async || first.contenders("door").await.is_ok_and(|seen| seen.len() == 2)).await;
    let book = first.rw_lock("book").unwrap();
    let reading = soon("a grant", book.read()).await.unwrap();
    let permit = soon("a grant", first.semaphore("pool", 2).unwrap().acquire()).await.unwrap();
    let lead = soon("a grant", first.election("lead").unwrap().campaign()).await.unwrap();
    soon("a count", first.shared_counter("visits").unwrap().set(7)).await.unwrap();
    let slot = Slot::named("2026-11-28").unwrap();
    let claimed = soon("a slot", first.once("report").unwrap().claim(&slot)).await.unwrap();
    let SlotClaim::Granted(report) = claimed else { panic!("it is granted: {claimed:?}") };
    let shown = pictures::normal(soon("a picture", picture()).await);
    assert!(shown == kept, "{service} stores other bytes than it did:\n{shown}");
    drop((door, reading, permit, lead, report));
    drop(soon("the next grant", waiting).await.unwrap().unwrap());
}

async fn of_database<Own>(server: &Server<Setup<Own>>, questions: &[&str]) -> Vec<String>
where
    Setup<Own>: Sql,
{
    let mut lines = Vec::new();
    for question in questions {
        let rows = server.ask(question).await.expect("an answer");
        lines.extend(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()));
    }
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_store_what_they_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("file:{}", folder.path().display());
    compare("files", &url, include_str!("files.txt"), async || files(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zookeeper_stores_what_it_did() {
    let (server, seen) = (EmbeddedServer::start().await.expect("a server"), SeenNodes::default());
    let sees = seen.clone();
    server.set_request_hook(move |request| sees.see(request.request));
    let url = format!("{}?{SETTINGS}", server.url());
    compare("ZooKeeper", &url, include_str!("zookeeper.txt"), async || seen.lines()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_stores_what_it_did() {
    let Some(server) = etcd::Server::standalone_or_skip().await else { return };
    let url = format!("etcd://{}?{SETTINGS}", server.address());
    compare("etcd", &url, include_str!("etcd.txt"), async || etcd_keys(&server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_stores_what_it_did() {
    let Some(server) = redis::Server::standalone_or_skip().await else { return };
    let url = format!("redis://{}?{SETTINGS}", server.address());
    compare("Redis", &url, include_str!("redis.txt"), async || redis_keys(&server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_stores_what_it_did() {
    let Some(server) = postgres::Server::standalone_or_skip().await else { return };
    let url = format!("{}?{SETTINGS}", server.url("postgres"));
    compare("PostgreSQL", &url, include_str!("postgres.txt"), async || of_database(&server, &POSTGRES).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_stores_what_it_did() {
    let Some(server) = mariadb::Server::standalone_or_skip().await else { return };
    let url = format!("{}?{SETTINGS}", server.url(""));
    compare("MariaDB", &url, include_str!("mariadb.txt"), async || of_database(&server, &MARIADB).await).await;
}
