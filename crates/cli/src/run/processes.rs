//! The process table, as `/proc` shows it: which process is in which group, and which is alive.
//!
//! Read only when a command is ended or stopped by the terminal, never on the way to a command's start.

use std::fs::{self, File};
use std::io::{self, Read as _};

use rustix::process::{Pid, getpid};

/// What `status` of a process needs, and more, in bytes; a longer file takes more calls.
const FILE_BYTES: usize = 4_096;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// `None` for the first process of a namespace.
    pub(super) parent: Option<Pid>,
    /// `None` if its leader is outside our namespace, as for a process that was put into a container from outside.
    pub(super) group: Option<Pid>,
    /// `None` in the same case as for the group.
    pub(super) session: Option<Pid>,
    pub(super) life: ProcessLife,
    /// The first 15 bytes of the program's name.
    pub(super) name: String,
}

/// Whether a process can still do anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ProcessLife {
    Alive,
    /// Dead, and not yet waited for by its parent.
    Dead,
}

/// Reads the whole table; processes that end meanwhile may be in it or not.
/// Fails if `/proc` shows another namespace, in which our numbers are those of other processes.
pub(super) fn all() -> io::Result<Vec<Process>> {
    let own = read("/proc/self/status")?;
    if !is_of_our_namespace(&String::from_utf8_lossy(&own), getpid()) {
        return Err(io::Error::other("/proc shows the processes of another namespace"));
    }
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let is_pid = name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        if !is_pid {
            continue;
        }
        // A process that has ended since the listing is no error.
        if let Ok(stat) = read(&format!("/proc/{}/stat", name.display()))
            && let Some(process) = parse(&String::from_utf8_lossy(&stat))
        {
            processes.push(process);
        }
    }
    Ok(processes)
}

/// Tells by our own `status` whether the table numbers processes as we do.
///
/// The kernel lists our number in the table's namespace and in each one below it down to ours. The first number alone
/// would not do: two namespaces may know us by the same one.
fn is_of_our_namespace(status: &str, me: Pid) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_whitespace().eq([me.to_string().as_str()]))
}

/// Reads a file of `/proc`, whose size the kernel does not tell beforehand, in two calls.
pub(super) fn read(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FILE_BYTES);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Parses `PID (NAME) STATE PARENT GROUP SESSION …`; the name may hold spaces and parentheses.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let life = if matches!(fields.next()?, "Z" | "X") { ProcessLife::Dead } else { ProcessLife::Alive };
    // A process that is just being waited for has group and session −1.
    let mut pid_field = || fields.next().and_then(|field| field.parse().ok()).map(|pid: i32| Pid::from_raw(pid.max(0)));
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
        assert_eq!(process.life, ProcessLife::Alive);
    }

    #[test]
    fn a_zombie_is_dead() {
        assert_eq!(parse("42 (sleep) Z 1 40 40 0 -1").unwrap().life, ProcessLife::Dead);
        assert_eq!(parse("42 (sleep"), None);
    }

    #[test]
    fn a_process_that_is_just_being_waited_for_has_no_group() {
        let process = parse("42 (cat) X 0 -1 -1 0 -1 4228100 0 0").unwrap();
        assert_eq!(
            (process.parent, process.group, process.session, process.life),
            (None, None, None, ProcessLife::Dead)
        );
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = getpid();
        let row = all().unwrap().into_iter().find(|process| process.pid == me).unwrap();
        assert_eq!(row.parent, rustix::process::getppid());
    }

    #[test]
    fn a_table_of_another_namespace_is_told_apart() {
        let me = Pid::from_raw(42).unwrap();
        for (status, is_ours) in [
            ("Name:\tx\nNSpid:\t42\nNSpgid:\t42\n", true),
            ("Name:\tx\nNSpid:\t4242\t42\n", false),
            ("Name:\tx\nNSpid:\t42\t42\n", false),
            ("Name:\tx\nNSpid:\t43\n", false),
            ("Name:\tx\n", false),
        ] {
            assert_eq!(is_of_our_namespace(status, me), is_ours, "{status}");
        }
    }
}
