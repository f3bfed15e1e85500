//! A service whose data went back: restored from a backup, or made anew without its volume.

use std::time::Duration;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::LossReason;
use lockkeeper_faults::zookeeper::{Server, Setup};
use lockkeeper_recipes::Keeper;
use lockkeeper_zookeeper::ZooKeeperBackend;

use super::SERVER;
use crate::support::way::url;

/// Sessions may be as short as two of them.
const TICK: Duration = Duration::from_millis(500);

fn keeper(server: &Server) -> Keeper {
    let backend = ZooKeeperBackend::open(&url(server.address(), "?session_timeout=2s&tick=500ms")).unwrap();
    Keeper::new(std::sync::Arc::new(backend))
}

/// The server hangs up on a client that has seen more than it has, and never says that a session has expired.
#[tokio::test]
async fn idle_clients_onlookers_and_holders_go_on_with_a_server_that_lost_its_data() {
    if !SERVER.can_start() {
        return;
    }
    let mut server = Server::standalone(Setup::new().tick(TICK)).await.unwrap();
    let (idle, onlooker, holder) = (keeper(&server), keeper(&server), keeper(&server));
    for _ in 0..20 {
        idle.mutex("reports").unwrap().lock().await.unwrap().release().await.unwrap();
    }
    assert!(onlooker.contenders("reports").await.unwrap().is_empty());
    let held = holder.mutex("backups").unwrap().lock().await.unwrap();
    server.stop().await;
    std::fs::remove_dir_all(server.data_folder().join("version-2")).unwrap();
    server.start().unwrap();
    server.serving().await.unwrap();
    assert!(matches!(held.hold().lost().await, LossReason::Lapsed | LossReason::Expired));
    let idle_mutex = idle.mutex("reports").unwrap();
    soon("the idle one's grant", idle_mutex.lock()).await.unwrap().release().await.unwrap();
    until("the onlooker's answer", async || onlooker.contenders("reports").await.is_ok()).await;
    soon("the holder's next grant", holder.mutex("backups").unwrap().lock()).await.unwrap().release().await.unwrap();
}
