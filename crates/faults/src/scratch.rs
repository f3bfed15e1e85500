//! Temporary folders, and the numbers and the account that they need. If a run is killed, the next one removes its
//! folders, and ends what still works in them.
//!
//! A number is claimed across all test processes of this user, for a folder, a port or a subnet: a claim is a locked
//! file, which the kernel unlocks however its process ends. So a number whose file can be locked is free, and what
//! still has that number was left by a killed run.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Availability, Error, Result};

/// How many folders there can be at once, over all test processes of this user: far more than servers fit in memory.
const FOLDERS_MAX: u32 = 1_000;

const KIND: &str = "folder";

/// All users can pass through a folder with this mode to what they know in it; its owner alone sees what is in it.
const PASSABLE: u32 = 0o711;

/// Linux keeps a file system in memory here.
const MEMORY: &str = "/dev/shm";

/// A folder that is removed when this is dropped, and by the next run if this process is killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _claim: Claim,
}

/// Whether folders with [little room](Scratch::with_room) can be made here; tries one.
pub(crate) fn room_availability() -> Availability {
    match Scratch::with_room(1) {
        Ok(_) => Availability::Present,
        Err(error) => Availability::Missing(format!("no file systems can be mounted here, which needs root: {error}")),
    }
}

impl Scratch {
    /// Makes an empty folder on the disk; the first call of a process also sweeps what killed runs left.
    pub(crate) fn new() -> Result<Self> {
        Self::made_at(on_disk)
    }

    /// Makes an empty folder whose files stay in memory, where the machine has room for that. A process that is killed
    /// loses nothing of them either way; but no write waits there for what others write to the disk.
    pub(crate) fn in_memory() -> Result<Self> {
        Self::made_at(|number| in_memory(number).or_else(|| on_disk(number)))
    }

    /// Makes an empty folder in memory that has room for so many bytes only.
    pub(crate) fn with_room(bytes: u64) -> Result<Self> {
        let this = Self::in_memory()?;
        let settings = CString::new(format!("size={bytes}")).map_err(|_| Error::new("a zero in a number"))?;
        mount("lockkeeper-faults", &this.path, "tmpfs", MountFlags::empty(), settings.as_c_str())
            .map_err(|error| Error::new(format!("mounting {}: {error}", this.path.display())))?;
        Ok(this)
    }

    fn made_at(path_of: impl Fn(u32) -> Option<PathBuf>) -> Result<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let claim = Claim::first_free(KIND, 0..FOLDERS_MAX, 0, |_| true)?;
        let path = path_of(claim.number()).ok_or_else(|| Error::new("no folder for temporary files"))?;
        // The process that had the number before was killed, or the folder would be gone.
        remove(&path);
        fs::create_dir(&path).map_err(Error::io(path.display()))?;
        Ok(Self { path, _claim: claim })
    }

    /// Makes the folder belong to the account of servers that refuse to run as root, and lets that account reach it.
    pub(crate) fn give(&self) -> Result<()> {
        if let Some(parent) = folder().filter(|parent| self.path.starts_with(parent)) {
            fs::set_permissions(&parent, Permissions::from_mode(PASSABLE)).map_err(Error::io(parent.display()))?;
        }
        give(&self.path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What could not be removed now is removed by the next process that gets the number.
        remove(&self.path);
    }
}

/// Removes the folders whose numbers are no longer claimed.
fn sweep() {
    for number in 0..FOLDERS_MAX {
        for path in [on_disk(number), in_memory(number)].into_iter().flatten().filter(|path| path.exists()) {
            if let Some(_claim) = Claim::take(KIND, number) {
                remove(&path);
            }
        }
    }
}

/// Removes a folder with what is mounted on it, and what a server in it has left elsewhere. What works in it is ended:
/// a process that a killed run had stopped.
fn remove(path: &Path) {
    if !path.exists() {
        return;
    }
    for process in workers(path) {
        let _ = kill_process(process, Signal::KILL);
    }
    forget_segment(path);
    // Most are not mounted.
    let _ = unmount(path, UnmountFlags::DETACH);
    let _ = fs::remove_dir_all(path);
}

/// The processes whose working directory is in a folder.
fn workers(folder: &Path) -> Vec<Pid> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = all.filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place.starts_with(folder)));
    ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn on_disk(number: u32) -> Option<PathBuf> {
    Some(folder()?.join(format!("scratch-{number}.d")))
}

fn in_memory(number: u32) -> Option<PathBuf> {
    let memory = Path::new(MEMORY);
    memory.is_dir().then(|| memory.join(format!("lockkeeper-faults-{}-{number}.d", rustix::process::getuid().as_raw())))
}

/// A number of one kind that no other process has while this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    number: u32,
    /// Held for its lock. The file itself stays: removing it would let two processes lock two files of one name.
    file: File,
}

impl Claim {
    /// Claims the first number of `range` that is free and for which `fits` answers true, looking from `start` on.
    pub(crate) fn first_free(
        kind: &str,
        range: Range<u32>,
        start: u32,
        mut fits: impl FnMut(u32) -> bool,
    ) -> Result<Self> {
        let length = range.end - range.start;
        (0..length)
            .map(|step| range.start + (start.wrapping_add(step)) % length)
            .find_map(|number| Self::take(kind, number).filter(|_| fits(number)))
            .ok_or_else(|| Error::new(format!("no {kind} in {range:?} is free")))
    }

    /// Claims one number, unless another claim has it.
    pub(crate) fn take(kind: &str, number: u32) -> Option<Self> {
        let path = folder()?.join(format!("{kind}-{number}"));
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        file.try_lock().ok()?;
        Some(Self { number, file })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Claim {
    /// A child that another thread has just forked shares the open file until it executes its program: closing ours
    /// would not release the lock.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Where this user's claims lie: one place for all processes, with any `TMPDIR`, since ports are shared too.
fn folder() -> Option<PathBuf> {
    let path = PathBuf::from(format!("/tmp/lockkeeper-faults-{}", rustix::process::getuid().as_raw()));
    match fs::DirBuilder::new().mode(0o700).recursive(true).create(&path) {
        Ok(()) => Some(path),
        Err(_) => None,
    }
}

/// The user and group `nobody` of every Linux, which have no rights anywhere.
const POWERLESS: u32 = 65_534;

/// What `setpriv` is told, so that a program runs under this account: nothing, unless we are root.
pub(crate) fn privileges() -> Vec<String> {
    match is_another() {
        true => {
            vec![format!("--reuid={POWERLESS}"), format!("--regid={POWERLESS}"), "--clear-groups".to_owned()]
        }
        false => Vec::new(),
    }
}

/// Makes a file or folder belong to this account.
pub(crate) fn give(path: &Path) -> Result<()> {
    match is_another() {
        true => chown(path, Some(POWERLESS), Some(POWERLESS)).map_err(Error::io(path.display())),
        false => Ok(()),
    }
}

fn is_another() -> bool {
    rustix::process::geteuid().is_root()
}

/// The folder of the data, in that of a server.
pub(crate) const DATA: &str = "data";

/// The line of `postmaster.pid`, counted from 0, that tells the key and the number of its segment of shared memory.
const SEGMENT_LINE: usize = 6;

/// Removes that of a server whose folder this was, if any.
fn forget_segment(folder: &Path) {
    // A server that ended as it was asked to has removed both.
    let Ok(text) = fs::read_to_string(folder.join(DATA).join("postmaster.pid")) else { return };
    let segment = text.lines().nth(SEGMENT_LINE).and_then(|line| line.split_whitespace().nth(1));
    if let Some(number) = segment {
        let _ = Command::new("ipcrm").args(["--shmem-id", number]).stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_folder_with_little_room_is_soon_full_and_what_works_in_it_ends_with_it() {
        if !room_availability().or_skip_here() {
            return;
        }
        let scratch = Scratch::with_room(1 << 16).expect("a folder");
        let full = fs::write(scratch.path().join("much"), vec![0; 1 << 17]).expect_err("no room");
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        let mut worker = Command::new("sleep").arg("60").current_dir(scratch.path()).spawn().expect("sleep");
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
        assert!(!worker.wait().expect("ended").success());
    }

    #[test]
    fn a_folder_starts_empty_and_is_gone_afterwards() {
        for make in [Scratch::new, Scratch::in_memory] {
            let scratch = make().expect("a folder");
            let path = scratch.path().to_owned();
            fs::write(path.join("left"), "over").expect("writable");
            let other = make().expect("a second folder");
            assert_ne!(other.path(), path);
            drop(scratch);
            assert!(!path.exists());
        }
    }
}
