//! A large tree: what it takes of memory, how long a snapshot of it stops others, and how long a start from it takes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper_zk_proto::message::{MultiOperation, ZkRequest};

use super::client::{Client, DATA_BYTES, create, encoded, node};
use super::process::Server;
use crate::load::{Effort, Stopwatch};

/// How many parents have so many nodes: a million of these.
const PARENTS: u32 = 1_000;
const NODES_PER_PARENT: usize = 1_000;
/// How many nodes are made in one transaction.
const NODES_PER_TRANSACTION: usize = 500;
/// After how many transactions Apache takes a snapshot.
pub(super) const SNAPSHOT_AFTER: usize = 1_000;
/// How often a large node is written while others are timed: both servers take a snapshot meanwhile.
const LARGE_WRITES: u32 = 1_000;
const LARGE_BYTES: usize = 100_000;

/// What a large tree costs a server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    pub(super) resident_mib: f64,
    /// The median and the longest of small writes while snapshots were taken.
    pub(super) write: Duration,
    pub(super) longest_write: Duration,
    /// The most memory meanwhile, as a multiple of that before.
    pub(super) peak: f64,
    pub(super) started: Duration,
}

/// Fills a server, has it take snapshots, kills it and starts it again.
pub(super) fn costs(mut server: Server, effort: Effort) -> io::Result<Costs> {
    fill(server.address, effort.calls(PARENTS) as usize)?;
    let resident_mib = server.resident_mib()?;
    server.forget_peak()?;
    let (write, longest_write) = timed_writes(server.address, effort.calls(LARGE_WRITES))?;
    let peak = server.peak_mib()? / resident_mib;
    server = server.started_again()?;
    Ok(Costs { resident_mib, write, longest_write, peak, started: server.ready })
}

fn fill(address: SocketAddr, parents: usize) -> io::Result<()> {
    let mut client = Client::open(address)?;
    let parent = |number: usize| format!("/large-{number:03}");
    let requests: Vec<ZkRequest> = (0..parents).map(|number| create(&parent(number))).collect();
    client.round(&encoded(&requests)?, parents)?;
    for number in 0..parents {
        let node = |at: usize| MultiOperation::Create(node(format!("{}/node-{at:06}", parent(number))));
        let transaction = |first: usize| ZkRequest::Multi((first..first + NODES_PER_TRANSACTION).map(node).collect());
        let requests: Vec<ZkRequest> = (0..NODES_PER_PARENT).step_by(NODES_PER_TRANSACTION).map(transaction).collect();
        client.round(&encoded(&requests)?, requests.len())?;
    }
    client.round(&encoded(&[ZkRequest::CloseSession])?, 1)
}

/// Times small writes, one after the other, while a large node is written again and again.
fn timed_writes(address: SocketAddr, large_writes: u32) -> io::Result<(Duration, Duration)> {
    let set = |path: &str, bytes: usize| {
        encoded(&[ZkRequest::SetData { path: path.to_owned(), data: Some(vec![2; bytes].into()), version: -1 }])
    };
    let connect = |path: &str| {
        let mut client = Client::open(address)?;
        // From an earlier turn it is there already.
        let _ = client.round(&encoded(&[create(path)])?, 1);
        Ok::<_, io::Error>(client)
    };
    let is_over = AtomicBool::new(false);
    let mut took = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let written = (|| {
                let (mut client, large) = (connect("/large")?, set("/large", LARGE_BYTES)?);
                (0..large_writes).try_for_each(|_| client.round(&large, 1))
            })();
            is_over.store(true, Ordering::Relaxed);
            written
        });
        let timed = (|| {
            let (mut client, small) = (connect("/small")?, set("/small", DATA_BYTES)?);
            let mut took = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let watch = Stopwatch::start();
                client.round(&small, 1)?;
                took.push(watch.elapsed());
            }
            Ok::<_, io::Error>(took)
        })();
        writer.join().expect("a client does not panic")?;
        timed
    })?;
    took.sort();
    let longest = *took.last().ok_or_else(|| io::Error::other("nothing was timed"))?;
    Ok((took[took.len() / 2], longest))
}
