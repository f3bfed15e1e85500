//! Tests of processes that watch, ask, freeze and count. How long a notice takes is judged in the long run.

#![expect(clippy::disallowed_methods, reason = "these tests measure how long a notice takes")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_conformance::soon;
use lockkeeper_core::{
    Backend, ContenderId, Expected, Extent, Freshness, Part, Request, Revocation, Session, Ticket, Value,
};
use lockkeeper_faults::long;
use rustix::process::Signal;
use tempfile::tempdir;

use crate::parts::{Helper, QUEUE, assert_nothing_left, block_on, kill_at_any_moment, skip};
use crate::support::{Onlooker, backend, lock, queue, session};

pub(crate) fn a_kill_is_told_to_a_follower() {
    const ROUNDS: usize = 20;
    let directory = tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut onlooker = runtime.block_on(Onlooker::begin(directory.path()));
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let holder = Helper::holding(directory.path());
        let waiter = (round % 2 == 1).then(|| Helper::waiting(directory.path()));
        runtime.block_on(async {
            let contenders = |onlooker: &Onlooker| onlooker.picture.locks().values().map(Vec::len).sum::<usize>();
            while contenders(&onlooker) != 1 + waiter.iter().count() {
                onlooker.hear().await;
            }
            // No other process looks: a waiter is stopped, so that it removes nothing.
            waiter.iter().for_each(|waiter| waiter.signal(Signal::STOP));
            let killed = Instant::now();
            holder.signal(Signal::KILL);
            while contenders(&onlooker) != waiter.iter().count() {
                onlooker.hear().await;
            }
            times.push(killed.elapsed());
            waiter.iter().for_each(|waiter| waiter.signal(Signal::KILL));
            onlooker.until_locks(0).await;
            onlooker.until_equal().await;
        });
    }
    times.sort_unstable();
    let (median, longest) = (times[ROUNDS / 2], times[ROUNDS - 1]);
    println!("a kill is told to a follower after {median:?} (median of {ROUNDS}), at most {longest:?}");
    assert!(!long::is_asked_for() || longest < Duration::from_secs(1), "a kill is told after {longest:?}");
}

pub(crate) fn a_kill_of_one_of_many_is_told() {
    let directory = tempdir().unwrap();
    let (watcher, first) = (Helper::start("watch", directory.path(), 3), Helper::start("watch", directory.path(), 4));
    let hear_last = |helper: &Helper, count: &str| while helper.hear() != count {};
    hear_last(&watcher, "7");
    hear_last(&first, "7");
    let second = Helper::start("watch", directory.path(), 5);
    hear_last(&watcher, "12");
    first.signal(Signal::KILL);
    hear_last(&watcher, "8");
    second.signal(Signal::STOP);
    assert!(watcher.is_silent_for(Duration::from_millis(100)), "a stopped process keeps its permits");
    second.signal(Signal::KILL);
    hear_last(&watcher, "3");
}

pub(crate) fn asked_and_broken() {
    let directory = tempdir().unwrap();
    ask_and_break(&Helper::start("be-asked", directory.path(), 0), directory.path());
}

/// Asks a holder in another process, then breaks it; the process lives on.
fn ask_and_break(holder: &Helper, directory: &Path) {
    let session = session(directory);
    let id = ContenderId::new(holder.hear());
    let why = Revocation::new(Some("please".to_owned()), None);
    assert!(block_on(soon("the request", session.request(&queue(QUEUE), &id, Request::Yield(why)))).unwrap());
    holder.hear_that("asked: please");
    let token = block_on(backend(directory).admin().inspect(&queue(QUEUE))).unwrap()[0].token.unwrap();
    let next = block_on(async {
        let waiting = tokio::spawn({
            let session = session.clone();
            async move { lock(&session, &queue(QUEUE)).await }
        });
        tokio::task::yield_now().await;
        assert!(session.request(&queue(QUEUE), &id, Request::Break { token }).await.unwrap());
        soon("the end of the wait", waiting).await.unwrap().unwrap()
    });
    holder.hear_that("Broken");
    block_on(next.leave()).unwrap();
}

pub(crate) fn no_watch_is_left() {
    let directory = tempdir().unwrap();
    let watcher = Helper::start("watch-and-stop", directory.path(), 20);
    watcher.hear_that("1 instances, 0 watches");
    watcher.hear_that("0 instances, 0 watches");
}

pub(crate) fn noticed_without_inotify() {
    // A user namespace has a separate limit, so that no other process on the machine is affected.
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$0\" \"$@\"";
    let unshare = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "sh", "-c", script]).arg(program);
        command
    };
    if !unshare(Path::new("true")).output().is_ok_and(|output| output.status.success()) {
        let name = "changes_requests_and_breaks_are_noticed_without_inotify_too";
        return skip(name, "user namespaces are not available");
    }
    let program = std::env::current_exe().unwrap();
    let directory = tempdir().unwrap();
    let watcher = Helper::start_with(unshare(&program), "watch", directory.path(), 1);
    watcher.hear_that("1");
    let other = Helper::start("watch", directory.path(), 1);
    watcher.hear_that("2");
    drop(other);
    watcher.hear_that("1");
    let asked = tempdir().unwrap();
    ask_and_break(&Helper::start_with(unshare(&program), "be-asked", asked.path(), 0), asked.path());
    let removed = tempdir().unwrap();
    let holder = Helper::start_with(unshare(&program), "be-removed", removed.path(), 0);
    fs::remove_file(removed.path().join("queues").join(QUEUE).join(holder.hear())).unwrap();
    holder.hear_that("Removed");
}

pub(crate) fn frozen_outlives_a_kill() {
    let directory = tempdir().unwrap();
    let maker = Helper::start("freeze", directory.path(), 0);
    let ticket = Ticket::from_bits(maker.hear().parse().unwrap());
    let waiter = Helper::waiting(directory.path());
    drop(maker);
    assert!(waiter.is_silent_for(Duration::from_millis(300)), "a frozen place was taken for dead");
    let session = session(directory.path());
    block_on(session.withdraw(&queue(QUEUE), ticket)).unwrap();
    waiter.hear_that("held");
}

pub(crate) fn values_are_flushed() {
    let name = "a_value_is_on_the_disk_before_its_writer_is_told";
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(name, "strace is not installed");
    }
    let directory = tempdir().unwrap();
    let (trace, base) = (directory.path().join("trace"), directory.path().join("locks"));
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o"]).arg(&trace);
    command.arg(std::env::current_exe().unwrap());
    let mut writer = Helper::start_with(command, "write-value", &base, 3);
    writer.hear_that("ready");
    writer.go_on();
    writer.hear_that("done");
    let trace = fs::read_to_string(trace).unwrap();
    let calls: Vec<_> = trace.lines().filter(|line| line.contains(QUEUE) && !line.contains("resumed")).collect();
    let renamed: Vec<_> = (0..calls.len()).filter(|&at| calls[at].contains("\".value-line\"")).collect();
    assert_eq!(renamed.len(), 3, "{trace}");
    for at in renamed {
        assert!(calls[at - 1].contains("fsync(") && calls[at - 1].contains("/.new-"), "not before its name: {trace}");
        assert!(calls[at + 1].contains("fsync(") && calls[at + 1].contains("/q>"), "not its name: {trace}");
    }
}

pub(crate) fn killed_at_all_sorts() {
    const KILLS: usize = 120;
    let parent = tempdir().unwrap();
    let directory = parent.path().join("locks");
    kill_at_any_moment("storm-of-all", &directory, 0, KILLS, 30_011);
    let acknowledged = fs::read_to_string(directory.with_extension("log")).unwrap().len();
    let session = session(&directory);
    let value = block_on(session.values().get(&queue(QUEUE))).unwrap().unwrap();
    let counted: usize = std::str::from_utf8(&value.bytes).unwrap().parse().unwrap();
    println!("{counted} counted, {acknowledged} acknowledged under {KILLS} kills");
    assert!((acknowledged..=acknowledged + KILLS + 4).contains(&counted), "{counted} of {acknowledged} were counted");
    block_on(finish(&session, &value));
    assert_nothing_left(&directory);
}

/// Uses all that the killed processes have used, and leaves nothing.
async fn finish(session: &Arc<dyn Session>, value: &Value) {
    soon("the grant", lock(session, &queue(QUEUE))).await.unwrap().leave().await.unwrap();
    let permits = queue(QUEUE).with_part(Part::Permits);
    assert_eq!(session.view(&permits, Freshness::Latest, Extent::Whole).await.unwrap().contenders.len(), 0);
    soon("the write", session.values().set(&queue(QUEUE), Expected::Version(value.version), None))
        .await
        .unwrap()
        .unwrap();
    session.close().await.unwrap();
}
