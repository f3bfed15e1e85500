//! Eight processes of eight tasks on one lock, Local, beside as many of Curator's.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use lockkeeper::Handoff;
use lockkeeper_faults::peers::{Peer, Sharing};
use lockkeeper_faults::process::{self, Process};

use super::super::bench::Bench;
use super::contender::{READY, Seen};
use super::ground::Ground;
use crate::Outcome;
use crate::load::{CrowdGrants, Stopwatch};
use crate::report::{Group, Record};

const PROCESSES: u32 = 8;
const TASKS: usize = 8;

/// How long they contend in one round.
const TIME: Duration = Duration::from_secs(1);

/// How long Curator's contend before any of it is counted.
const WARM_UP: Duration = Duration::from_secs(1);

pub(super) async fn measure(ground: &Ground, bench: &mut Bench) -> Outcome<()> {
    if ground.curator.is_none() {
        return Ok(());
    }
    let mut peers = Vec::new();
    for _ in 0..PROCESSES {
        peers.push(ground.start_curator().await?);
    }
    let time = bench.effort.time(TIME);
    peers = theirs(peers, bench.effort.time(WARM_UP)).await?.0;
    for _ in 0..bench.effort.rounds() {
        let mut rates = [0.0; 2];
        for number in bench.turns.order::<2>() {
            if number == 0 {
                rates[0] = ours(ground, time, &mut bench.record).await?;
            } else {
                (peers, rates[1]) = theirs(peers, time).await?;
            }
        }
        bench.shelf(Group::ZooKeeper, ground.name).beside("processes", rates[0], rates[1]);
    }
    Ok(())
}

async fn ours(ground: &Ground, time: Duration, record: &mut Record) -> Outcome<f64> {
    let mut contenders = Vec::new();
    for _ in 0..PROCESSES {
        contenders.push(Contender::start(&ground.url(), time)?);
    }
    for contender in &mut contenders {
        contender.expect(READY)?;
    }
    let before = ground.received().await?;
    let watch = Stopwatch::start();
    for contender in &mut contenders {
        contender.input.write_all(b"\n")?;
    }
    let mut seen = Seen::default();
    for contender in &mut contenders {
        seen.add(&serde_json::from_str(&contender.line()?)?);
    }
    let took = watch.elapsed();
    let requests = ground.received().await?.saturating_sub(before + 1);
    let Handoff::Local { turns_max, .. } = Handoff::local() else { return Err("Local has no bound".into()) };
    let mut shelf = record.shelf(Group::ZooKeeper, ground.name);
    shelf.beside("processes-wait", seen.longest_wait_s, seen.bound_s(PROCESSES, turns_max.get()));
    shelf.ours("processes-requests", requests as f64 / seen.grants.max(1) as f64);
    Ok(seen.grants as f64 / took.as_secs_f64())
}

/// All at once; they begin within the time in which their commands are written.
async fn theirs(peers: Vec<Peer>, time: Duration) -> Outcome<(Vec<Peer>, f64)> {
    let watch = Stopwatch::start();
    let running: Vec<_> = peers
        .into_iter()
        .map(|mut peer| {
            tokio::spawn(async move {
                let crowd = peer.time_crowd("/bench/curator-processes", Sharing::Each, TASKS, time).await;
                crowd.map(|crowd| (peer, crowd))
            })
        })
        .collect();
    let (mut peers, mut grants) = (Vec::new(), Vec::new());
    for task in running {
        let (peer, crowd) = task.await??;
        peers.push(peer);
        grants.extend(crowd.grants);
    }
    Ok((peers, CrowdGrants::new(grants, watch.elapsed()).per_second()))
}

/// This program, started as one that contends.
struct Contender {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _process: Process,
}

impl Contender {
    fn start(url: &str, time: Duration) -> Outcome<Self> {
        let mut command = process::command(std::env::current_exe()?);
        let (tasks, millis) = (TASKS.to_string(), time.as_millis().to_string());
        command.args(["contend", url, "processes", &tasks, &millis]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(command)?;
        let input = process.take_stdin().expect("asked to be piped");
        let output = BufReader::new(process.take_stdout().expect("asked to be piped"));
        Ok(Self { input, output, _process: process })
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("a process that contends has ended".into()),
            _ => Ok(line),
        }
    }

    fn expect(&mut self, word: &str) -> Outcome<()> {
        let line = self.line()?;
        if line.trim() == word { Ok(()) } else { Err(format!("a process that contends said {line:?}").into()) }
    }
}
