//! Numbers claimed across all test processes of this user: for ports, subnets and folders.
//!
//! A claim is a locked file. The kernel releases the lock when its process ends, however it ends. So a number whose
//! file can be locked is free, and anything that still has that number was left by a killed run. The callers know what
//! a number stands for, and how leftovers are removed.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use crate::{Error, Result};

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
pub(crate) fn folder() -> Option<PathBuf> {
    let path = PathBuf::from(format!("/tmp/lockkeeper-faults-{}", rustix::process::getuid().as_raw()));
    match fs::DirBuilder::new().mode(0o700).recursive(true).create(&path) {
        Ok(()) => Some(path),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_number_is_passed_over_until_it_is_let_go() {
        let first = Claim::first_free("unit", 0..1000, 0, |_| true).expect("one of a thousand");
        let number = first.number();
        assert!(Claim::take("unit", number).is_none());
        drop(first);
        assert!(Claim::take("unit", number).is_some());
    }
}
