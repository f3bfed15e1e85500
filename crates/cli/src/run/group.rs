//! The processes of a command: its group, and those that have left the group but not the session.
//!
//! The command leads its group, so the group's number is the command's process id. That number cannot be given to
//! another process while the command is not waited for or any member is left, which is why the command is waited for
//! last.
//!
//! A shell gives each job a separate group, and so do `timeout` and a nested `lockkeeper run`. Such strays are found as
//! descendants: orphans become children of the watchdog, or of the runner when the watchdog is dead, so none is out of
//! sight. A process that has started a new session is meant to stay behind. It is left alone, as are other users'
//! processes.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;

use lockkeeper_console::output::say;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, test_kill_process_group, waitpgid,
};

use super::processes::{self, Process, ProcessLife};

/// What watchdogs are called in the process table, as their file is called `exe`.
pub(super) const WATCHDOG_NAME: &CStr = c"lockkeeper-dog";

/// The processes of a command, as seen from the watchdog or the runner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    leader: Pid,
}

impl Group {
    pub(super) const fn led_by(leader: Pid) -> Self {
        Self { leader }
    }

    pub(super) const fn leader(self) -> Pid {
        self.leader
    }

    /// Sends a signal to every member of the group, and says so if it may be sent to none: another user's processes
    /// take no signal of ours. An empty group is no error.
    pub(super) fn signal(self, signal: Signal) {
        if kill_process_group(self.leader, signal) == Err(Errno::PERM)
            && ![Signal::CONT, Signal::KILL].contains(&signal)
        {
            let mut alive = self.alive().unwrap_or_default();
            alive.retain(|process| process.group == Some(self.leader));
            say(&format!("this user may send no signal to the command: {}", members(&alive)));
        }
    }

    /// Asks every process to end; one that is stopped is continued, since it could not end otherwise.
    pub(super) fn ask_to_end(self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        for stray in self.strays() {
            let _ = kill_process(stray.pid, Signal::TERM);
            let _ = kill_process(stray.pid, Signal::CONT);
        }
    }

    /// Kills every process. In the group the kernel does it for all at once, so no member can fork itself out of it; a
    /// stray can, so this is done again until none is [`alive`](Self::alive).
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
        self.kill_strays();
    }

    /// Kills the strays that are alive now.
    ///
    /// The watchdog of a nested run is left: it ends its own command, which we kill too, and then itself. Were it
    /// killed, its lock would be free before the last of its processes is dead.
    pub(super) fn kill_strays(self) {
        for stray in self.strays() {
            let is_watchdog = stray.name.as_bytes() == WATCHDOG_NAME.to_bytes();
            let _ = kill_process(stray.pid, if is_watchdog { Signal::CONT } else { Signal::KILL });
        }
    }

    /// Returns the processes that are alive.
    /// Fails without a process table of our namespace; then the group alone is known, by its number, and no strays.
    pub(super) fn alive(self) -> io::Result<Vec<Process>> {
        Ok(self.select(processes::all()?))
    }

    fn strays(self) -> Vec<Process> {
        let mut strays = self.alive().unwrap_or_default();
        strays.retain(|process| process.group != Some(self.leader));
        strays
    }

    fn select(self, table: Vec<Process>) -> Vec<Process> {
        let me = getpid();
        let session = table.iter().find(|process| process.pid == me).and_then(|process| process.session);
        let ours = descendants(&table, me);
        let mut selected = table;
        selected.retain(|process| {
            let is_member = process.group == Some(self.leader);
            let is_stray = ours.contains(&process.pid) && process.session == session;
            process.life == ProcessLife::Alive && (is_member || is_stray)
        });
        selected
    }

    /// Waits for those members of the group that have ended and are our children, its leader among them.
    ///
    /// From then on nothing but other members keeps its number from being given to another group.
    pub(super) fn bury(self) {
        while let Ok(Some(_)) = waitpgid(self.leader, WaitOptions::NOHANG) {}
    }

    /// Tells whether no member of the group is alive, once the leader was killed or has ended and was waited for.
    ///
    /// The kernel is asked first: it answers for processes that `/proc` hides. If it still knows members, they may be
    /// dead and not yet waited for, so the table decides; a table that shows no member at all hides some.
    pub(super) fn is_empty(self) -> bool {
        if test_kill_process_group(self.leader) == Err(Errno::SRCH) {
            return true;
        }
        let Ok(mut members) = processes::all() else { return false };
        members.retain(|process| process.group == Some(self.leader));
        !members.is_empty() && members.iter().all(|process| process.life == ProcessLife::Dead)
    }
}

/// Says what is out of sight where there is no table; `why` is the reason that there is none.
pub(super) fn say_unseen(why: &io::Error) {
    say(&format!(
        "{why}; ending the command's process group by its number; processes that have left the group cannot be seen, \
         and are left alone"
    ));
}

/// Returns the processes that stem from `ancestor`, without itself.
fn descendants(table: &[Process], ancestor: Pid) -> HashSet<Pid> {
    let mut found = HashSet::new();
    loop {
        let before = found.len();
        for process in table {
            if process.parent.is_some_and(|parent| parent == ancestor || found.contains(&parent)) {
                found.insert(process.pid);
            }
        }
        // A generation a round at least, so this ends after as many rounds as there are generations.
        if found.len() == before {
            return found;
        }
    }
}

pub(super) fn stubborn(alive: &[Process]) -> String {
    format!("waiting for processes that cannot be killed: {}", members(alive))
}

fn members(alive: &[Process]) -> String {
    if alive.is_empty() { "members of its group".to_owned() } else { names(alive) }
}

/// Names processes as text: `sleep (4121), sh (4120)`.
fn names(processes: &[Process]) -> String {
    /// How many processes a line names; the rest is counted.
    const NAMED_MAX: usize = 5;
    let mut names: Vec<String> =
        processes.iter().take(NAMED_MAX).map(|process| format!("{} ({})", process.name, process.pid)).collect();
    if processes.len() > NAMED_MAX {
        names.push(format!("{} more", processes.len() - NAMED_MAX));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order_of_the_table() {
        let process = |pid, parent| Process {
            pid: Pid::from_raw(pid).unwrap(),
            parent: Pid::from_raw(parent),
            group: None,
            session: None,
            life: ProcessLife::Alive,
            name: String::new(),
        };
        let table = [process(7, 5), process(5, 3), process(3, 2), process(2, 1), process(9, 1), process(8, 3)];
        let found = descendants(&table, Pid::from_raw(3).unwrap());
        assert_eq!(found, [5, 7, 8].map(|pid| Pid::from_raw(pid).unwrap()).into());
    }
}
