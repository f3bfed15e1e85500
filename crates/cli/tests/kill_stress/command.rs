//! The command under the lock: this program in another part. It takes the witness's lock and writes into its log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use rustix::io::FdFlags;

/// The first argument of a process that is a command; the log, the run's number, how long it holds in milliseconds, and
/// its [`Family`] follow.
pub(crate) const PART: &str = "__command";

/// Whether a command starts another process, which belongs to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Family {
    Alone,
    /// With one that ends when it is asked to.
    Relative,
    /// With one that ignores it.
    StubbornRelative,
}

impl Family {
    pub(crate) const ALL: [Self; 3] = [Self::Alone, Self::Relative, Self::StubbornRelative];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Relative => "relative",
            Self::StubbornRelative => "stubborn-relative",
        }
    }
}

/// Lives as a command if this process was started as one.
pub(crate) fn live_as_one() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(PART) {
        return None;
    }
    let arguments: Vec<String> = arguments.collect();
    let [log, run, hold_ms, family] = arguments.as_slice() else { panic!("LOG RUN HOLD_MS FAMILY") };
    let hold = Duration::from_millis(hold_ms.parse().expect("a number of milliseconds"));
    let family = Family::ALL.into_iter().find(|known| known.name() == family).expect("a family");
    let token = std::env::var("LOCKKEEPER_TOKEN").expect("a command under a lock has a token");
    live(Path::new(log), run, &token, hold, family).expect("the log can be written");
    Some(ExitCode::SUCCESS)
}

fn live(log: &Path, run: &str, token: &str, hold: Duration, family: Family) -> io::Result<()> {
    let mut log = OpenOptions::new().append(true).open(log)?;
    match log.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            // Two at once. The other one goes some time later, and then the log goes on.
            note(&mut log, &format!("overlap {run} {token} {}", SystemClock.now().as_nanos()))?;
            log.lock()?;
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(error),
    }
    let pid = std::process::id();
    note(&mut log, &format!("granted {run} {token} {} {pid}", SystemClock.now().as_nanos()))?;
    let relative = start_relative(&log, family)?;
    let watchdog = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    // The process that started the run may be gone.
    let _ = writeln!(io::stdout(), "granted {pid} {watchdog}");
    std::thread::park_timeout(hold);
    if let Some(mut relative) = relative {
        relative.kill()?;
        relative.wait()?;
    }
    note(&mut log, &format!("ended {run}"))
}

/// Starts a process that keeps the witness's lock while it lives, since it has the same open file.
fn start_relative(log: &File, family: Family) -> io::Result<Option<Child>> {
    let script = match family {
        Family::Alone => return Ok(None),
        Family::Relative => "exec sleep 600",
        Family::StubbornRelative => "trap '' TERM; exec sleep 600",
    };
    rustix::io::fcntl_setfd(log, FdFlags::empty())?;
    let mut relative = Command::new("sh");
    relative.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
    relative.spawn().map(Some)
}

/// Appends one line, in one write: a process that is killed has written it or has not.
fn note(log: &mut File, line: &str) -> io::Result<()> {
    log.write_all(format!("{line}\n").as_bytes())
}
