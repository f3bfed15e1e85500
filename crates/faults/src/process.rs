//! Child processes that cannot outlive the test, however it ends, and that can be killed, stopped and continued, alone
//! or with the children that they start for their clients.
//!
//! A child asks the kernel to be killed when its parent dies. The kernel counts the *thread* that started it as the
//! parent, and test threads come and go; so one thread, which lives as long as the process, starts all children.

use std::ffi::OsStr;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process};

use crate::{Availability, Error, Result, scratch, wait};

/// Started as `sh -c … OUR_PID PROGRAM ARGUMENT…`: runs the program only if we were still there when the parent-death
/// signal was set; had we died before, it would never come.
const UNLESS_ORPHANED: &str = r#"test "$PPID" = "$0" && exec "$@""#;

/// A command for [`Process::start`] whose process is killed when ours dies; arguments and streams are added as usual.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    with_death_signal(launcher(&[]), program.as_ref())
}

/// The same inside a network namespace.
pub(crate) fn command_in_namespace(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    command_behind(&in_namespace(namespace), program)
}

/// The same behind words that are a command which runs what follows them in its own place.
pub(crate) fn command_behind(before: &[&str], program: impl AsRef<OsStr>) -> Command {
    with_death_signal(launcher(before), program.as_ref())
}

/// The same without the rights of root, for a program that refuses to run with them. The words `before` are a command
/// that runs what follows them, still with these rights.
pub(crate) fn command_without_root(before: &[&str], program: impl AsRef<OsStr>) -> Command {
    let mut command = launcher(before);
    command.args(scratch::privileges());
    with_death_signal(command, program.as_ref())
}

/// A command that runs what follows it in a network namespace.
pub(crate) fn in_namespace(namespace: &str) -> [&str; 4] {
    ["ip", "netns", "exec", namespace]
}

/// The program that says what the kernel is to do with the process.
fn launcher(before: &[&str]) -> Command {
    let mut words = before.iter().chain(&["setpriv"]);
    let mut command = Command::new(words.next().unwrap_or(&"setpriv"));
    command.args(words);
    command
}

/// Every step from here on replaces the one before it in the same process, so the child's pid is the program's.
fn with_death_signal(mut command: Command, program: &OsStr) -> Command {
    command.args(["--pdeathsig", "KILL", "sh", "-c", UNLESS_ORPHANED]).arg(std::process::id().to_string()).arg(program);
    command
}

/// Whether children can be started by [`command`] here.
pub fn availability() -> Availability {
    Availability::of_programs(&["setpriv", "sh"], "util-linux")
}

/// How much processor time the threads of a process have used so far, those that have ended not counted.
pub fn processor_time(id: u32) -> Result<Duration> {
    let folder = format!("/proc/{id}/task");
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(&folder).map_err(Error::io(&folder))? {
        let thread = thread.map_err(Error::io(&folder))?.path().join("schedstat");
        // A thread may end meanwhile. Its first number is the time on a processor, in nanoseconds.
        let times = fs::read_to_string(thread).unwrap_or_default();
        let nanos = times.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0);
        sum += Duration::from_nanos(nanos);
    }
    Ok(sum)
}

/// How much processor time a process has used so far, with its descendants that run, and those that have ended.
pub(crate) fn family_time(id: u32) -> Duration {
    let ticks: u64 = [vec![id], descendants(id)].concat().into_iter().map(ticks).sum();
    Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(u32::MAX)
}

/// The time of a process that runs, and of the children that it has waited for, in ticks of the kernel; 0 for one that
/// has ended meanwhile.
fn ticks(id: u32) -> u64 {
    // Behind the name, which may have any bytes: the state is the third field, the times are the 14th to the 17th.
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The processes that a process has started, and those that these have started.
fn descendants(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let children: String = children.map(|children| children + " ").collect();
    let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// A running child; dropping it kills it and waits for its end.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    /// Starts a command made by [`command`].
    pub fn start(command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = spawn_on_lasting_thread(command).map_err(Error::io(format_args!("starting {name}")))?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Takes the pipe from its standard error, if one was asked for and not taken.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// The processes that it has started, and those that these have started.
    pub(crate) fn descendants(&self) -> Vec<u32> {
        descendants(self.id())
    }

    /// Whether it has not ended yet; a stopped process has not.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Takes the pipe to its standard input, if one was asked for and not taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Takes the pipe from its standard output, if one was asked for and not taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Kills it (SIGKILL) and waits until it is gone; one that has ended is left alone.
    pub fn kill(&mut self) {
        if self.is_running() {
            // It can end between the look and the signal; until it is waited for, no other process has its pid.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// Stops it (SIGSTOP); on return no thread of it runs.
    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        // NOWAIT leaves an exit to be collected by the holder of the child.
        let until = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(self.pid), until)
            .map_err(|error| Error::new(format!("waiting for process {} to stop: {error}", self.id())))?;
        Ok(())
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Interrupts it (SIGINT), as a person at its terminal would.
    pub fn interrupt(&mut self) -> Result<()> {
        self.signal(Signal::INT)
    }

    /// Waits for its end.
    ///
    /// # Cancellation
    ///
    /// Dropping the future stops waiting; the process goes on.
    pub async fn exited(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("the end of process {}", self.id());
        let ended = wait::until(&what, within, async || self.child.try_wait().transpose()).await?;
        ended.map_err(Error::io(what))
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        if !self.is_running() {
            return Err(Error::new(format!("process {} has ended", self.id())));
        }
        kill_process(self.pid, signal).map_err(|error| Error::new(format!("signalling process {}: {error}", self.id())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Starts a child from the thread that lives as long as this process.
fn spawn_on_lasting_thread(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // The caller waits for the answer.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = mpsc::sync_channel(1);
    let gone = |_| io::Error::other("the thread that starts children is gone");
    orders.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

/// The pause between two looks at whether signalled children stand still or are gone.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// How often to look, which takes two minutes or more: a child that waits for a slow disk obeys later.
const LOOKS_MAX: u32 = 120_000;

/// A process and its children; dropping it kills them all.
#[derive(Debug)]
pub(crate) struct Family(pub(crate) Process);

impl Family {
    /// Stops them all (SIGSTOP): the parent first, so that the children do not become more.
    pub(crate) fn pause(&mut self) -> Result<()> {
        self.0.pause()?;
        let children = self.children();
        signal(&children, Signal::STOP);
        until_all(&children, |state| "TtZX".contains(state))
    }

    /// Lets them all go on (SIGCONT).
    pub(crate) fn resume(&mut self) -> Result<()> {
        signal(&self.children(), Signal::CONT);
        self.0.resume()
    }

    /// Kills them all (SIGKILL), and waits until they hold nothing any more. While the parent stands still, a dead
    /// child keeps its number, so no signal hits a stranger.
    fn kill(&mut self) {
        if self.0.pause().is_ok() {
            let children = self.children();
            signal(&children, Signal::KILL);
            // A child that waits for its disk dies later; a server that needs what it holds says so.
            let _ = until_all(&children, |state| "ZX".contains(state));
        }
        self.0.kill();
    }

    fn children(&self) -> Vec<Pid> {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = pids.filter(|pid| stat(*pid).is_some_and(|(_, parent)| parent == self.0.id()));
        ours.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(children: &[Pid], signal: Signal) {
    for child in children {
        // It may have ended by itself.
        let _ = kill_process(*child, signal);
    }
}

/// Waits until the state of each is a wanted one, or it is gone.
#[expect(
    clippy::disallowed_methods,
    reason = "a process that is not our child announces neither; servers are dropped, too"
)]
fn until_all(children: &[Pid], is_wanted: impl Fn(char) -> bool) -> Result<()> {
    let obeyed = |child: &Pid| stat(number(*child)).is_none_or(|(state, _)| is_wanted(state));
    for _ in 0..LOOKS_MAX {
        if children.iter().all(obeyed) {
            return Ok(());
        }
        thread::sleep(LOOK_AGAIN_AFTER);
    }
    Err(Error::new("a child of a server neither stood still nor ended when it was told to"))
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// The state of a process, and its parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may contain anything.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;
    use crate::wait;

    /// The state letter in `/proc/PID/stat`.
    fn state_of(id: u32) -> Option<char> {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        text.rsplit(") ").next()?.chars().next()
    }

    fn sleeper() -> Process {
        let mut command = command("sleep");
        command.arg("60");
        Process::start(command).expect("setpriv and sleep")
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it_and_stops_whenever_told() {
        let mut child = thread::spawn(sleeper).join().expect("no panic");
        // A thread that has been joined is gone for the kernel too.
        assert!(child.is_running());
        for _ in 0..3 {
            child.pause().expect("still there");
            assert_eq!(state_of(child.id()), Some('T'));
            child.resume().expect("still there");
        }
    }

    #[test]
    fn dropping_kills_a_stopped_child_too() {
        let mut child = sleeper();
        child.pause().expect("running");
        let id = child.id();
        drop(child);
        assert_eq!(state_of(id), None);
    }

    #[test]
    fn a_killed_parent_takes_its_child_with_it() {
        // A process that starts a child in the same manner, and is then killed.
        let mut parent = Command::new("sh");
        parent.args(["-c", &format!("setpriv --pdeathsig KILL sh -c '{UNLESS_ORPHANED}' $$ sleep 60 & echo $!; wait")]);
        let mut parent = parent.stdout(Stdio::piped()).spawn().expect("sh");
        let mut line = String::new();
        let output = parent.stdout.take().expect("piped");
        let mut output = BufReader::new(output);
        output.read_line(&mut line).expect("the child's pid");
        parent.kill().expect("running");
        parent.wait().expect("killed");
        // The grandchild holds the pipe open until it dies.
        assert_eq!(output.read_line(&mut line).expect("end of output"), 0);
    }

    #[tokio::test]
    async fn children_in_other_sessions_stop_go_on_and_die_with_their_parent() {
        let mut shell = command("sh");
        shell.args(["-c", "setsid sleep 60 & setsid sleep 60 & wait"]).stdin(Stdio::null());
        let mut family = Family(Process::start(shell).expect("sh"));
        let both = async || Some(family.children()).filter(|children| children.len() == 2);
        let children = wait::until("two children", wait::PATIENCE, both).await.expect("they start");
        let states = || children.iter().filter_map(|pid| stat(number(*pid)));
        family.pause().expect("they run");
        assert!(states().all(|(state, _)| state == 'T'));
        family.resume().expect("they are there");
        assert!(states().all(|(state, _)| state != 'T'));
        family.pause().expect("they run");
        drop(family);
        assert!(states().all(|(state, _)| state == 'Z'));
    }
}
