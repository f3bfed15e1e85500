//! Supervising a command whose hold has a deadline: it is dead before the hold ends, also if a process was stopped or
//! cut off.
//!
//! This program is also its runner, watchdog and launcher, so that a test sets the deadline as a service would.

#[allow(dead_code, unused_imports, reason = "the socket and the unit tests belong to the real command")]
#[path = "../src/run/mod.rs"]
mod run;
#[expect(dead_code, unused_imports, reason = "runs on a service with a deadline use a part of it")]
mod support;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockkeeper::SafeUntil;
use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use rustix::process::Signal;
use tempfile::TempDir;

use run::{OnLoss, Outcome, StandBy, Supervision};
use support::terminal::{CTRL_D, CTRL_Z, Terminal};
use support::{ended, eventually, is_alive, now, number_in, send};

/// How long each hold lasts if it is not renewed.
const HOLD: Duration = Duration::from_millis(1_500);

/// Whether the service goes on answering.
#[derive(Clone, Copy)]
enum Service {
    Renews,
    Silent,
}

fn main() -> ExitCode {
    if let Some(code) = run::hidden_step(std::env::args_os()) {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == "__runner") {
        return runner(arguments.map(|argument| argument.into_string().unwrap()).collect());
    }
    let tests: [(&str, fn()); 8] = [
        ("a_command_is_dead_before_a_hold_ends_that_is_not_renewed", not_renewed),
        ("a_command_has_its_whole_grace_before_the_hold_ends", whole_grace),
        ("a_command_outlives_the_first_deadline_of_a_hold_that_is_renewed", renewed),
        ("a_command_whose_runner_is_stopped_is_dead_before_the_hold_ends", stopped_runner),
        ("a_command_whose_watchdog_is_stopped_is_dead_before_the_hold_ends", stopped_watchdog),
        ("a_lost_lock_ends_the_command", lost),
        ("a_lost_lock_only_warns_if_that_is_configured", warned),
        ("ctrl_z_stops_the_command_while_the_hold_is_renewed_and_continues_it", ctrl_z),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// The process that holds the imagined lock: `SERVICE ON-LOSS COMMAND…`; lost once a file named `lost` is there.
fn runner(arguments: Vec<String>) -> ExitCode {
    let [service, on_loss, command @ ..] = arguments.as_slice() else { panic!("too few arguments") };
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let stand_by = StandBy::fork(&command).unwrap();
    let renews = service == "renews";
    let first_end = SystemClock.now().saturating_add(HOLD);
    let safe_until = move || SafeUntil::At(if renews { SystemClock.now().saturating_add(HOLD) } else { first_end });
    let supervision = Supervision {
        stand_by: Some(stand_by),
        command,
        environment: vec![("IN_TEST".into(), "yes".into())],
        lifeline: None,
        safe_until: Box::new(safe_until),
        grace: Duration::from_millis(400),
        on_loss: if on_loss == "warn" { OnLoss::Warn } else { OnLoss::Stop },
    };
    let lost = async {
        while !Path::new("lost").exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        "as the test wished".to_owned()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (outcome, _) = runtime.block_on(run::supervise(supervision, lost, std::future::pending())).unwrap();
    note_time_left(first_end);
    ExitCode::from(
        u8::try_from(match outcome {
            Outcome::Exited(code) => code,
            Outcome::LockLost(_) => 123,
            other => panic!("{other:?}"),
        })
        .unwrap(),
    )
}

/// Notes how much of the hold was left when all was over, in milliseconds.
fn note_time_left(end: BootInstant) {
    let left = end.saturating_duration_since(SystemClock.now()).as_millis();
    fs::write("left_ms", format!("{left}\n")).unwrap();
}

/// A runner that was started, and the directory for notes that it runs in.
struct Started {
    notes: TempDir,
    runner: Child,
}

fn command(service: Service, on_loss: &str, script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let service = match service {
        Service::Renews => "renews",
        Service::Silent => "silent",
    };
    command.args(["__runner", service, on_loss, "sh", "-c", script]);
    command
}

fn start(service: Service, on_loss: &str, script: &str) -> Started {
    let notes = TempDir::new().unwrap();
    let mut command = command(service, on_loss, script);
    let said = File::create(notes.path().join("said")).unwrap();
    let runner = command.current_dir(notes.path()).stdin(Stdio::null()).stderr(said).spawn().unwrap();
    Started { notes, runner }
}

impl Started {
    fn note(&self, name: &str) -> i32 {
        number_in(&self.notes.path().join(name))
    }

    fn pid(&self) -> i32 {
        self.runner.id().cast_signed()
    }

    /// Waits for the end; returns the exit code and what was said.
    fn end(mut self) -> (i32, String, TempDir) {
        let code = ended(&mut self.runner).code().unwrap();
        (code, fs::read_to_string(self.notes.path().join("said")).unwrap(), self.notes)
    }
}

/// Ignores requests to end, and so does its child.
const STUBBORN: &str = r#"
    trap '' TERM
    echo $PPID > watchdog
    sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 60); do sleep 1; done' 2> /dev/null &
    echo $$ > child
    for second in $(seq 60); do sleep 1; done"#;

fn not_renewed() {
    let started = start(Service::Silent, "stop", STUBBORN);
    let pids = [started.note("child"), started.note("grandchild")];
    let (code, said, notes) = started.end();
    assert_eq!(code, 123, "{said}");
    assert!(number_in(&notes.path().join("left_ms")) > 0);
    assert!(!pids.into_iter().any(is_alive));
}

fn whole_grace() {
    // Takes 0.2 of the 0.4 seconds that it has.
    let script = "trap 'sleep 0.2; echo 1 > farewell; exit 0' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let started = start(Service::Silent, "stop", script);
    let (code, said, notes) = started.end();
    assert_eq!(code, 123, "{said}");
    assert_eq!(number_in(&notes.path().join("farewell")), 1);
    assert!(number_in(&notes.path().join("left_ms")) >= 500);
}

fn renewed() {
    let (code, said, _) = start(Service::Renews, "stop", "sleep 2.5; exit 7").end();
    assert_eq!((code, said.as_str()), (7, ""));
}

fn stopped_runner() {
    let started = start(Service::Renews, "stop", STUBBORN);
    let pids = [started.note("child"), started.note("grandchild")];
    send(started.pid(), Signal::STOP);
    let stopped = now();
    eventually("the group is dead", || (!pids.into_iter().any(is_alive)).then_some(()));
    assert!(stopped.elapsed() < HOLD, "{:?}", stopped.elapsed());
    send(started.pid(), Signal::CONT);
    let (code, said, _) = started.end();
    assert_eq!(code, 123, "{said}");
}

fn stopped_watchdog() {
    let started = start(Service::Silent, "stop", STUBBORN);
    let pids = [started.note("child"), started.note("grandchild")];
    send(started.note("watchdog"), Signal::STOP);
    let (code, said, notes) = started.end();
    assert_eq!(code, 123, "{said}");
    assert!(number_in(&notes.path().join("left_ms")) > 0);
    assert!(!pids.into_iter().any(is_alive));
}

fn lost() {
    let started = start(Service::Renews, "stop", STUBBORN);
    let pids = [started.note("child"), started.note("grandchild")];
    fs::write(started.notes.path().join("lost"), "").unwrap();
    let (code, said, _) = started.end();
    assert_eq!(code, 123);
    assert_eq!(said, "lockkeeper: the lock is lost (as the test wished); ending the command\n");
    assert!(!pids.into_iter().any(is_alive));
}

fn warned() {
    let script = "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 4";
    let mut started = start(Service::Silent, "warn", script);
    started.note("child");
    fs::write(started.notes.path().join("lost"), "").unwrap();
    let begun = now();
    eventually("the hold is over", || (begun.elapsed() > HOLD).then_some(()));
    assert!(started.runner.try_wait().unwrap().is_none());
    fs::write(started.notes.path().join("end"), "").unwrap();
    let (code, said, _) = started.end();
    assert_eq!(code, 4);
    assert_eq!(said, "lockkeeper: the lock is lost (as the test wished); the command goes on without it\n");
}

fn ctrl_z() {
    let notes = TempDir::new().unwrap();
    let script = format!("cd {} && exec cat", notes.path().display());
    let inner = command(Service::Renews, "stop", &script);
    let mut outer = Command::new("sh");
    outer.args(["-c", "cd $NOTES; \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    outer.env("NOTES", notes.path());
    let mut terminal = Terminal::run(&outer);
    terminal.press("first\n");
    terminal.expect("first\r\nfirst\r\n");
    terminal.press(CTRL_Z);
    terminal.expect("the command is stopped; the lock is still held and renewed; Ctrl-Z continues it\r\n");
    let stopped = now();
    eventually("the hold would be over", || (stopped.elapsed() > HOLD + HOLD / 4).then_some(()));
    terminal.press(CTRL_Z);
    terminal.press("second\n");
    terminal.expect("second\r\nsecond\r\n");
    terminal.press(CTRL_D);
    assert_eq!(terminal.exit_code(), 0);
}
