//! Files beside the bare system calls.

use std::io;
use std::path::Path;
use std::time::Duration;

use lockkeeper::Handoff;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use crate::groups::ours::{self, Bench, CROWD};
use crate::load::Outcome;
use crate::load::{Stopwatch, one_thread, two_threads};
use crate::report::Group;
use crate::report::rows::NO_SERVER;

/// Locks of one turn, and turns of one round: short turns, so that a machine whose speed drifts favours none of them.
const CALLS: u32 = 1_000;
const TURNS: u32 = 6;

/// Locks of one round that need no system call.
const STICKY_CALLS: u32 = 200_000;

/// How long a crowd contends in one round.
const CROWD_TIME: Duration = Duration::from_millis(700);

pub(super) fn measure(bench: &mut Bench) -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    for _ in 0..bench.effort.rounds() {
        bench.now("file: one task");
        one_thread()?.block_on(alone(directory.path(), bench))?;
        bench.now("file: crowds");
        two_threads()?.block_on(crowds(directory.path(), bench))?;
    }
    Ok(())
}

async fn alone(directory: &Path, bench: &mut Bench) -> Outcome<()> {
    let keeper = ours::observed(&url(directory))?;
    let [strict, local, sticky] = [
        keeper.mutex("alone")?,
        keeper.mutex("alone local")?.handoff(Handoff::local()),
        keeper.mutex("alone sticky")?.handoff(Handoff::sticky()),
    ];
    for mutex in [&strict, &local, &sticky] {
        ours::lock_and_release(mutex).await?;
    }
    let calls = bench.effort.calls(CALLS);
    let mut sums_s = [0.0; 3];
    for _ in 0..TURNS {
        for number in bench.turns.order::<3>() {
            sums_s[number] += match number {
                0 => ours::alone(&strict, calls).await?.mean_s,
                1 => ours::alone(&local, calls).await?.mean_s,
                _ => bare_calls(directory, calls)?.as_secs_f64(),
            };
        }
    }
    let [strict_s, local_s, bare_s] = sums_s;
    let sticky_rate = ours::rate(&sticky, bench.effort.calls(STICKY_CALLS)).await?;
    keeper.close().await?;
    let mut shelf = bench.shelf(Group::File, NO_SERVER);
    let each = |sum: f64| sum / f64::from(TURNS);
    shelf.beside("bare", each(strict_s), each(bare_s));
    shelf.beside("local-alone", each(local_s), each(strict_s));
    shelf.ours("sticky", sticky_rate);
    Ok(())
}

async fn crowds(directory: &Path, bench: &mut Bench) -> Outcome<()> {
    let keeper = lockkeeper::connect(&*url(directory))?;
    let (time, handoffs) = (bench.effort.time(CROWD_TIME), [Handoff::local(), Handoff::Strict]);
    let crowd = async |number: usize| ours::crowd(&keeper, "crowd", handoffs[number], CROWD, time).await;
    let [local, strict] = bench.turns.each(async |number| Ok(crowd(number).await?.per_second())).await?;
    keeper.close().await?;
    bench.shelf(Group::File, NO_SERVER).beside("crowd-local", local, strict);
    Ok(())
}

fn url(directory: &Path) -> String {
    format!("file:{}", directory.join("locks").display())
}

/// The number of a process in the name of a pipe: as long as most are.
const PROCESS: u32 = 4_121;

/// Makes them this many times in `directory`; answers the mean time of one lock and release.
fn bare_calls(directory: &Path, count: u32) -> io::Result<Duration> {
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
