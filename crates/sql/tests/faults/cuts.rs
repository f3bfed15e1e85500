//! Connections that the server ends, at each statement of a session's life, under clients that take turns.
//!
//! No two hold at once, tokens grow, and in the end nothing is left. PostgreSQL says what each connection was asked
//! last, so that each function is met; on MariaDB connections are ended at random.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{Random, SOON};
use lockkeeper_faults::long;
use lockkeeper_recipes::Keeper;
use lockkeeper_sql::SqlBackend;
use lockkeeper_trials::now;

use crate::database::Server;
use crate::harm::Need;
use crate::operator::Kind;
use crate::turns::{Ledger, name};

const CUTS_LONG: u32 = 400;

const CLIENTS: usize = 6;

const SETTINGS: &str = "session_timeout=4s";

/// What a session asks for. The first two are met in each run; a connection is seen less often at the others.
const FUNCTIONS: [&str; 6] = ["join", "leave", "beat", "listen", "resume", "open"];
const CERTAIN: usize = 2;

/// How long the next connection to end is looked for, if it need not be met.
const FOUND_WITHIN: Duration = Duration::from_millis(300);

/// The longest pause between two of them.
const PAUSE_MAX_MS: u64 = 30;

pub(crate) fn play(kind: Kind, random: Random) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(played(kind, random))
}

async fn played(kind: Kind, mut random: Random) -> Result<(), String> {
    let server = kind.start(Need::Nothing).await;
    let ledger = Arc::new(Ledger::new(1));
    let client = |_| {
        let (keeper, ledger) = (keeper(kind, &server, SETTINGS), ledger.clone());
        tokio::spawn(async move {
            ledger.take_turns(&keeper, 0, true).await?;
            keeper.close().await.map_err(|error| format!("{error:#}"))
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    let cuts = long::rounds(CUTS_LONG);
    let mut met = vec![0; FUNCTIONS.len()];
    for cut in 0..cuts {
        let at = cut as usize % FUNCTIONS.len();
        tokio::time::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS))).await;
        let within = if at < CERTAIN { SOON } else { FOUND_WITHIN };
        if end_one(&server, FUNCTIONS[at], within, &ledger).await {
            met[at] += 1;
        }
    }
    ledger.end();
    for client in clients {
        client.await.map_err(|error| error.to_string())??;
    }
    let left = keeper(kind, &server, SETTINGS).contenders(&name(0)).await.map_err(|error| format!("{error:#}"))?;
    let (turns, _) = ledger.counts();
    let at = if kind == Kind::Postgres { format!(", at {FUNCTIONS:?} {met:?}") } else { String::new() };
    println!("faults: {kind:?}, {cuts} connections ended in {turns} turns{at}; {} contenders left", left.len());
    if !left.is_empty() || met[..CERTAIN].contains(&0) || turns == 0 {
        return Err(format!("{left:?} is left, or a function was not met, or {turns} turns are too few"));
    }
    Ok(())
}

pub(crate) fn keeper(kind: Kind, server: &Server, settings: &str) -> Keeper {
    let url = (kind.service().url)(&[server.address()], settings);
    Keeper::new(Arc::new(SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL")))
}

/// Ends a connection that was asked for this last; whether one was found in time.
async fn end_one(server: &Server, function: &str, within: Duration, ledger: &Ledger) -> bool {
    let until = now().saturating_add(within);
    while now() < until && !ledger.is_over() {
        if server.end_connection(function).await {
            return true;
        }
    }
    false
}
