//! The end of a watchdog, as its runner sees it: on its way out, or dead before its command.

use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_console::output::say;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::group::{Group, say_unseen, stubborn};
use super::watchdog::STUBBORN_MS;

/// How often a group whose watchdog died is looked at, in milliseconds.
const LOOK_MS: u64 = 5;

/// A watchdog that has closed the lifeline and has nothing left to do. Dropping this waits until it is gone.
#[derive(Debug)]
pub(crate) struct LeavingWatchdog(Pid);

impl LeavingWatchdog {
    pub(super) const fn of(watchdog: Pid) -> Self {
        Self(watchdog)
    }
}

impl Drop for LeavingWatchdog {
    fn drop(&mut self) {
        // It has nothing left to do, and one that was stopped would not end.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED);
    }
}

/// Kills the processes of a command whose watchdog is dead, and waits until none of them is alive.
pub(super) async fn end_group(group: Group) {
    // Before any process of it is waited for: until then no other process has its number.
    group.kill();
    let start = SystemClock.now();
    let (mut is_said, mut is_unseen_said) = (false, false);
    loop {
        let alive = group.alive();
        if let Err(why) = &alive
            && !std::mem::replace(&mut is_unseen_said, true)
        {
            say_unseen(why);
        }
        if alive.as_ref().map_or(true, Vec::is_empty) {
            group.bury();
            if group.is_empty() {
                return;
            }
        }
        group.kill_strays();
        if !is_said && SystemClock.now().saturating_duration_since(start) > Duration::from_millis(STUBBORN_MS) {
            is_said = true;
            say(&stubborn(&alive.unwrap_or_default()));
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_watchdog_that_was_stopped_on_its_way_out_is_not_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        drop(LeavingWatchdog(pid));
        assert!(child.wait().is_err(), "it was waited for");
    }
}
