//! Killed runs under names that are never used again, `deploy-$SHA`, leave nothing in the directory of the locks.
//!
//! The moments of the kills follow from one seed, which is printed. In `cargo xtask test --long` ten times as many runs
//! are killed.

#[expect(dead_code, unused_imports, reason = "one test uses a part of it")]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
#[cfg(feature = "monitor")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lockkeeper_conformance::{Random, SEED_VARIABLE, seed};
#[cfg(feature = "monitor")]
use lockkeeper_faults::figures;
use lockkeeper_faults::long;
use rustix::process::{Pid, Signal, kill_process};

use support::{Place, ended, eventually, is_alive, now, send, state};

/// How many runs are killed in the long run.
const KILLS: u32 = 1_000;

/// How many holders are killed and removed by `gc` in the long run.
#[cfg(feature = "monitor")]
const GC_ROUNDS: u32 = 1_000;

/// How many run at the same time.
const AT_ONCE: usize = 8;

/// When a run is killed after its start, in microseconds: before it holds its lock, while it does, or after it has
/// ended.
const KILL_WITHIN_US: u64 = 60_000;

/// The names in a directory, in order.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

/// The moments of the kills, from the seed in the environment or a new one.
fn moments() -> Random {
    let seed = seed();
    println!("again: {SEED_VARIABLE}={seed} cargo test -p lockkeeper-cli --test leftovers");
    Random::new(seed)
}

/// The processes that a process has started, and those that these have started.
fn descendants(pid: i32) -> Vec<i32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<i32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    children.into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

/// Stops a process for good, so that it does nothing about the end of others before it is killed.
fn stop(pid: i32) {
    send(pid, Signal::STOP);
    eventually("a process stands still", || (state(pid) == Some('T')).then_some(()));
}

fn kill(pid: i32) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// Which processes of a run are killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Runner,
    Watchdog,
    Both,
}

/// Kills a run, and waits until none of its processes lives.
fn kill_run(way: Way, mut runner: Child) {
    let pid = runner.id().try_into().unwrap();
    let family = descendants(pid);
    if way == Way::Both {
        stop(pid);
    }
    // The first of them is the watchdog, if there is one yet.
    if let Some(&watchdog) = family.first().filter(|_| way != Way::Runner) {
        kill(watchdog);
    }
    if way != Way::Watchdog || family.is_empty() {
        kill(pid);
    }
    ended(&mut runner);
    for member in family {
        if way == Way::Both {
            // No process is left to end what the command has started.
            kill(member);
        }
        eventually("a process of a killed run ends", || (!is_alive(member)).then_some(()));
    }
}

#[test]
fn after_runs_killed_in_all_ways_and_one_ls_nothing_is_left_but_the_counter_and_what_is_in_use() {
    let place = Place::new();
    let mut random = moments();
    let kills = long::rounds(KILLS) as usize;
    let held = [place.hold("held"), place.hold("in/use")];
    let mut waiter = place.queue(&[], "held");
    let mut killed = 0;
    while killed < kills {
        let start = |number: usize| {
            // Names of all kinds: short ones, ones that are stored as a digest, and a lock that is waited for.
            let name = match number % 5 {
                0 => format!("deploy/{number}-{}", "é".repeat(60)),
                4 => "held".to_owned(),
                _ => format!("deploy-{number}"),
            };
            let options: &[&str] = [&[][..], &["-s"], &["--permits", "3"], &["-x"]][number % 4];
            let options = if name == "held" { &[] } else { options };
            let arguments = [&["run", "-q"], options, &[&name, "--", "sh", "-c", "sleep 0.03; exec sleep 9"]].concat();
            let mut command = place.command(&arguments);
            let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            (name == "held", run)
        };
        let begun_at = now();
        let runs: Vec<_> = (killed..killed + AT_ONCE).map(start).collect();
        let mut moments: Vec<_> = runs.into_iter().map(|run| (random.below(KILL_WITHIN_US), run)).collect();
        moments.sort_by_key(|(moment, _)| *moment);
        killed += moments.len();
        for (moment, (waits, run)) in moments {
            let way = match random.below(3) {
                0 => Way::Runner,
                // A waiter needs no watchdog yet, and does not miss it.
                1 if !waits => Way::Watchdog,
                _ => Way::Both,
            };
            pause(Duration::from_micros(moment).saturating_sub(begun_at.elapsed()));
            kill_run(way, run);
        }
    }
    let left = names_in(&place.locks().join("queues")).len();
    println!("{killed} runs were killed; {left} directories were there before ls");
    let listed = place.run(&["ls"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert_eq!(names_in(place.locks()), ["counter", "queues"]);
    assert_eq!(names_in(&place.locks().join("queues")), ["held", "in%2Fuse"]);
    assert_eq!(place.contenders("held"), 2);
    held.into_iter().for_each(support::Holder::end);
    assert_eq!(waiter.code(), Some(0));
    assert_eq!(names_in(&place.locks().join("queues")), [""; 0]);
}

#[expect(clippy::disallowed_methods, reason = "the test kills at moments that it has drawn")]
fn pause(pause: Duration) {
    thread::sleep(pause);
}

/// Takes a few locks in turns, by this number, until it is told to stop; every run of them has to succeed.
#[cfg(feature = "monitor")]
fn come_and_go(place: &Place, number: usize, stop: &AtomicBool) -> usize {
    let mut runs = 0;
    while !stop.load(Ordering::SeqCst) {
        let lock = format!("busy-{}", (number + runs) % 3);
        let ended = place.run(&["run", "-q", &lock, "--", "true"]);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
        runs += 1;
    }
    runs
}

#[cfg(feature = "monitor")]
#[test]
fn gc_removes_what_killed_runs_have_left_and_nothing_of_those_that_come_and_go() {
    let place = Place::new();
    let rounds = long::rounds(GC_ROUNDS);
    let held = place.hold("held");
    let mut waiter = place.queue(&[], "held");
    assert_eq!(place.run(&["freeze", "ice", "--reason", "moving"]).code, Some(0));
    let stop = AtomicBool::new(false);
    let gc = |arguments: &[&str]| {
        let ended = place.run(&[&["gc", "--json"], arguments].concat());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
        let printed: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        printed["remnants"].as_array().unwrap().clone()
    };
    let runs: usize = thread::scope(|scope| {
        let (place, stop) = (&place, &stop);
        let clients = [0, 1].map(|number| scope.spawn(move || come_and_go(place, number, stop)));
        for round in 0..rounds {
            let lock = format!("deploy-{round}");
            let run = place.command(&["run", "-q", &lock, "--", "sh", "-c", "exec sleep 600"]).spawn().unwrap();
            place.until_contenders(&lock, 1);
            kill_run(Way::Both, run);
            let of_lock = |remnants: &[serde_json::Value]| -> Vec<String> {
                let of_lock = remnants.iter().filter(|it| it["lock"] == lock.as_str());
                of_lock.map(|it| format!("{} {}", it["kind"], it["outcome"])).collect()
            };
            assert_eq!(of_lock(&gc(&[])), [r#""dead" "listed""#]);
            let left = place.locks().join("queues").join(&lock);
            assert_eq!(names_in(&left).len(), 2, "nothing is removed without --yes");
            assert_eq!(of_lock(&gc(&["--yes"])), [r#""dead" "removed""#]);
            assert!(!left.exists());
            assert!(clients.iter().all(|client| !client.is_finished()), "a run has failed");
        }
        stop.store(true, Ordering::SeqCst);
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!((place.contenders("held"), place.contenders("ice")), (2, 1));
    held.end();
    assert_eq!(waiter.code(), Some(0));
    figures::tell(&format!("gc on files: {rounds} killed holders removed, {runs} runs meanwhile and none disturbed"));
}

#[test]
fn the_watchdog_tidies_after_a_killed_runner() {
    let place = Place::new();
    for options in [&[][..], &["--permits", "2"]] {
        let arguments = [&["run"], options, &["deploy-7", "--", "sh", "-c", "echo held; sleep 600"]].concat();
        let mut command = place.command(&arguments);
        command.stderr(Stdio::null());
        let mut holder = support::Holder::start(&mut command);
        assert_eq!(names_in(&place.locks().join("queues")), ["deploy-7"]);
        holder.process.kill();
        eventually("the directory of the lock is gone", || {
            names_in(&place.locks().join("queues")).is_empty().then_some(())
        });
        assert_eq!(names_in(place.locks()), ["counter", "queues"]);
    }
}

#[test]
fn ls_removes_what_was_left_half_made_and_nothing_that_is_in_use() {
    let place = Place::new();
    assert_eq!(place.script("x", "true").code, Some(0));
    assert_eq!(place.run(&["freeze", "ice", "--reason", "moving"]).code, Some(0));
    let queues = place.locks().join("queues");
    let digest = format!("{}~{}", "y".repeat(120), "0".repeat(32));
    let temporary = |number: u32| format!(".new-{number:032x}");
    let (alone, within) = (temporary(1), format!("queues/{}", temporary(2)));
    for left in [&alone, &within, "queues/no-enter", &format!("queues/{digest}"), "queues/made/.enter"] {
        let path = place.locks().join(left);
        fs::create_dir_all(if left.ends_with(".enter") { path.parent().unwrap() } else { &path }).unwrap();
    }
    fs::write(queues.join("made/.enter"), "").unwrap();
    fs::write(place.locks().join(temporary(3)), "").unwrap();
    fs::create_dir_all(queues.join("theirs/.new-folder")).unwrap();
    fs::write(queues.join("theirs/readme"), "do not delete").unwrap();
    // The directory of the locks may be any, with a user's own files in it.
    for theirs in [".new-config", "queues/.new-config", "queues/theirs/.new-config"] {
        fs::write(place.locks().join(theirs), "").unwrap();
    }
    let before = names_in(&queues);
    assert_eq!(place.run(&["ls", "--names"]).stdout, "ice\n");
    assert_eq!(names_in(&queues), before, "a shell that completes a name removes nothing");
    assert_eq!(place.run(&["ls"]).stdout.lines().count(), 2, "a heading, and the frozen lock");
    assert_eq!(names_in(place.locks()), [".new-config", "counter", "queues"]);
    assert_eq!(names_in(&queues), [".new-config", "ice", "theirs"]);
    assert!([".new-config", ".new-folder"].iter().all(|theirs| queues.join("theirs").join(theirs).exists()));
    assert_eq!(fs::read_to_string(queues.join("theirs/readme")).unwrap(), "do not delete");
}
