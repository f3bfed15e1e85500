//! A transaction of another program that holds the row of a queue for longer than the session timeout.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Random, soon};
use lockkeeper_recipes::Keeper;
use lockkeeper_trials::now;

use crate::cuts::keeper;
use crate::database::Server;
use crate::harm::Need;
use crate::operator::Kind;

const SETTINGS: &str = "session_timeout=5s";

/// For how long the row is held at least: longer than the session timeout.
const HELD: Duration = Duration::from_secs(6);

/// How many joins of the holder's session wait for it, each of which keeps the session's other calls back.
const JOINS: usize = 20;

/// How many turns at another lock there are meanwhile, at least.
const TURNS_MIN: u32 = 10;

/// A holder keeps its lock while joins of its session wait for the row, others go on, and each join comes through in
/// the end.
pub(crate) fn play(kind: Kind, _: Random) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(played(kind)).map_err(|error| format!("{error:#}"))
}

async fn played(kind: Kind) -> lockkeeper_core::Result<()> {
    let server = Arc::new(kind.start(Need::Nothing).await);
    let (one, other) = (keeper(kind, &server, SETTINGS), keeper(kind, &server, SETTINGS));
    one.mutex("stuck")?.lock().await?.release().await?;
    // MariaDB holds the gap before the row too, in which no new queue can be made.
    take_turn(&other).await?;
    let held = one.mutex("ledger")?.lock().await?;

    let foreign = tokio::spawn(hold_row(server.clone()));
    server.until_asleep().await;
    let join = async |keeper: Keeper| keeper.mutex("stuck")?.lock().await?.release().await;
    let joining: Vec<_> = (0..JOINS).map(|_| tokio::spawn(join(one.clone()))).collect();
    let until = now().saturating_add(HELD);
    let mut turns = 0;
    while now() < until || turns < TURNS_MIN {
        soon("a turn at another lock", take_turn(&other)).await?;
        turns += 1;
        assert!(held.hold().is_held(), "it is held while joins of the same session wait for a row");
    }
    assert!(joining.iter().all(|joining| !joining.is_finished()), "the row is held");
    server.wake().await;
    soon("the end of what held the row", foreign).await.expect("no panic");
    for joining in joining {
        soon("the end of a join", joining).await.expect("no panic")?;
    }
    assert!(held.hold().is_held());
    println!("faults: {kind:?}, a row held for {HELD:?}: {turns} turns at another lock, the hold stood");
    held.release().await
}

async fn take_turn(keeper: &Keeper) -> lockkeeper_core::Result<()> {
    keeper.mutex("other")?.lock().await?.release().await
}

async fn hold_row(server: Arc<Server>) {
    server.hold("SELECT 1 FROM lockkeeper.queue WHERE name = 'stuck' FOR UPDATE").await;
}
