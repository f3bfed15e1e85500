//! The time for which single calls keep the server while what very many dead contenders have left is removed.

use std::sync::Arc;

use libtest_mimic::Failed;
use lockkeeper_conformance::SOON;
use lockkeeper_core::{Extent, Freshness, QueueName, Session, Ticket};
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long, wait};
use lockkeeper_trials::waist::{join_all, ticket};

use crate::session;

/// How many contenders the dead session has; in the plain run a tenth.
const DEAD: u32 = 10_000;

/// How long a call may keep the server, in microseconds. It counts in the long run, beside which nothing else runs.
const CALL_US_MAX: u64 = 5_000;

/// The shortest calls that the server logs, in microseconds: longer than those that a script makes, whose logging would
/// take longer than they do.
const LOGGED_US_MIN: &str = "200";

/// How often it is tried: another process may take the processor away in the middle of a call. A call that takes too
/// long by itself does so each time.
const TRIES: usize = 4;

/// The dead one's timeout, and that of the living, who remove it.
const SETTINGS: &str = "session_timeout=4s&operation_timeout=240s";

const QUEUE_KEY: &str = "{lockkeeper}:q:l:long:m";

/// Removes all entries of a queue, and their records, in one call.
const IN_ONE_PIECE: &str = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                            redis.call('ZREM', KEYS[1], member) \
                            redis.call('DEL', '{lockkeeper}:c:' .. string.sub(member, 22, 53)) end";

/// A dead session with very many contenders, and one that lives.
struct Scene {
    server: Server,
    living: Arc<dyn Session>,
    queue: QueueName,
    _dead: Arc<dyn Session>,
    _cut: Proxy,
}

fn tickets(count: usize) -> Vec<Ticket> {
    (0..count).map(|_| ticket()).collect()
}

async fn scene() -> Result<Scene, Failed> {
    let server = Server::standalone().await?;
    let living = session(server.address(), SETTINGS).await?;
    let cut = Proxy::of_bytes(server.address()).await?;
    let dead = session(cut.address(), SETTINGS).await?;
    let queue = QueueName::new("long")?;
    let count = usize::try_from(long::rounds(DEAD))?;
    join_all(&*dead, &queue, &tickets(count)).await;
    let view = living.view(&queue, Freshness::Latest, Extent::Whole).await?;
    assert_eq!(view.contenders.len(), count, "all stand in the queue");
    cut.blackhole();
    server.ask::<()>(&["CONFIG", "SET", "slowlog-max-len", "10000"]).await?;
    server.ask::<()>(&["CONFIG", "SET", "slowlog-log-slower-than", LOGGED_US_MIN]).await?;
    server.ask::<()>(&["SLOWLOG", "RESET"]).await?;
    Ok(Scene { server, living, queue, _dead: dead, _cut: cut })
}

/// The time that each longer call of a script has kept the server, in microseconds.
async fn calls_us(server: &Server) -> Result<Vec<u64>, Failed> {
    type Row = (u64, u64, u64, Vec<String>, String, String);
    let rows: Vec<Row> = server.ask(&["SLOWLOG", "GET", "-1"]).await?;
    let of_scripts = rows.into_iter().filter(|row| row.3.first().is_some_and(|word| word.starts_with("EVAL")));
    Ok(of_scripts.map(|row| row.2).collect())
}

/// Waits until the living have removed all; returns how long each call kept the server.
async fn remove_dead() -> Result<Vec<u64>, Failed> {
    let scene = scene().await?;
    let removed = wait::until("the removal", SOON, async || {
        let left: Result<u64, _> = scene.server.ask(&["EXISTS", QUEUE_KEY]).await;
        (left == Ok(0)).then_some(())
    });
    removed.await?;
    let view = scene.living.view(&scene.queue, Freshness::Latest, Extent::Whole).await?;
    assert!(view.contenders.is_empty(), "none is left");
    let calls = calls_us(&scene.server).await?;
    scene.living.close().await?;
    Ok(calls)
}

pub(crate) fn in_pieces() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut longest_of_tries = Vec::new();
        let mut calls = 0;
        let tries = if long::is_asked_for() { TRIES } else { 1 };
        while longest_of_tries.len() < tries && longest_of_tries.last().is_none_or(|&longest| longest > CALL_US_MAX) {
            let us = remove_dead().await?;
            calls = us.len();
            longest_of_tries.push(us.into_iter().max().ok_or("the server logs its calls")?);
        }
        let dead = long::rounds(DEAD);
        figures::tell(&format!(
            "crowd: {dead} dead contenders were removed in about {calls} calls of scripts, the longest of each try \
             took {longest_of_tries:?} us"
        ));
        match longest_of_tries.last() {
            Some(&longest) if longest <= CALL_US_MAX || !long::is_asked_for() => Ok(()),
            _ => Err(format!("a call took longer than {CALL_US_MAX} us in each try: {longest_of_tries:?}").into()),
        }
    })
}

/// What is judged above sees a removal in one call, of as many as the long run has.
pub(crate) fn in_one_piece() -> Result<(), Failed> {
    tokio::runtime::Runtime::new()?.block_on(async {
        let scene = scene().await?;
        let rest = usize::try_from(DEAD - long::rounds(DEAD))?;
        join_all(&*scene.living, &scene.queue, &tickets(rest)).await;
        scene.server.ask::<()>(&["SLOWLOG", "RESET"]).await?;
        scene.server.ask::<()>(&["EVAL", IN_ONE_PIECE, "1", QUEUE_KEY]).await?;
        let longest = calls_us(&scene.server).await?.into_iter().max().unwrap_or(0);
        assert!(longest > CALL_US_MAX, "{longest} us for {DEAD} contenders in one call: the test shows nothing");
        Ok(())
    })
}
