//! Temporary folders; if their run is killed, the next run removes them, and ends what still works in them.

use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};

use crate::claim::{self, Claim};
use crate::{Availability, Error, Result, account, postgres};

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
        if let Some(parent) = claim::folder().filter(|parent| self.path.starts_with(parent)) {
            fs::set_permissions(&parent, Permissions::from_mode(PASSABLE)).map_err(Error::io(parent.display()))?;
        }
        account::give(&self.path)
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
    postgres::forget_segment(path);
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
    Some(claim::folder()?.join(format!("scratch-{number}.d")))
}

fn in_memory(number: u32) -> Option<PathBuf> {
    let memory = Path::new(MEMORY);
    memory.is_dir().then(|| memory.join(format!("lockkeeper-faults-{}-{number}.d", rustix::process::getuid().as_raw())))
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
