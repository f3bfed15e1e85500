//! The judge of one lock's log: whether two held at once, and whether each token was greater than all before it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockkeeper_faults::wait::{self, PATIENCE};
use rustix::process::{Pid, Signal};

use crate::command::{Family, PART};

/// What a log shows.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) grants: usize,
    pub(crate) overlaps: Vec<Overlap>,
    /// Each token that was not greater than the one before it, in words.
    pub(crate) stale_tokens: Vec<String>,
    /// The run that was granted the lock last.
    pub(crate) last: Option<u64>,
}

/// A run whose command found another's, or a relative of it, alive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Overlap {
    pub(crate) run: u64,
    /// The run that was granted the lock before.
    pub(crate) over: Option<u64>,
    /// How long the two were there together; none if the second was killed before the first was gone.
    pub(crate) lasted: Option<Duration>,
}

/// A grant as it was noted.
struct Grant {
    run: u64,
    token: u64,
    at_ns: u64,
}

/// Reads a log.
///
/// # Errors
///
/// The line that is not valid: then the witness is broken, and nothing is known.
pub(crate) fn judge(log: &str) -> Result<Verdict, String> {
    let mut verdict = Verdict::default();
    let mut last: Option<Grant> = None;
    let mut overlap_at_ns = 0;
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{line:?} in the log: {error}"));
        match words.as_slice() {
            ["overlap", run, _token, at_ns] => {
                let over = last.as_ref().map(|grant| grant.run);
                verdict.overlaps.push(Overlap { run: number(run)?, over, lasted: None });
                overlap_at_ns = number(at_ns)?;
            }
            ["granted", run, token, at_ns, _pid] => {
                let grant = Grant { run: number(run)?, token: number(token)?, at_ns: number(at_ns)? };
                if let Some(overlap) = verdict.overlaps.last_mut().filter(|overlap| overlap.run == grant.run) {
                    overlap.lasted = Some(Duration::from_nanos(grant.at_ns.saturating_sub(overlap_at_ns)));
                }
                verdict.granted(&grant, last.as_ref());
                last = Some(grant);
            }
            ["ended", _run] => {}
            _ => return Err(format!("{line:?} is not a valid line of the log")),
        }
    }
    verdict.last = last.map(|grant| grant.run);
    Ok(verdict)
}

impl Verdict {
    fn granted(&mut self, grant: &Grant, last: Option<&Grant>) {
        self.grants += 1;
        let Some(last) = last else { return };
        if grant.token <= last.token {
            let (Grant { run, token, .. }, Grant { run: before, token: greater, .. }) = (grant, last);
            self.stale_tokens.push(format!("run {run} has token {token}, and run {before} had {greater} before it"));
        }
    }
}

/// Two commands that share no lock, the second with the first one's token; and one that is killed, and whose relative
/// lives on while the next one starts.
pub(crate) fn sees_what_is_planted() -> Result<(), String> {
    for (family, token) in [(Family::Alone, 7), (Family::StubbornRelative, 8)] {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let log = folder.path().join("log");
        fs::write(&log, "").map_err(|error| error.to_string())?;
        let mut first = Planted::start(&log, 1, 7, Duration::from_secs(600), family);
        if family == Family::StubbornRelative {
            first.kill_command();
        }
        let mut second = Planted::spawn(&log, 2, token, Duration::ZERO, Family::Alone);
        until_noted(&log, &format!("overlap 2 {token} "))?;
        drop(first);
        second.is_granted();
        let verdict = judge(&fs::read_to_string(&log).map_err(|error| error.to_string())?)?;
        let overlaps: Vec<_> =
            verdict.overlaps.iter().map(|seen| (seen.run, seen.over, seen.lasted.is_some())).collect();
        let seen = (verdict.grants, overlaps.as_slice(), verdict.stale_tokens.len());
        if seen != (2, &[(2, Some(1), true)], usize::from(token == 7)) {
            return Err(format!("{verdict:?}"));
        }
    }
    Ok(())
}

fn until_noted(log: &Path, line: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let noted = async || fs::read_to_string(log).ok()?.lines().any(|noted| noted.starts_with(line)).then_some(());
    let waited = wait::until(line, PATIENCE, noted);
    runtime.block_on(waited).map_err(|error| error.to_string())
}

/// A command that no lock keeps; dropping it kills it and its relatives.
pub(crate) struct Planted(Child);

impl Planted {
    /// Starts one, and waits until it has what it takes for the lock.
    pub(crate) fn start(log: &Path, run: u64, token: u64, hold: Duration, family: Family) -> Self {
        let mut planted = Self::spawn(log, run, token, hold, family);
        planted.is_granted();
        planted
    }

    fn spawn(log: &Path, run: u64, token: u64, hold: Duration, family: Family) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a test knows its program"));
        command.arg(PART).arg(log).args([run.to_string(), hold.as_millis().to_string(), family.name().to_owned()]);
        command.env("LOCKKEEPER_TOKEN", token.to_string()).stdout(Stdio::piped()).process_group(0);
        Self(command.spawn().expect("this program starts"))
    }

    fn is_granted(&mut self) {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("granted "), "{line:?}");
    }

    fn kill_command(&mut self) {
        self.0.kill().expect("not waited for yet");
        self.0.wait().expect("a child of ours");
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        // No process is left in the group if all went well; until it is waited for, no other group has its number.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
