//! Real clients of other projects: Curator and kazoo take and pass on locks here, and come back after a restart with
//! the same session.

use std::path::Path;
use std::time::Duration;

use lockkeeper_faults::Result;
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_proto::message::OpCode;
use lockkeeper_zk_server::EmbeddedServer;

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
const LOCK: &str = "/locks/one";
const ROUNDS: u32 = 25;

/// One holds, the other waits; the lock is handed over; both survive a restart, and a reply to the creation that is
/// lost; no two are inside at once.
async fn plays_by_the_rules(start: impl AsyncFn(&str, Duration) -> Result<Peer>, creation: OpCode) {
    let server = EmbeddedServer::start().await.unwrap();
    let address = server.address().unwrap().to_string();
    let mut one = start(&address, SESSION_TIMEOUT).await.unwrap();
    let mut other = start(&address, SESSION_TIMEOUT).await.unwrap();
    assert!(one.lock(Kind::Mutex, LOCK, PATIENCE).await.unwrap());
    assert!(!other.try_lock(Kind::Mutex, LOCK).await.unwrap());
    one.release(Kind::Mutex, LOCK).await.unwrap();
    assert!(other.lock(Kind::Mutex, LOCK, PATIENCE).await.unwrap());

    let sessions = server.session_ids().await;
    server.restart().await;
    assert!(!one.try_lock(Kind::Mutex, LOCK).await.unwrap(), "the lock is still held after a restart");
    other.release(Kind::Mutex, LOCK).await.unwrap();
    assert!(one.lock(Kind::Mutex, LOCK, PATIENCE).await.unwrap());
    one.release(Kind::Mutex, LOCK).await.unwrap();
    assert_eq!(server.session_ids().await, sessions, "the sessions went on");

    // A reply that is lost after it took effect leaves neither a second contender nor a forgotten one.
    server.drop_next_reply(creation);
    assert!(one.lock(Kind::Mutex, LOCK, PATIENCE).await.unwrap());
    one.release(Kind::Mutex, LOCK).await.unwrap();
    assert!(other.try_lock(Kind::Mutex, LOCK).await.unwrap());
    other.release(Kind::Mutex, LOCK).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file: &Path = &folder.path().join("count");
    std::fs::write(file, "0").unwrap();
    let (first, second) = tokio::join!(
        one.count(Kind::Mutex, LOCK, file, ROUNDS, PATIENCE),
        other.count(Kind::Mutex, LOCK, file, ROUNDS, PATIENCE)
    );
    first.and(second).unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), (2 * ROUNDS).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_plays_by_the_rules() {
    if curator::availability().or_skip("peers::curator_plays_by_the_rules") {
        plays_by_the_rules(curator::start, OpCode::Create2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_plays_by_the_rules() {
    if kazoo::availability().or_skip("peers::kazoo_plays_by_the_rules") {
        plays_by_the_rules(kazoo::start, OpCode::Create).await;
    }
}
