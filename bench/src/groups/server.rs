//! The embedded server beside Apache ZooKeeper standalone, both with their logs flushed before an answer: as processes
//! (`process`), under the load of clients, and with a large tree (`client`).

mod client;
pub(super) mod process;

use std::time::Duration;

use lockkeeper_faults::zookeeper;

use crate::groups::ours::{Bench, present};
use crate::groups::server::client::{Costs, Load, operations_per_second};
use crate::groups::server::process::{SNAPSHOT_AFTER, Server};
use crate::load::Outcome;
use crate::report::Group;
use crate::report::rows::NO_SERVER;

pub(crate) use process::serve;

/// How long one server is loaded before rounds count: by then Java has compiled what it runs.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long one server is loaded in one round.
const LOADED: Duration = Duration::from_secs(1);
/// How often the embedded server is started to see how long that takes.
const STARTS: usize = 9;
/// How often both are filled with a large tree.
const LARGE_TURNS: usize = 3;

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    present(zookeeper::availability())?;
    bench.now("server: starts");
    let mut starts = Vec::new();
    for _ in 0..bench.effort.turns(STARTS) {
        starts.push(Server::embedded()?.ready.as_secs_f64());
    }
    let servers = [Server::embedded()?, Server::apache(SNAPSHOT_AFTER)?];
    let mut shelf = bench.shelf(Group::Server, NO_SERVER);
    for ready in starts {
        shelf.beside("ready", ready, servers[1].ready.as_secs_f64());
    }
    bench.now("server: writes");
    under_load(&servers, Load::Writes, "writes", bench)?;
    bench.now("server: reads");
    under_load(&servers, Load::Reads, "reads", bench)?;
    let [ours, apache] = [servers[0].resident_mib()?, servers[1].resident_mib()?];
    bench.shelf(Group::Server, NO_SERVER).beside("memory", ours, apache);
    // Nothing else takes memory and processors meanwhile.
    drop(servers);
    for _ in 0..bench.effort.turns(LARGE_TURNS) {
        bench.now("server: a large tree");
        large_tree(bench)?;
    }
    Ok(())
}

fn under_load(servers: &[Server; 2], load: Load, id: &str, bench: &mut Bench) -> Outcome<()> {
    let effort = bench.effort;
    for server in servers {
        operations_per_second(server.address, load, effort.time(WARM_UP))?;
    }
    for _ in 0..bench.effort.rounds() {
        let mut rates = [0.0; 2];
        for number in bench.turns.order::<2>() {
            rates[number] = operations_per_second(servers[number].address, load, effort.time(LOADED))?;
        }
        let [ours, apache] = rates;
        bench.shelf(Group::Server, NO_SERVER).beside(id, ours, apache);
    }
    Ok(())
}

fn large_tree(bench: &mut Bench) -> Outcome<()> {
    let mut costs = [Costs::default(); 2];
    for number in bench.turns.order::<2>() {
        let server = if number == 0 { Server::embedded()? } else { Server::apache(client::SNAPSHOT_AFTER)? };
        costs[number] = client::costs(server, bench.effort)?;
    }
    let [ours, apache] = costs;
    let mut shelf = bench.shelf(Group::Server, NO_SERVER);
    shelf.beside("large-memory", ours.resident_mib, apache.resident_mib);
    shelf.beside("peak", ours.peak, apache.peak);
    let times = |costs: Costs| [costs.longest_write, costs.write, costs.started];
    let ids = ["longest-write", "write", "started"];
    for (id, (ours, apache)) in ids.into_iter().zip(times(ours).into_iter().zip(times(apache))) {
        shelf.beside(id, ours.as_secs_f64(), apache.as_secs_f64());
    }
    Ok(())
}
