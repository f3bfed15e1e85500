//! Sessions over a database in memory, under paused time.

mod ending;
mod keeping;
mod looking;
mod memory;
mod model;
mod settling;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Liveness, Result, ServiceUrl, Ticket};
use lockkeeper_session::{ClientTesting, Names};

use self::memory::Database;
use crate::engine::WakeMethod;
use crate::session::{Core, open};
use crate::site::SqlSite;
use crate::url::Config;

const TIMEOUT: Duration = Duration::from_secs(12);

/// How long an idle session beats at most after a while has passed.
const IDLE_BEAT: Duration = Duration::from_secs(3);

async fn try_open(database: &Database, url: &str, testing: ClientTesting) -> Result<Arc<Core>> {
    let mut config = Config::from_url(&ServiceUrl::parse(url)?)?;
    config.names = Names::unresolved();
    let config = Arc::new(config);
    let (engine, clock) = (Arc::new(database.clone()), database.clock.clone());
    open(SqlSite { testing, ..SqlSite::over(engine, config, clock) }).await
}

/// A database whose waiters are woken so, and a session there.
async fn begun(wake_method: WakeMethod) -> (Database, Arc<Core>) {
    let database = Database::new(wake_method);
    let core = session(&database).await;
    (database, core)
}

async fn session(database: &Database) -> Arc<Core> {
    session_for(database, ClientTesting::default()).await
}

async fn session_for(database: &Database, testing: ClientTesting) -> Arc<Core> {
    let core = try_open(database, "postgres://h1,h2/db?session_timeout=12s", testing).await.unwrap();
    core.life.next_link().await.unwrap();
    core
}

fn add_contender(database: &Database, core: &Core, bits: u128) -> Ticket {
    database.data().contenders.insert(bits, core.id.0);
    let ticket = Ticket::from_bits(bits);
    core.contenders.add(ticket, ());
    ticket
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn pass_ms(milliseconds: u64) {
    pass(Duration::from_millis(milliseconds)).await;
}

/// How long a session may be believed from now on.
fn safe_for(core: &Core) -> Duration {
    match core.life.bond().liveness() {
        Liveness::Held { safe_until } | Liveness::Jeopardy { safe_until } => {
            safe_until.left(core.life.clock.now()).unwrap()
        }
        Liveness::Lost(_) => Duration::ZERO,
    }
}
