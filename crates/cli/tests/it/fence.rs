//! `fence`: a holder that was overtaken does not run its command.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockkeeper_conformance::Random;
use rustix::process::Signal;

use crate::support::{Holder, Place, Running, eventually, finish, now, send};

fn fence(place: &Place, token: &str, file: &Path, script: &str) -> Command {
    let mut command = place.command(&["fence"]);
    command.arg(file).args(["--", "sh", "-c", script]).env("LOCKKEEPER_TOKEN", token).env("LOCKKEEPER_NAME", "x");
    command.current_dir(place.notes());
    command
}

#[track_caller]
fn passes(mut command: Command) {
    let ended = finish(&mut command);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{ended:?}");
}

#[test]
fn a_smaller_token_than_the_file_has_seen_is_refused_and_an_equal_one_passes() {
    let place = Place::new();
    let file = place.locks().join("f");
    for token in ["41", "41", "42", "42.2", "42.3", "42.3"] {
        passes(fence(&place, token, &file, "true"));
    }
    for token in ["42.2", "42", "41", "0"] {
        let ended = finish(&mut fence(&place, token, &file, "echo written"));
        ended.assert_refused(123, &["x: ", &format!("token {token} "), "42.3"]);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "x 42.3\n");
    assert_eq!(fs::read_dir(place.locks()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_holder_that_is_stopped_until_it_has_lost_its_lock_writes_nothing_afterwards() {
    let place = Place::new();
    let (file, data) = (place.locks().join("f"), place.locks().join("data"));
    let write = |who: &str| {
        format!("\"$LOCKKEEPER\" fence --name x {} -- sh -c 'echo {who} >> {}'", file.display(), data.display())
    };
    // It has the lock, and then is slow. `--on-loss warn` stands for a pause that no watchdog sees.
    let slow = format!("echo $$ > child; echo held; read line; {}; echo $? >&2", write("first"));
    let mut first = Running::with_input(&mut place.script_of(&["--on-loss", "warn"], &slow));
    assert_eq!(first.line(), "held\n");
    let pid = place.note("child");
    send(pid, Signal::STOP);
    assert_eq!(place.run(&["break", "x", "--token", &place.token("x")]).code, Some(0));
    let second = place.script("x", &write("second"));
    assert_eq!(second.code, Some(0), "{second:?}");
    send(pid, Signal::CONT);
    first.close_input();
    let ended = first.end();
    assert!(ended.stderr.contains("was overtaken") && ended.stderr.contains("\n123\n"), "{ended:?}");
    assert_eq!(fs::read_to_string(&data).unwrap(), "second\n");
}

#[test]
fn bad_input_is_refused_in_one_line_and_nothing_is_written() {
    let place = Place::new();
    let file = place.locks().join("f");
    for (token, word) in [
        (None, "LOCKKEEPER_TOKEN is not set"),
        (Some(""), "whole number"),
        (Some("-1"), "`-1`"),
        (Some("1.x"), "`1.x`"),
        (Some("9223372036854775808"), "9223372036854775807"),
    ] {
        let mut command = fence(&place, "1", &file, "echo written");
        match token {
            Some(token) => command.env("LOCKKEEPER_TOKEN", token),
            None => command.env_remove("LOCKKEEPER_TOKEN"),
        };
        finish(&mut command).assert_refused(125, &[word]);
    }
    for (given, word) in [(Some("x"), "`y`"), (None, "LOCKKEEPER_NAME is not set"), (Some(""), "LOCKKEEPER_NAME: ")] {
        let mut command = place.command(&["fence", "--name", "y"]);
        command.arg(&file).args(["--", "echo", "written"]).env("LOCKKEEPER_TOKEN", "1");
        command.envs(given.map(|given| ("LOCKKEEPER_NAME", given)));
        finish(&mut command).assert_refused(125, &[word]);
    }
    let json = finish(place.command(&["fence", "--json", "f", "--", "true"]).env("LOCKKEEPER_TOKEN", "1"));
    json.assert_refused(125, &["JSON"]);
    assert!(!file.exists(), "nothing was written");
}

#[test]
fn a_file_that_is_not_a_fences_is_refused_and_left_as_it_is() {
    let place = Place::new();
    let file = place.file("notes", "remember the milk\n");
    let refuses = |file: &Path, words: &[&str]| {
        finish(&mut fence(&place, "1", file, "echo written")).assert_refused(125, words);
    };
    refuses(&file, &["notes", "not the file of a fence"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "remember the milk\n");
    let large = place.file("large", &"x 1\n".repeat(100_000));
    refuses(&large, &["not the file of a fence"]);
    refuses(place.locks(), &["directory"]);
    refuses(&place.locks().join("missing/f"), &["No such file"]);
    let dangling = place.locks().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    refuses(&dangling, &["dangling"]);
    let pipe = place.locks().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refuses(&pipe, &["not a regular file"]);
}

#[test]
fn a_file_is_replaced_where_a_link_leads_to_and_keeps_its_rights() {
    let place = Place::new();
    let file = place.file("real", "");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o620)).unwrap();
    let link = place.locks().join("link");
    symlink(&file, &link).unwrap();
    passes(fence(&place, "7", &link, "true"));
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&file).unwrap(), "x 7\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o620);
}

#[test]
fn it_ends_as_its_command_does() {
    let place = Place::new();
    let file = place.locks().join("f");
    assert_eq!(finish(&mut fence(&place, "1", &file, "exit 7")).code, Some(7));
    assert_eq!(finish(&mut fence(&place, "1", &file, "kill -TERM $$")).code, None, "the signal's own end");
    let ended = finish(&mut fence(&place, "1", &file, "echo $LOCKKEEPER_TOKEN $LOCKKEEPER_NAME"));
    assert_eq!(&*ended.stdout, "1 x\n");
    let run =
        |program: &str| finish(place.command(&["fence"]).arg(&file).args(["--", program]).env("LOCKKEEPER_TOKEN", "1"));
    run("/no/such/program").assert_refused(127, &["/no/such/program"]);
    run("/etc/passwd").assert_refused(126, &["/etc/passwd"]);
}

#[test]
fn the_next_command_waits_for_the_one_before_also_when_the_file_was_replaced_meanwhile() {
    let place = Place::new();
    let (file, data) = (place.locks().join("f"), place.locks().join("data"));
    let first = Holder::start(&mut fence(&place, "7", &file, "echo held; read line; false"));
    let script = |who: &str| format!("echo {who} >> {}", data.display());
    // Both wait for the file that the first has put in place; one of them replaces it again.
    let start = |token: &str| {
        let child = Running::start(&mut fence(&place, token, &file, &script(token)));
        eventually("it waits for the file", || waits_for_a_lock(&child).then_some(()));
        child
    };
    let (older, newer) = (start("6"), start("8"));
    assert!(!data.exists());
    first.end();
    assert_eq!(newer.end().code, Some(0));
    assert_eq!(older.end().code, Some(123), "it was overtaken while it waited, or before");
    assert_eq!(fs::read_to_string(&data).unwrap(), "8\n");
}

fn waits_for_a_lock(child: &Running) -> bool {
    let pid = child.id().to_string();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains("-> FLOCK") && line.split_whitespace().any(|word| word == pid))
}

#[test]
fn what_the_command_leaves_in_the_background_keeps_the_next_one_out() {
    let place = Place::new();
    let file = place.locks().join("f");
    passes(fence(&place, "1", &file, "sleep 1000 >/dev/null 2>&1 & echo $! > left"));
    let child = Running::start(&mut fence(&place, "2", &file, "true"));
    eventually("it waits for the file", || waits_for_a_lock(&child).then_some(()));
    send(place.note("left"), Signal::KILL);
    assert_eq!(child.end().code, Some(0));
}

/// Writes down the tokens whose commands ran; a fence that is killed at any moment must not have the file forget them.
#[test]
fn a_kill_at_any_moment_loses_no_token_and_keeps_no_holder_out() {
    const KILLS: u64 = 60;
    let seed = lockkeeper_conformance::seed();
    eprintln!("again: LOCKKEEPER_SEED={seed} cargo test -p lockkeeper-cli --test it -- fence::a_kill");
    let random = &mut Random::new(seed);
    let place = Place::new();
    let (file, log) = (place.locks().join("f"), place.locks().join("log"));
    let script = format!("echo $LOCKKEEPER_TOKEN >> {}", log.display());
    let begin = now();
    passes(fence(&place, "0", &file, "true"));
    let longest = (2 * begin.elapsed()).as_micros() as u64;
    let mut killed = 0;
    for token in 1..=KILLS {
        let mut child = Running::start(&mut fence(&place, &token.to_string(), &file, &script));
        // From before its start to after its end.
        let (begin, delay) = (now(), Duration::from_micros(random.below(longest)));
        while begin.elapsed() < delay {
            std::thread::yield_now();
        }
        child.kill();
        killed += u64::from(child.code().is_none());
        let text = fs::read_to_string(&log).unwrap_or_default();
        let Some(greatest) = text.lines().last().and_then(|line| line.parse::<u64>().ok()) else { continue };
        let stale = (greatest - 1).to_string();
        finish(&mut fence(&place, &stale, &file, "echo written")).assert_refused(123, &["was overtaken"]);
        passes(fence(&place, &token.to_string(), &file, "true"));
    }
    assert!(killed > 0, "none of {KILLS} was killed before its end");
    passes(fence(&place, &(KILLS + 1).to_string(), &file, "true"));
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("x {}\n", KILLS + 1));
}
