//! The process table, as `/proc` shows it: who is in which group, and who is alive.
//!
//! Read only when a command is ended or stopped by the terminal, never on the way to a command's start.

use std::fs;
use std::io;

use rustix::process::Pid;

/// One row of the table.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// `None` for the first process of a namespace.
    pub(super) parent: Option<Pid>,
    /// `None` if its leader is outside our namespace, as for what was put into a container from without.
    pub(super) group: Option<Pid>,
    /// `None` as the group.
    pub(super) session: Option<Pid>,
    pub(super) life: Life,
    /// The first 15 bytes of the program's name.
    pub(super) name: String,
}

/// Whether a process can still do anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Life {
    Alive,
    /// Dead, and not yet waited for by its parent.
    Dead,
}

/// Reads the whole table; processes that end meanwhile may be in it or not.
///
/// # Errors
///
/// `/proc` cannot be read.
pub(super) fn all() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let is_pid = name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_pid {
            continue;
        }
        // A process that has ended since the listing is no error.
        if let Ok(stat) = fs::read(format!("/proc/{}/stat", name.display()))
            && let Some(process) = parse(&String::from_utf8_lossy(&stat))
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// Reads our own row. The system calls for our group and session answer 0 for a leader outside our namespace, which no
/// process id can be.
///
/// # Errors
///
/// `/proc` cannot be read.
pub(super) fn own() -> io::Result<Process> {
    let stat = fs::read("/proc/self/stat")?;
    parse(&String::from_utf8_lossy(&stat)).ok_or_else(|| io::Error::other("/proc/self/stat cannot be understood"))
}

/// Parses `PID (NAME) STATE PARENT GROUP SESSION …`; the name may hold spaces and parentheses.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let life = if matches!(fields.next()?, "Z" | "X") { Life::Dead } else { Life::Alive };
    let mut pid_field = || fields.next().and_then(|field| field.parse().ok()).map(Pid::from_raw);
    Some(Process {
        pid: Pid::from_raw(pid.parse().ok()?)?,
        parent: pid_field()?,
        group: pid_field()?,
        session: pid_field()?,
        life,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let process = parse("42 (a) R (b) S 7 40 3 34816 40 4194560 90 0").unwrap();
        assert_eq!(process.name, "a) R (b");
        assert_eq!(
            (process.parent, process.group, process.session),
            (Pid::from_raw(7), Pid::from_raw(40), Pid::from_raw(3))
        );
        assert_eq!(process.life, Life::Alive);
    }

    #[test]
    fn a_zombie_is_dead() {
        assert_eq!(parse("42 (sleep) Z 1 40 40 0 -1").unwrap().life, Life::Dead);
        assert_eq!(parse("42 (sleep"), None);
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = rustix::process::getpid();
        let row = all().unwrap().into_iter().find(|process| process.pid == me).unwrap();
        assert_eq!(row.parent, rustix::process::getppid());
        let own = own().unwrap();
        assert_eq!((own.pid, own.parent, own.group, own.session), (me, row.parent, row.group, row.session));
    }
}
