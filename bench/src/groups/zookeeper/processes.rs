//! Eight processes of eight tasks on one lock, Local, beside as many of Curator's. Ours are this program, started by
//! itself: each says when it is ready, begins when it is told, and answers with one line of figures.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::{Handoff, Keeper, Mutex};
use lockkeeper_faults::peers::{Peer, Sharing};
use lockkeeper_faults::process::{self, Process};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::groups::ours;
use crate::groups::ours::Bench;
use crate::groups::zookeeper::ground::Ground;
use crate::load::Outcome;
use crate::load::{CrowdGrants, Stopwatch, two_threads};
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
    let mut seen = ProcessFigures::default();
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

/// What it says when it has its session.
pub(super) const READY: &str = "ready";

/// How long it waits between two separate locks that tell how long a join takes under this load.
const JOIN_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct ProcessFigures {
    pub(super) grants: u64,
    pub(super) longest_wait_s: f64,
    /// The time of a turn: from a grant to the next one of the same place. Sum and number.
    pub(super) turns_s: f64,
    pub(super) turns: u64,
    /// The time of a lock and release that no other client wants. Sum and number.
    pub(super) joins_s: f64,
    pub(super) joins: u64,
}

/// The last grant of the process: its place, and when it was.
type Last = Option<(u64, Duration)>;

pub(crate) fn contend(url: &str, name: &str, tasks: usize, time: Duration) -> Outcome<()> {
    two_threads()?.block_on(async {
        let keeper = lockkeeper::connect(url)?;
        let joining = keeper.mutex(&format!("join {}", std::process::id()))?;
        ours::lock_and_release(&joining).await?;
        ours::lock_and_release(&keeper.mutex(name)?).await?;
        println!("{READY}");
        io::stdout().flush()?;
        io::stdin().lock().read_line(&mut String::new())?;
        let seen = contending(&keeper, name, joining, tasks, time).await?;
        println!("{}", serde_json::to_string(&seen)?);
        Ok(keeper.close().await?)
    })
}

async fn contending(
    keeper: &Keeper,
    name: &str,
    joining: Mutex,
    tasks: usize,
    time: Duration,
) -> Outcome<ProcessFigures> {
    let stopped = Arc::new(AtomicBool::new(false));
    let last = Arc::new(std::sync::Mutex::new(Last::None));
    let begun = Stopwatch::start();
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let mutex = keeper.mutex(name)?.handoff(Handoff::local());
        running.spawn(take_turns(mutex, stopped.clone(), last.clone(), begun));
    }
    running.spawn(join_at_times(joining, stopped.clone()));
    sleep(time).await;
    stopped.store(true, Ordering::Relaxed);
    let mut seen = ProcessFigures::default();
    while let Some(ended) = running.join_next().await {
        seen.add(&ended??);
    }
    Ok(seen)
}

async fn take_turns(
    mutex: Mutex,
    stopped: Arc<AtomicBool>,
    last: Arc<std::sync::Mutex<Last>>,
    begun: Stopwatch,
) -> Outcome<ProcessFigures> {
    let mut seen = ProcessFigures::default();
    while !stopped.load(Ordering::Relaxed) {
        let asked = begun.elapsed();
        let guard = mutex.lock().await?;
        let now = begun.elapsed();
        seen.grants += 1;
        seen.longest_wait_s = seen.longest_wait_s.max((now - asked).as_secs_f64());
        let place = guard.fencing_token().as_u64();
        if let Some((before, when)) = last.lock().expect("no task has panicked").replace((place, now))
            && before == place
        {
            seen.turns_s += now.saturating_sub(when).as_secs_f64();
            seen.turns += 1;
        }
        guard.release().await?;
    }
    Ok(seen)
}

async fn join_at_times(mutex: Mutex, stopped: Arc<AtomicBool>) -> Outcome<ProcessFigures> {
    let mut seen = ProcessFigures::default();
    while !stopped.load(Ordering::Relaxed) {
        let watch = Stopwatch::start();
        ours::lock_and_release(&mutex).await?;
        seen.joins_s += watch.elapsed().as_secs_f64();
        seen.joins += 1;
        sleep(JOIN_EVERY).await;
    }
    Ok(seen)
}

impl ProcessFigures {
    pub(super) fn add(&mut self, other: &Self) {
        self.grants += other.grants;
        self.longest_wait_s = self.longest_wait_s.max(other.longest_wait_s);
        self.turns_s += other.turns_s;
        self.turns += other.turns;
        self.joins_s += other.joins_s;
        self.joins += other.joins;
    }

    /// How long a contender may wait: so many processes ahead, each with so many turns, and as many joins. Both times
    /// are means of what the processes themselves have seen under this load.
    pub(super) fn bound_s(&self, processes: u32, turns_max: u32) -> f64 {
        let mean = |sum: f64, count: u64| sum / count.max(1) as f64;
        let turn = mean(self.turns_s, self.turns);
        f64::from(processes) * (f64::from(turns_max) * turn + mean(self.joins_s, self.joins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_of_all_turns_and_joins_ahead() {
        let one = ProcessFigures { turns_s: 1.0, turns: 100, joins_s: 2.0, joins: 10, ..ProcessFigures::default() };
        let mut both = one;
        both.add(&ProcessFigures { turns_s: 3.0, turns: 100, longest_wait_s: 9.0, ..ProcessFigures::default() });
        assert_eq!(both.longest_wait_s, 9.0);
        assert!((both.bound_s(8, 64) - 8.0 * (64.0 * 0.02 + 0.2)).abs() < 1e-9, "{both:?}");
    }
}
