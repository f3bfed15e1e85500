//! The command `monitor` beside 10,000 locks of the embedded server that are granted 1,000 times a second: its memory,
//! its part of a core, and the time of the page of its busiest lock.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use lockkeeper_faults::process::{self, Process};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::groups::following::{Locks, lock_name};
use crate::groups::ours::Bench;
use crate::groups::run::binary;
use crate::groups::server::process::{Server, mib_of};
use crate::load::{Latency, Outcome, Stopwatch, two_threads};
use crate::report::Group;
use crate::report::rows::EMBEDDED;

/// How many locks are held all the time, beside those that are granted.
const LOCKS_HELD: u32 = 9_900;

/// How many locks are granted again and again, and of so many grants one is of the busiest.
const LOCKS_BUSY: u32 = 100;
const BUSIEST_SHARE: u32 = 4;
const BUSIEST: &str = "busiest";

/// How many tasks take them, and how long it is from one grant of a task to the next: 1,000 grants a second together.
const TAKERS: u32 = 50;
const GRANT_INTERVAL: Duration = Duration::from_millis(50);

/// For how long.
const LOADED: Duration = Duration::from_secs(600);

/// How often the page is asked for.
const PAGES: u32 = 60;

/// How long the monitor may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// How long it may take until it has seen all locks.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    bench.now("monitor: 10,000 locks, 1,000 grants a second");
    let (server, effort) = (Server::embedded()?, bench.effort);
    let url = format!("zk://{}", server.address);
    let runtime = two_threads()?;
    let locks = runtime.block_on(Locks::hold(&url, effort.calls(LOCKS_HELD)))?;
    let monitor = RunningMonitor::start(&url)?;
    runtime.block_on(monitor.until_seen(&format!("/lock?name={}", lock_name(0))))?;
    let load = runtime.spawn(grants(url, effort.time(LOADED)));
    let (begun, before) = (Stopwatch::start(), monitor.processor_time()?);
    let mut pages = Latency::new();
    let pause = effort.time(LOADED) / effort.calls(PAGES);
    // The page as it is at the end, when it is longest, is what counts: the others come by as a reader's would.
    while !load.is_finished() {
        runtime.block_on(async { sleep(pause).await });
        pages.note(monitor.page()?);
    }
    let granted = runtime.block_on(load)??;
    let (took, worked) = (begun.elapsed(), monitor.processor_time()?.saturating_sub(before));
    let longest = monitor.page()?;
    let shelf = &mut bench.shelf(Group::Monitor, EMBEDDED);
    shelf.ours("grants", f64::from(granted) / took.as_secs_f64());
    shelf.ours("memory", mib_of(monitor.process.id(), "VmHWM:")?);
    shelf.ours("page", pages.median());
    shelf.ours("page-last", longest.as_secs_f64());
    shelf.ours("core", worked.div_duration_f64(took));
    runtime.block_on(locks.close())
}

/// Has locks granted at an even pace for a while; returns how often they were.
async fn grants(url: String, time: Duration) -> Outcome<u32> {
    let keeper = lockkeeper::connect(&*url)?;
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let keeper = keeper.clone();
        takers.spawn(async move {
            let (mut pace, begun, mut count) = (interval(GRANT_INTERVAL), Stopwatch::start(), 0);
            while begun.elapsed() < time {
                pace.tick().await;
                let name = match count % BUSIEST_SHARE {
                    0 => BUSIEST.to_owned(),
                    _ => format!("busy-{}", (count * TAKERS + taker) % LOCKS_BUSY),
                };
                keeper.mutex(&name)?.lock().await?.release().await?;
                count += 1;
            }
            Outcome::Ok(count)
        });
    }
    let mut granted = 0;
    while let Some(count) = takers.join_next().await {
        granted += count??;
    }
    keeper.close().await?;
    Ok(granted)
}

/// The command as a process.
struct RunningMonitor {
    process: Process,
    address: String,
    _home: TempDir,
}

impl RunningMonitor {
    fn start(url: &str) -> Outcome<Self> {
        let home = tempfile::tempdir()?;
        let mut command = process::command(binary()?);
        command.args(["monitor", "--connect", url, "--listen", "127.0.0.1:0"]).env("HOME", home.path());
        command.stderr(Stdio::piped()).stdin(Stdio::null());
        let mut process = Process::start(command)?;
        let mut line = String::new();
        BufReader::new(process.take_stderr().ok_or("it was asked to be piped")?).read_line(&mut line)?;
        let (_, address) = line.trim_end().rsplit_once(", at http://").ok_or_else(|| {
            format!("the monitor says {line:?}; `cargo build -p lockkeeper-cli --features monitor` builds it")
        })?;
        Ok(Self { process, address: address.to_owned(), _home: home })
    }

    fn processor_time(&self) -> Outcome<Duration> {
        Ok(process::processor_time(self.process.id())?)
    }

    /// Asks for the page of the busiest lock; returns how long the answer took.
    fn page(&self) -> Outcome<Duration> {
        let watch = Stopwatch::start();
        let answer = self.get(&format!("/lock?name={BUSIEST}&span=1h"))?;
        let took = watch.elapsed();
        if answer.starts_with("HTTP/1.1 200 ") { Ok(took) } else { Err(format!("the page is {answer:?}").into()) }
    }

    /// Waits until it shows a lock as held.
    async fn until_seen(&self, path: &str) -> Outcome<()> {
        let begun = Stopwatch::start();
        while !self.get(path)?.contains("holds") {
            if begun.elapsed() > SEEN_WITHIN {
                return Err("the monitor has not seen the locks".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Outcome<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
