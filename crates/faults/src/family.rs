//! A process with the children that it starts for its clients: they are killed, stopped and continued together.
//!
//! The children may be in groups and sessions of their own, so they are found by their parent.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::Process;
use crate::{Error, Result};

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
    use std::process::Stdio;

    use super::*;
    use crate::process::command;
    use crate::wait;

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
