//! What is measured of both, in turns.

use std::time::Duration;

use lockkeeper_faults::zookeeper;

use super::super::needs::present;
use super::client::{Load, operations_per_second};
use super::crowd::{self, Crowd};
use super::large::{self, Costs};
use super::process::{SNAPSHOT_AFTER, Server};
use crate::Outcome;
use crate::load::{Effort, Turns};
use crate::report::rows::NO_SERVER;
use crate::report::{Group, Record};

/// How long one server is loaded before rounds count: by then Java has compiled what it runs.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long one server is loaded in one round.
const LOADED: Duration = Duration::from_secs(1);
/// How often the embedded server is started to see how long that takes.
const STARTS: usize = 9;
/// How often both are filled with a large tree.
const LARGE_TURNS: usize = 3;

pub(in super::super) fn measure(effort: Effort, record: &mut Record) -> Outcome<()> {
    present(zookeeper::availability())?;
    crowd::raise_descriptors()?;
    let mut turns = Turns::new();
    record.now("server: starts");
    let mut starts = Vec::new();
    for _ in 0..effort.turns(STARTS) {
        starts.push(Server::embedded()?.ready.as_secs_f64());
    }
    let servers = [Server::embedded()?, Server::apache(SNAPSHOT_AFTER)?];
    let mut shelf = record.shelf(Group::Server, NO_SERVER);
    for ready in starts {
        shelf.beside("ready", ready, servers[1].ready.as_secs_f64());
    }
    record.now("server: writes");
    under_load(&servers, Load::Writes, effort, &mut turns, record)?;
    record.now("server: reads");
    under_load(&servers, Load::Reads, effort, &mut turns, record)?;
    let [ours, apache] = [servers[0].resident_mib()?, servers[1].resident_mib()?];
    record.shelf(Group::Server, NO_SERVER).beside("memory", ours, apache);
    record.now("server: many sessions");
    sessions(&servers, effort, &mut turns, record)?;
    // Nothing else takes memory and processors meanwhile.
    drop(servers);
    for _ in 0..effort.turns(LARGE_TURNS) {
        record.now("server: a large tree");
        large_tree(effort, &mut turns, record)?;
    }
    Ok(())
}

fn under_load(
    servers: &[Server; 2],
    load: Load,
    effort: Effort,
    turns: &mut Turns,
    record: &mut Record,
) -> Outcome<()> {
    let id = match load {
        Load::Writes => "writes",
        Load::Reads => "reads",
    };
    for server in servers {
        operations_per_second(server.address, load, effort.time(WARM_UP))?;
    }
    for _ in 0..effort.rounds() {
        let mut rates = [0.0; 2];
        for number in turns.order::<2>() {
            rates[number] = operations_per_second(servers[number].address, load, effort.time(LOADED))?;
        }
        let [ours, apache] = rates;
        record.shelf(Group::Server, NO_SERVER).beside(id, ours, apache);
    }
    Ok(())
}

/// One server after the other: all descriptors this process may have are needed for each.
fn sessions(servers: &[Server; 2], effort: Effort, turns: &mut Turns, record: &mut Record) -> Outcome<()> {
    let mut crowds = [Crowd::default(); 2];
    for number in turns.order::<2>() {
        crowds[number] = crowd::measure(&servers[number], effort)?;
    }
    let [ours, apache] = crowds;
    let mut shelf = record.shelf(Group::Server, NO_SERVER);
    shelf.beside("sessions", ours.opened_s, apache.opened_s);
    shelf.beside("watches", ours.watching_s, apache.watching_s);
    shelf.beside("memory-sessions", ours.resident_mib, apache.resident_mib);
    Ok(())
}

fn large_tree(effort: Effort, turns: &mut Turns, record: &mut Record) -> Outcome<()> {
    let mut costs = [Costs::default(); 2];
    for number in turns.order::<2>() {
        let server = if number == 0 { Server::embedded()? } else { Server::apache(large::SNAPSHOT_AFTER)? };
        costs[number] = large::costs(server, effort)?;
    }
    let [ours, apache] = costs;
    let mut shelf = record.shelf(Group::Server, NO_SERVER);
    let seconds = Duration::as_secs_f64;
    shelf.beside("large-memory", ours.resident_mib, apache.resident_mib);
    shelf.beside("longest-write", seconds(&ours.longest_write), seconds(&apache.longest_write));
    shelf.beside("write", seconds(&ours.write), seconds(&apache.write));
    shelf.beside("peak", ours.peak, apache.peak);
    shelf.beside("filled", seconds(&ours.filled), seconds(&apache.filled));
    shelf.beside("started", seconds(&ours.started), seconds(&apache.started));
    Ok(())
}
