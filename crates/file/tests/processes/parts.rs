//! The parts that helper processes play, and how a test starts and conducts them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use lockkeeper_core::{Backend, LivenessAt};
use lockkeeper_faults::wait::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};

use crate::more_parts;
use crate::support::{Place, backend, lock, queue, session};

const PART: &str = "LOCKKEEPER_FILE_TEST_PART";
const DIRECTORY: &str = "LOCKKEEPER_FILE_TEST_DIRECTORY";
const NUMBER: &str = "LOCKKEEPER_FILE_TEST_NUMBER";

/// The queue that all parts use.
pub(crate) const QUEUE: &str = "q";

/// What a helper process is to do, and where.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    name: String,
    pub(crate) directory: PathBuf,
    pub(crate) number: u32,
}

pub(crate) fn from_environment() -> Option<Part> {
    Some(Part {
        name: std::env::var(PART).ok()?,
        directory: std::env::var_os(DIRECTORY)?.into(),
        number: std::env::var(NUMBER).ok()?.parse().ok()?,
    })
}

/// Plays a part; says `ready` when it waits for a line on the standard input to go on.
pub(crate) fn play(part: &Part) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match part.name.as_str() {
            "take-numbers" => take_numbers(part).await,
            "hold" => hold(part).await,
            "add" => add(part).await,
            "storm" => storm(part).await,
            "wait-many" => wait_many(part).await,
            "be-removed" => be_removed(part).await,
            "try-session" => try_session(part).await,
            "look" => look(part).await,
            "watch" => more_parts::watch(part).await,
            "follow" => more_parts::follow(part).await,
            "watch-and-stop" => more_parts::watch_and_stop(part).await,
            "be-asked" => more_parts::be_asked(part).await,
            "freeze" => more_parts::freeze(part).await,
            "ask-in-vain" => more_parts::ask_in_vain(part).await,
            "wait-for-first" => more_parts::wait_for_first(part).await,
            "write-value" => more_parts::write_value(part).await,
            "storm-of-all" => more_parts::storm_of_all(part).await,
            other => panic!("there is no part {other}"),
        }
    });
}

pub(crate) fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// Waits for a line; ends the part if the conductor is gone.
pub(crate) fn listen() {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap() == 0 {
        std::process::exit(3);
    }
}

/// Enters and leaves a separate queue again and again, and reports the numbers; the counter alone keeps them apart.
async fn take_numbers(part: &Part) {
    let session = session(&part.directory);
    let own = queue(&std::process::id().to_string());
    say("ready");
    listen();
    let mut numbers = Vec::new();
    for _ in 0..part.number {
        let place = Place::join(&session, &own).await.unwrap();
        numbers.push(place.number().to_string());
        place.leave().await.unwrap();
    }
    say(&numbers.join(" "));
}

/// Joins, waits, holds until told to go on, leaves.
async fn hold(part: &Part) {
    let session = session(&part.directory);
    let mut place = Place::join(&session, &queue(QUEUE)).await.unwrap();
    say("ready");
    place.granted().await.unwrap();
    say("held");
    listen();
    place.leave().await.unwrap();
    session.close().await.unwrap();
    say("left");
}

/// Adds one to a number in a file, under the lock, with a new session each time.
async fn add(part: &Part) {
    let sum = part.directory.with_extension("sum");
    say("ready");
    listen();
    for _ in 0..part.number {
        let session = session(&part.directory);
        let place = lock(&session, &queue(QUEUE)).await.unwrap();
        let before: u64 = fs::read_to_string(&sum).unwrap().parse().unwrap();
        fs::write(&sum, (before + 1).to_string()).unwrap();
        assert!(place.joined.standing.liveness(LivenessAt::Now).is_held());
        place.leave().await.unwrap();
        session.close().await.unwrap();
    }
    say("done");
}

/// Locks and leaves until it is killed, and writes down each grant and each leaving before it happens.
async fn storm(part: &Part) {
    let log = part.directory.with_extension("log");
    let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
    say("ready");
    loop {
        let session = session(&part.directory);
        for _ in 0..part.number {
            let place = lock(&session, &queue(QUEUE)).await.unwrap();
            log.write_all(format!("+{}\n", place.number()).as_bytes()).unwrap();
            log.write_all(format!("-{}\n", place.number()).as_bytes()).unwrap();
            place.leave().await.unwrap();
        }
        session.close().await.unwrap();
    }
}

/// Waits many times over, and reports the processor time that the waiting took, in microseconds.
async fn wait_many(part: &Part) {
    let session = session(&part.directory);
    let mut waiters = Vec::new();
    for _ in 0..part.number {
        let mut place = Place::join(&session, &queue(QUEUE)).await.unwrap();
        waiters.push(tokio::spawn(async move { place.granted().await }));
    }
    tokio::task::yield_now().await;
    let before = processor_time();
    tokio::time::sleep(Duration::from_secs(2)).await;
    say(&(processor_time() - before).as_micros().to_string());
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Holds, and reports when the hold is lost.
async fn be_removed(part: &Part) {
    let session = session(&part.directory);
    let place = lock(&session, &queue(QUEUE)).await.unwrap();
    let lost = tokio::spawn(place.joined.standing.lost());
    tokio::task::yield_now().await;
    say(place.joined.id.as_str());
    say(&format!("{:?}", lost.await.unwrap()));
}

/// Reports how the opening of a session, or else a join, fails.
async fn try_session(part: &Part) {
    let joined = match backend(&part.directory).session().await {
        Ok(session) => Place::join(&session, &queue(QUEUE)).await.map(|place| place.number()),
        Err(error) => Err(error),
    };
    say(&joined
        .map_or_else(|error| format!("{:?} {:?} {error}", error.kind(), error.advice()), |_| "joined".to_owned()));
}

/// Reports what a user who can only read may see, and what such a user may open or lock.
async fn look(part: &Part) {
    let backend = backend(&part.directory);
    let names = backend.admin().queues("").await.unwrap();
    let infos = backend.admin().inspect(&queue(QUEUE)).await.unwrap();
    say(&format!("{} queue {} owner {}", names.len(), names[0], infos[0].owner.as_ref().unwrap().pid));
    let mut files = vec![part.directory.join("counter")];
    for entry in fs::read_dir(part.directory.join("queues").join(QUEUE)).unwrap() {
        files.push(entry.unwrap().path());
    }
    let opened: Vec<_> = files.iter().filter(|file| can_be_opened(file)).collect();
    say(&format!("{} files, opened {opened:?}", files.len()));
}

fn can_be_opened(file: &Path) -> bool {
    use rustix::fs::{Mode, OFlags, open};

    [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR]
        .into_iter()
        .any(|access| open(file, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).is_ok())
}

/// A helper process; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Helper {
    /// Starts this program in another part.
    pub(crate) fn start(name: &str, directory: &Path, number: u32) -> Self {
        Self::start_with(Command::new(std::env::current_exe().unwrap()), name, directory, number)
    }

    /// Starts this program by another command, which ends with this program's path.
    pub(crate) fn start_with(mut command: Command, name: &str, directory: &Path, number: u32) -> Self {
        command.env(PART, name).env(DIRECTORY, directory).env(NUMBER, number.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(()) = sender.send(line.unwrap()) else { return };
            }
        });
        Self { child, stdin, lines }
    }

    /// Starts one that joins, and waits until it has joined.
    pub(crate) fn waiting(directory: &Path) -> Self {
        let waiter = Self::start("hold", directory, 0);
        waiter.hear_that("ready");
        waiter
    }

    /// Starts one that joins, and waits until it holds.
    pub(crate) fn holding(directory: &Path) -> Self {
        let holder = Self::waiting(directory);
        holder.hear_that("held");
        holder
    }

    /// Waits for its next line.
    pub(crate) fn hear(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the helper must say something in time")
    }

    /// Waits until it says this line.
    pub(crate) fn hear_that(&self, line: &str) {
        assert_eq!(self.hear(), line);
    }

    /// Tells whether it stays silent for this long.
    pub(crate) fn is_silent_for(&self, duration: Duration) -> bool {
        matches!(self.lines.recv_timeout(duration), Err(RecvTimeoutError::Timeout))
    }

    pub(crate) fn go_on(&mut self) {
        writeln!(self.stdin).unwrap();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Returns its process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs what a test itself does with the backend traits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Plays a part with several helpers, of which one after the other is killed at some moment and replaced; the longest
/// delay before a kill is in microseconds.
pub(crate) fn kill_at_any_moment(part: &str, directory: &Path, number: u32, kills: usize, delay_max: usize) {
    let start = || {
        let helper = Helper::start(part, directory, number);
        helper.hear_that("ready");
        helper
    };
    let mut helpers: Vec<_> = (0..4).map(|_| start()).collect();
    for kill in 0..kills {
        // Delays that are all different, so that the kills come in at every place.
        let delay = Duration::from_micros((kill * 7_919 % delay_max) as u64);
        let victim = kill % helpers.len();
        assert!(helpers[victim].is_silent_for(delay), "a helper said something, so it must have failed");
        helpers[victim] = start();
    }
}

/// Every process has left and closed: no directory of a queue is there, and nothing that was being prepared.
pub(crate) fn assert_nothing_left(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory.join("queues")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?} was left");
}

/// Notes a test that could not run here, in the file that the caller of the tests has named.
pub(crate) fn skip(name: &str, reason: &str) {
    println!("skipped {name}: {reason}");
    if let Some(path) = std::env::var_os("LOCKKEEPER_TEST_SKIPS") {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{name}: {reason}").unwrap();
    }
}
