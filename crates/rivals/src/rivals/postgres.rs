//! Locks of PostgreSQL: ShedLock's statements, and the server's own advisory lock.

use lockkeeper_core::clock::{Clock, SystemClock};
use lockkeeper_faults::{Availability, Result};
use tokio::time;
use tokio_postgres::{Client, NoTls};

use super::own::{self, Contention, Kind};
use super::{Owner, Place, Rival, TIMEOUT};
use crate::contender::Program;
use crate::stage::Service;

pub(super) const SHEDLOCK: Rival = Rival {
    name: "ShedLock's statements",
    owner: Owner::Other,
    service: Service::Postgres,
    asks: "`lockAtMostFor`, which nothing lengthens, has not passed by its clock",
    availability: || Availability::Present,
    program: |place| own::program(Kind::Shedlock, &place.hosts(), place),
};

pub(super) const ADVISORY: Rival = Rival {
    name: "`pg_advisory_lock`",
    owner: Owner::Other,
    service: Service::Postgres,
    asks: "its connection is open",
    availability: || Availability::Present,
    program: advisory,
};

fn advisory(place: &Place) -> Result<Program> {
    own::program(Kind::Advisory, &place.hosts(), place)
}

/// The pause of ShedLock's callers between two attempts, and of both after an error.
const AGAIN_AFTER: time::Duration = time::Duration::from_millis(100);

const SHEDLOCK_TABLE: &str = "CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, \
     lock_until timestamp NOT NULL, locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)";

/// Takes the lock for so many seconds, where its row is not there or has run out.
const SHEDLOCK_LOCK: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by) \
     VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + make_interval(secs => $3), \
     timezone('utc', CURRENT_TIMESTAMP), $2) \
     ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, \
     locked_by = excluded.locked_by WHERE shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)";

/// The number of the advisory lock.
const NUMBER: i64 = 4_121;

async fn connect(server: &str) -> Contention<Client> {
    let (host, port) = server.split_once(':').ok_or("no address of a server")?;
    let settings = format!("host={host} port={port} user=postgres dbname=postgres");
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Holds a lock for `lockAtMostFor`, which ShedLock does not lengthen.
pub(super) async fn contend_with_shedlock(server: &str, lock: &str) -> Contention<()> {
    own::say_waiting();
    let ends_at = loop {
        let asked_at = SystemClock.now();
        match shedlock_takes(server, lock).await {
            Ok(()) => break asked_at.saturating_add(TIMEOUT),
            Err(error) => eprintln!("again, after {error}"),
        }
    };
    own::say_granted(None);
    own::answer(async || SystemClock.now() < ends_at).await;
    Ok(())
}

/// Tries over one connection until it has the lock, or the connection ends.
async fn shedlock_takes(server: &str, lock: &str) -> Contention<()> {
    time::sleep(AGAIN_AFTER).await;
    let client = connect(server).await?;
    client.batch_execute(SHEDLOCK_TABLE).await?;
    let by = std::process::id().to_string();
    while client.execute(SHEDLOCK_LOCK, &[&lock, &by, &TIMEOUT.as_secs_f64()]).await? == 0 {
        time::sleep(AGAIN_AFTER).await;
    }
    Ok(())
}

/// Holds an advisory lock of a session.
pub(super) async fn contend_with_advisory(server: &str) -> Contention<()> {
    own::say_waiting();
    let client = loop {
        match advisory_takes(server).await {
            Ok(client) => break client,
            Err(error) => eprintln!("again, after {error}"),
        }
        time::sleep(AGAIN_AFTER).await;
    };
    own::say_granted(None);
    own::answer(async || !client.is_closed()).await;
    Ok(())
}

async fn advisory_takes(server: &str) -> Contention<Client> {
    let client = connect(server).await?;
    client.execute("SELECT pg_advisory_lock($1)", &[&NUMBER]).await?;
    Ok(client)
}
