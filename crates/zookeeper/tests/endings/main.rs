//! Programs that hold a lock and end without releasing it, and programs that stand still: real processes, against a
//! real server and with sessions that are far longer than the test waits.
//!
//! Each way of ending is tried fifty times in `cargo xtask test --long`, a tenth otherwise.

mod program;

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use lockkeeper_conformance::{SOON, soon};
use lockkeeper_faults::long;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_recipes::Keeper;
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How often the long run tries each way.
const TRIES_LONG: u32 = 50;

/// How long the next caller waits at most after the end of a program, as a thread counts it that only sleeps …
const GRANTED_WITHIN: Duration = Duration::from_secs(1);

/// … and in the plain run, beside which other tests run: far less than the session timeout.
const GRANTED_WITHIN_PLAIN: Duration = Duration::from_secs(10);

/// How long a process stands still: most of a session.
const STALL: Duration = Duration::from_secs(12);

/// A way in which a program ends, or that it stands still.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    Dropped,
    Panicked,
    Owned,
    Background,
    StoodStill,
}

/// What the program's runtime runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threads {
    One,
    Several,
}

impl Way {
    const ALL: [Self; 5] = [Self::Dropped, Self::Panicked, Self::Owned, Self::Background, Self::StoodStill];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dropped => "a_guard_dropped_at_the_end_of_main_frees_the_lock",
            Self::Panicked => "a_panic_in_main_frees_the_lock",
            Self::Owned => "a_task_that_still_has_the_guard_when_main_ends_frees_the_lock",
            Self::Background => "a_runtime_shut_down_in_the_background_frees_the_lock",
            Self::StoodStill => "a_process_that_was_stopped_is_granted_a_free_lock_at_once_when_it_goes_on",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.name() == name)
    }
}

fn main() -> ExitCode {
    if let Some(ended) = program::play() {
        return ended;
    }
    let mut arguments = Arguments::from_args();
    // The tests measure how fast it is, and the programs are separate processes.
    arguments.test_threads = Some(1);
    let trials = Way::ALL.map(|way| Trial::test(way.name(), move || judged(way)));
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

fn judged(way: Way) -> Result<(), Failed> {
    if !zookeeper::availability().or_skip(way.name()) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::standalone(Setup::new()).await?;
        // Far longer than anything is waited for: no lock is free because a session has expired.
        let url =
            format!("zk://{}?session_timeout={}", server.address(), if way == Way::StoodStill { "20s" } else { "40s" });
        match way {
            Way::StoodStill => stand_still(&url).await,
            way => {
                end_again_and_again(&url, way, Threads::One).await?;
                end_again_and_again(&url, way, Threads::Several).await
            }
        }
    })
}

async fn end_again_and_again(url: &str, way: Way, threads: Threads) -> Result<(), Failed> {
    let tries = long::rounds(TRIES_LONG);
    let keeper = Keeper::new(std::sync::Arc::new(ZooKeeperBackend::open(&url.parse()?)?));
    let mut slowest = Duration::ZERO;
    for number in 0..tries {
        let name = format!("ending-{threads:?}-{number}");
        let mut program = Program::start(url, &name, way, threads)?;
        program.said("held").await?;
        let mutex = keeper.mutex(&name)?;
        let waiting = tokio::spawn(async move { mutex.lock().await });
        while keeper.contenders(&name).await?.len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let since_end = Sleeper::start();
        program.tell().await?;
        let granted = soon("the grant after the end of the program", waiting).await??;
        let took = since_end.slept();
        slowest = slowest.max(took);
        if took > granted_within() {
            return Err(format!("{threads:?}, try {number}: granted only after {took:?}").into());
        }
        granted.release().await?;
        program.end().await?;
    }
    println!("{threads:?}, {tries} tries, {slowest:?} at most: {}", way.name());
    keeper.close().await?;
    Ok(())
}

async fn stand_still(url: &str) -> Result<(), Failed> {
    let mut program = Program::start(url, "reports", Way::StoodStill, Threads::One)?;
    program.said("ready").await?;
    program.signal("STOP").await?;
    tokio::time::sleep(STALL).await;
    program.signal("CONT").await?;
    program.tell().await?;
    let said = program.line().await?;
    let took: Option<u128> = said.strip_prefix("granted ").and_then(|rest| rest.strip_suffix(" true")?.parse().ok());
    match took {
        Some(took) if took <= granted_within().as_millis() => {
            println!("granted {took} ms after {STALL:?} of standing still");
            Ok(())
        }
        _ => Err(format!("after {STALL:?} of standing still: {said}").into()),
    }
}

/// The other process, and what goes to and fro.
struct Program {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(url: &str, lock: &str, way: Way, threads: Threads) -> Result<Self, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        // Writing a backtrace can take longer than what is measured, and a guard is dropped only after it.
        command.env("RUST_BACKTRACE", "0");
        program::tell(&mut command, url, lock, way, threads);
        let mut process = command.spawn()?;
        let input = process.stdin.take().ok_or("no stdin")?;
        let output = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
        Ok(Self { process, input, output })
    }

    async fn line(&mut self) -> Result<String, Failed> {
        let line = tokio::time::timeout(SOON, self.output.next_line()).await??;
        Ok(line.ok_or("the program has ended")?)
    }

    async fn said(&mut self, word: &str) -> Result<(), Failed> {
        match self.line().await? {
            line if line == word => Ok(()),
            line => Err(format!("the program said {line}").into()),
        }
    }

    async fn tell(&mut self) -> Result<(), Failed> {
        Ok(self.input.write_all(b"\n").await?)
    }

    async fn signal(&self, name: &str) -> Result<(), Failed> {
        let id = self.process.id().ok_or("the program has ended")?;
        let sent = Command::new("kill").args(["-s", name, &id.to_string()]).status().await?;
        if sent.success() { Ok(()) } else { Err(format!("cannot send SIG{name}").into()) }
    }

    /// Lets it go on to its end, if it has not come there yet.
    async fn end(mut self) -> Result<(), Failed> {
        drop(self.input);
        tokio::time::timeout(SOON, self.process.wait()).await??;
        Ok(())
    }
}

fn granted_within() -> Duration {
    if long::is_asked_for() { GRANTED_WITHIN } else { GRANTED_WITHIN_PLAIN }
}
