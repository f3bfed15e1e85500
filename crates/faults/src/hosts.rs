//! Machines by other names: a program on one of them finds another host name, and the file of hosts that they share.
//! Network and processes are this machine's.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::scratch::Scratch;
use crate::{Availability, Error, Result, process};

/// Run as `sh -c … NAME FILE PROGRAM ARGUMENT…` in other namespaces of host names and of mounts.
const AS_NAMED: &str = r#"echo "$0" > /proc/sys/kernel/hostname && mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// Whether programs can be started so here.
pub fn availability() -> Availability {
    process::availability().and(|| Availability::of_programs(&["mount", "unshare"], "util-linux")).and(|| {
        match rustix::process::geteuid().is_root() {
            true => Availability::Present,
            false => Availability::Missing("other host names need root".to_owned()),
        }
    })
}

/// Machines that know each other.
#[derive(Debug)]
pub struct Hosts {
    _folder: Scratch,
    file: PathBuf,
}

impl Hosts {
    /// Describes them by their addresses and names.
    pub fn new(named: &[(&str, &str)]) -> Result<Self> {
        let folder = Scratch::new()?;
        let file = folder.path().join("hosts");
        let line = |(address, name): &(&str, &str)| format!("{address} {name}\n");
        let lines: String = [("127.0.0.1", "localhost")].iter().chain(named).map(line).collect();
        fs::write(&file, lines).map_err(Error::io(file.display()))?;
        Ok(Self { _folder: folder, file })
    }

    /// A command for [`Process::start`](process::Process::start), as [`process::command`] makes it, on one of them.
    pub fn command(&self, name: &str, program: impl AsRef<OsStr>) -> Command {
        let file = self.file.display().to_string();
        let before = ["unshare", "--uts", "--mount", "sh", "-c", AS_NAMED, name, &file];
        process::command_behind(&before, program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_finds_the_name_and_the_hosts_and_this_machine_keeps_its_own() {
        if !availability().or_skip_here() {
            return;
        }
        let before = fs::read_to_string("/etc/hosts").expect("this machine's hosts");
        let hosts = Hosts::new(&[("192.0.2.17", "app-7")]).expect("machines");
        let mut command = hosts.command("app-7", "sh");
        let output = command.args(["-c", "cat /proc/sys/kernel/hostname /etc/hosts"]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "app-7\n127.0.0.1 localhost\n192.0.2.17 app-7\n");
        assert_eq!(fs::read_to_string("/etc/hosts").expect("this machine's hosts"), before);
    }
}
