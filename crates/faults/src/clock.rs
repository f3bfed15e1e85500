//! A clock that can be moved under a running server, by Debian's `faketime`.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Availability, Error, Result, wait};

/// The library that answers for the clock, and the C library right behind it: jemalloc reads the clock before the first
/// library is ready to answer, and waits for itself forever. So the server allocates by the C library.
const LIBRARIES: &str = "LD_PRELOAD=/usr/$LIB/faketime/libfaketime.so.1 libc.so.6";

/// Timers go on as they were, and each look at the clock reads the file.
const SETTINGS: [&str; 2] = ["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1"];

/// The file that says how far the clock is from the machine's, in the server's folder.
const FILE: &str = "clock";

/// What the library leaves in memory when its process is killed, but for the process id at the end.
const LEFT: [&str; 2] = ["/dev/shm/faketime_shm_", "/dev/shm/sem.faketime_sem_"];

/// How far the time that a server tells may be from the expected one, since both are whole seconds.
const TOLERANCE_S: i64 = 1;

/// Whether such clocks can be had here.
pub(crate) fn availability() -> Availability {
    Availability::of_programs(&["faketime"], "faketime")
}

/// What `env` sets for a program, so that it has such a clock; the file must be there.
pub(crate) fn variables(folder: &Path) -> Vec<OsString> {
    let mut file = OsString::from("FAKETIME_TIMESTAMP_FILE=");
    file.push(folder.join(FILE));
    [LIBRARIES].into_iter().chain(SETTINGS).map(OsString::from).chain([file]).collect()
}

/// Says how far the clock is ahead of the machine's, in seconds. A reader sees the old distance or the new one.
pub(crate) fn set(folder: &Path, ahead_s: i64) -> Result<()> {
    let (file, new) = (folder.join(FILE), folder.join("clock.new"));
    let written = fs::write(&new, format!("{ahead_s:+}\n")).and_then(|()| fs::rename(&new, &file));
    written.map_err(Error::io(file.display()))
}

/// How far the clock is ahead of the machine's, in seconds.
pub(crate) fn ahead_s(folder: &Path) -> Result<i64> {
    let file = folder.join(FILE);
    let text = fs::read_to_string(&file).map_err(Error::io(file.display()))?;
    text.trim().parse().map_err(|error| Error::new(format!("{}: {error}", file.display())))
}

/// Moves the clock of a server to this many seconds ahead of the machine's, and waits until the server tells that time.
#[expect(clippy::future_not_send, reason = "a test waits in its own task")]
pub(crate) async fn move_to(
    folder: &Path,
    ahead_s: i64,
    server: SocketAddr,
    time_s: impl AsyncFn() -> Result<i64>,
) -> Result<()> {
    let asked = Instant::now();
    let (before, told) = (time_s().await?, Instant::now());
    let moved = before + ahead_s - self::ahead_s(folder)?;
    set(folder, ahead_s)?;
    let passed = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    wait::until(&format!("{server} moving its clock"), wait::PATIENCE, async || {
        // A busy machine lets time pass between what a server tells and what is read here.
        let earliest = moved + passed(told.elapsed());
        let time = time_s().await.ok()?;
        let latest = moved + passed(asked.elapsed());
        (earliest - TOLERANCE_S..=latest + TOLERANCE_S).contains(&time).then_some(())
    })
    .await
}

/// What the library keeps in memory for one process; dropping this after the process removes it.
#[derive(Debug)]
pub(crate) struct Leftovers(pub(crate) u32);

impl Drop for Leftovers {
    fn drop(&mut self) {
        for path in LEFT.map(|start| PathBuf::from(format!("{start}{}", self.0))) {
            // A process that ended as it was asked to has removed it.
            let _ = fs::remove_file(path);
        }
    }
}
