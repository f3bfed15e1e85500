//! A Rust client of another project, the crate `zookeeper-client`: takes and passes on locks by its own recipe, and
//! comes back after a restart with the same session and its watches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_faults::wait::PATIENCE;
use lockkeeper_zk_server::EmbeddedServer;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, EventType, LockClient, LockOptions, LockPrefix, Stat};

const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
/// How long a lock that is held is waited for, to see that it is not granted.
const NOT_GRANTED_WITHIN: Duration = Duration::from_millis(300);
const LOCK: &str = "/locks/one";
const CONTENDERS: u32 = 4;
const ROUNDS: u32 = 25;
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

async fn connect(server: &EmbeddedServer) -> Client {
    let address = server.address().unwrap().to_string();
    Client::connector().with_session_timeout(SESSION_TIMEOUT).connect(&address).await.unwrap()
}

async fn lock(client: &Client) -> LockClient<'_> {
    let prefix = LockPrefix::new_curator(LOCK, "lock-").unwrap();
    let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(PERSISTENT).unwrap();
    timeout(PATIENCE, client.lock(prefix, b"", options)).await.expect("a turn").unwrap()
}

/// Looks until the client has come back: requests fail while it has not noticed a loss.
async fn look(client: &Client, path: &str) -> Option<Stat> {
    let looking = async {
        loop {
            if let Ok(found) = client.check_stat(path).await {
                return found;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("a connection")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_passed_on_and_never_held_by_two() {
    let server = EmbeddedServer::start().await.unwrap();
    let (inside, turns) = (AtomicU32::new(0), AtomicU32::new(0));
    let contend = async || {
        let client = connect(&server).await;
        for _ in 0..ROUNDS {
            let held = lock(&client).await;
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another client is inside");
            // A request to the server, so that others get a chance to come in.
            assert!(look(&client, held.lock_path()).await.is_some());
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            turns.fetch_add(1, Ordering::SeqCst);
        }
    };
    tokio::join!(contend(), contend(), contend(), contend());
    assert_eq!(turns.into_inner(), CONTENDERS * ROUNDS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_it_goes_on_with_its_session_its_lock_and_its_watch() {
    let server = EmbeddedServer::start().await.unwrap();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = lock(&one).await;
    let path = held.lock_path().to_owned();
    one.create("/watched", b"before", &PERSISTENT).await.unwrap();
    let (_, _, watcher) = other.get_and_watch_data("/watched").await.unwrap();
    let sessions = server.session_ids().await;
    let owner = look(&other, &path).await.expect("the contender").ephemeral_owner;

    server.restart().await;
    let found = look(&one, &path).await.expect("the lock is still held");
    assert_eq!(found.ephemeral_owner, owner);
    assert!(look(&other, &path).await.is_some());
    assert_eq!(server.session_ids().await, sessions, "the sessions went on");

    one.set_data("/watched", b"after", None).await.unwrap();
    let event = timeout(PATIENCE, watcher.changed()).await.expect("an event");
    assert_eq!((event.event_type, event.path.as_str()), (EventType::NodeDataChanged, "/watched"));

    // Boxed, since it is both polled here and awaited below.
    let mut waiting = Box::pin(lock(&other));
    assert!(timeout(NOT_GRANTED_WITHIN, &mut waiting).await.is_err(), "granted to two");
    drop(held);
    let granted = waiting.await;
    assert_eq!(look(&one, &path).await, None);
    assert_ne!(granted.lock_path(), path);
}
