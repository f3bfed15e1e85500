//! The system calls that a lock on files cannot do without: making, opening, renaming and unlinking a named pipe, under
//! a flock.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::load::Stopwatch;

/// The number of a process in the name of a pipe: as long as most are.
const PROCESS: u32 = 4_121;

/// Makes them this many times in `directory`; answers the mean time of one lock and release.
pub(crate) fn measure(directory: &Path, count: u32) -> io::Result<Duration> {
    let (private, none) = (Mode::RUSR | Mode::WUSR, Mode::empty());
    let path = directory.join("bare");
    std::fs::create_dir_all(&path)?;
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, none)?;
    let lock = rustix::fs::openat(&opened, "lock", OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC, private)?;
    let watch = Stopwatch::start();
    for number in 0..count {
        let name = format!("{number:020}-{:032x}-mutex-{PROCESS}-host-command", u128::from(number));
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        rustix::fs::mkfifoat(&opened, ".new", private)?;
        let writer = rustix::fs::openat(&opened, ".new", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, none)?;
        rustix::fs::renameat(&opened, ".new", &opened, &name)?;
        rustix::fs::flock(&lock, FlockOperation::Unlock)?;
        rustix::fs::unlinkat(&opened, &name, AtFlags::empty())?;
        drop(writer);
    }
    Ok(watch.elapsed() / count.max(1))
}
