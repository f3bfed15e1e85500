//! Tests of one user's processes. How long a hand-off takes, and what a wait costs, is judged in the long run.

#![expect(clippy::disallowed_methods, reason = "these tests measure how long a hand-off takes")]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use lockkeeper_conformance::soon;
use lockkeeper_faults::long;
use rustix::process::Signal;
use tempfile::tempdir;

use crate::parts::{Helper, QUEUE, assert_nothing_left, block_on, kill_at_any_moment, skip};
use crate::support::{Place, lock, queue, session};

/// How long a test listens for what must not happen: a hand-off takes a thousandth of it.
const SILENCE: Duration = Duration::from_millis(300);

pub(crate) fn numbers_differ_and_grow() {
    let directory = tempdir().unwrap();
    let mut takers: Vec<_> = (0..8).map(|_| Helper::start("take-numbers", directory.path(), 400)).collect();
    takers.iter().for_each(|taker| taker.hear_that("ready"));
    takers.iter_mut().for_each(Helper::go_on);
    let mut all = Vec::new();
    for taker in &takers {
        let numbers: Vec<u64> = taker.hear().split(' ').map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers.len(), 400);
        assert!(numbers.is_sorted_by(|earlier, later| earlier < later), "the numbers of one process grow");
        all.extend(numbers);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8 * 400, "a number was given out twice");
}

pub(crate) fn a_kill_wakes_the_next() {
    let median = hand_over(30, |holder| holder.signal(Signal::KILL));
    assert!(!long::is_asked_for() || median < Duration::from_millis(100), "a kill is noticed after {median:?}");
}

pub(crate) fn a_release_wakes_the_next() {
    let median = hand_over(30, Helper::go_on);
    assert!(!long::is_asked_for() || median < Duration::from_millis(10), "a release is noticed after {median:?}");
}

/// Makes a holder give up its lock to a waiter of this process again and again; returns the median time.
fn hand_over(rounds: usize, give_up: impl Fn(&mut Helper)) -> Duration {
    let directory = tempdir().unwrap();
    let session = session(directory.path());
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let mut holder = Helper::holding(directory.path());
            block_on(async {
                let mut place = Place::join(&session, &queue(QUEUE)).await.unwrap();
                let waiting = tokio::spawn(async move {
                    place.granted().await.unwrap();
                    (Instant::now(), place)
                });
                tokio::task::yield_now().await;
                let given_up = Instant::now();
                give_up(&mut holder);
                let (granted, place) = soon("the grant", waiting).await.unwrap();
                place.leave().await.unwrap();
                granted - given_up
            })
        })
        .collect();
    times.sort_unstable();
    let median = times[rounds / 2];
    println!("hand-off after {median:?} (median of {rounds}), at most {:?}", times[rounds - 1]);
    median
}

pub(crate) fn a_stopped_holder_keeps_its_lock() {
    let directory = tempdir().unwrap();
    let mut holder = Helper::holding(directory.path());
    let waiter = Helper::waiting(directory.path());
    holder.signal(Signal::STOP);
    assert!(waiter.is_silent_for(SILENCE), "a stopped holder lost its lock");
    holder.signal(Signal::CONT);
    holder.go_on();
    waiter.hear_that("held");
}

pub(crate) fn a_killed_waiter_disturbs_no_other() {
    let directory = tempdir().unwrap();
    let mut holder = Helper::holding(directory.path());
    let mut waiters: Vec<_> = (0..3).map(|_| Helper::waiting(directory.path())).collect();
    let mut last = waiters.pop().unwrap();
    waiters.remove(1).signal(Signal::KILL);
    assert!(last.is_silent_for(SILENCE), "a waiter got ahead of one that lives");
    holder.go_on();
    let mut next = waiters.pop().unwrap();
    next.hear_that("held");
    assert!(last.is_silent_for(SILENCE), "two hold the lock");
    next.go_on();
    last.hear_that("held");
    last.go_on();
    last.hear_that("left");
    assert_nothing_left(directory.path());
}

pub(crate) fn reaping_loses_nothing() {
    let parent = tempdir().unwrap();
    let directory = parent.path().join("locks");
    let sum = directory.with_extension("sum");
    fs::write(&sum, "0").unwrap();
    let mut adders: Vec<_> = (0..6).map(|_| Helper::start("add", &directory, 200)).collect();
    adders.iter().for_each(|adder| adder.hear_that("ready"));
    adders.iter_mut().for_each(Helper::go_on);
    adders.iter().for_each(|adder| adder.hear_that("done"));
    assert_eq!(fs::read_to_string(&sum).unwrap(), "1200");
    assert_nothing_left(&directory);
}

pub(crate) fn killed_at_any_moment() {
    const KILLS: usize = 150;
    let parent = tempdir().unwrap();
    let directory = parent.path().join("locks");
    kill_at_any_moment("storm", &directory, 3, KILLS, 12_007);
    let log = fs::read_to_string(directory.with_extension("log")).unwrap();
    check_history(&log);
    println!("{} lines of history under {KILLS} kills", log.lines().count());
    let session = session(&directory);
    block_on(async {
        soon("the grant", lock(&session, &queue(QUEUE))).await.unwrap().leave().await.unwrap();
        session.close().await.unwrap();
    });
    assert_nothing_left(&directory);
}

/// Each grant is followed by the same contender's leaving. If the contender was killed, it appears no more.
fn check_history(log: &str) {
    let mut last = 0;
    for line in log.lines() {
        let number: u64 = line[1..].parse().unwrap();
        if line.starts_with('+') {
            assert!(number > last, "{number} was granted after {last}");
            last = number;
        } else {
            assert_eq!(number, last, "{number} still had the lock when {last} was granted it");
        }
    }
    assert!(last > 0, "nothing happened");
}

pub(crate) fn waiters_cost_nothing() {
    let directory = tempdir().unwrap();
    let session = session(directory.path());
    let _held = block_on(lock(&session, &queue(QUEUE))).unwrap();
    let waiters = Helper::start("wait-many", directory.path(), 100);
    let spent = Duration::from_micros(waiters.hear().parse().unwrap());
    println!("100 waiters spent {spent:?} of processor time in 2 s");
    assert!(!long::is_asked_for() || spent < Duration::from_millis(20), "100 waiters spent {spent:?} in 2 s");
}

pub(crate) fn flushes_are_rare() {
    let name = "one_lock_in_a_thousand_is_flushed_to_disk";
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(name, "strace is not installed");
    }
    let directory = tempdir().unwrap();
    let trace = directory.path().join("trace");
    let base = directory.path().join("locks");
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync", "-o"]).arg(&trace);
    command.arg(std::env::current_exe().unwrap());
    let mut taker = Helper::start_with(command, "take-numbers", &base, 5_000);
    taker.hear_that("ready");
    taker.go_on();
    taker.hear();
    let trace = fs::read_to_string(trace).unwrap();
    let flushes = trace.lines().filter(|line| line.contains("sync(")).count();
    // Each thousand once, and the directory when the counter was made.
    assert_eq!(flushes, 6, "{trace}");
}
