//! A server that forgets at once what it was to tell of.

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::wait;

use crate::client::keeper;

/// How many clients wait for one lock.
const WAITERS: usize = 4;

/// The server tells of a read that it forgets as of a change: who waits looks again, and is granted the lock in time.
#[tokio::test]
async fn waiters_get_their_turns_where_the_servers_table_of_reads_is_full() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    server.ask::<()>(&["CONFIG", "SET", "tracking-table-max-keys", "1"]).await.expect("a setting");
    let lock = || keeper(server.address(), "").mutex("door").expect("a name");
    let held = soon("the lock", lock().lock()).await.expect("the lock is granted");
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock();
            tokio::spawn(async move { lock.lock().await.expect("the lock is granted").release().await })
        })
        .collect();
    let looking = keeper(server.address(), "");
    let all_stand = async || (looking.contenders("door").await.ok()?.len() == 1 + WAITERS).then_some(());
    wait::until("the waiters", SOON, all_stand).await.expect("they wait");
    assert!(held.hold().is_held());
    soon("the release", held.release()).await.expect("it is given back");
    for waiter in waiting {
        soon("a turn", waiter).await.expect("no panic").expect("it is given back");
    }
}
