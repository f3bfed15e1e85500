//! Temporary folders; if their run is killed, the next run removes them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::claim::{self, Claim};
use crate::{Error, Result, account};

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

    fn made_at(path_of: impl Fn(u32) -> Option<PathBuf>) -> Result<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let claim = Claim::first_free(KIND, 0..FOLDERS_MAX, 0, |_| true)?;
        let path = path_of(claim.number()).ok_or_else(|| Error::new("no folder for temporary files"))?;
        // The process that had the number before was killed, or the folder would be gone.
        let _ = fs::remove_dir_all(&path);
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
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose numbers are no longer claimed.
fn sweep() {
    for number in 0..FOLDERS_MAX {
        for path in [on_disk(number), in_memory(number)].into_iter().flatten().filter(|path| path.exists()) {
            if let Some(_claim) = Claim::take(KIND, number) {
                let _ = fs::remove_dir_all(path);
            }
        }
    }
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
    use super::*;

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
