//! Supervising a command whose hold has a deadline: it is dead before the hold ends, also if a process was stopped or
//! cut off.
//!
//! This program is also its runner, watchdog and launcher, so that a test sets the deadline as a service would.

#[allow(dead_code, unused_imports, reason = "the socket and the unit tests belong to the real command")]
#[path = "../src/run/mod.rs"]
mod run;
#[expect(dead_code, unused_imports, reason = "commands prepare for signals, and this program catches few")]
#[path = "../src/signals.rs"]
mod signals;
#[expect(dead_code, unused_imports, reason = "runs on a service with a deadline use a part of it")]
mod support;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lockkeeper::SafeUntil;
use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper_faults::long;
use lockkeeper_faults::sleeper::Sleeper;
use rustix::process::Signal;

use run::{CommandOutcome, OnLoss, StandBy, Supervision};
use support::terminal::{CTRL_D, CTRL_Z, Terminal};
use support::{Place, Running, eventually, is_alive, now, send};

/// How long a hold lasts if it is not renewed: long enough for a command to begin, and short, since tests wait for it.
const HOLD: Duration = Duration::from_secs(5);

/// How long a command may take to end by itself.
const GRACE: Duration = Duration::from_millis(400);

/// How often it is tried whether a command is dead in time, but for the long run.
const TRIES_MAX: u32 = 4;

/// Whether the service goes on answering.
#[derive(Clone, Copy)]
enum Service {
    Renews,
    Silent,
}

/// How a command is run: what its service does, and for how long a hold lasts; how long it may take to end, and what is
/// done when the lock is lost.
#[derive(Clone, Copy)]
struct Terms {
    service: Service,
    hold: Duration,
    grace: Duration,
    on_loss: &'static str,
}

impl Terms {
    const fn of(service: Service, hold: Duration) -> Self {
        Self { service, hold, grace: GRACE, on_loss: "stop" }
    }
}

fn main() -> ExitCode {
    if let Some(code) = run::hidden_step(std::env::args_os()) {
        return code;
    }
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == "__runner") {
        return runner(arguments.map(|argument| argument.into_string().unwrap()).collect());
    }
    let tests: [(&str, fn()); 7] = [
        ("a_command_is_dead_before_a_hold_ends_that_is_not_renewed", not_renewed),
        ("a_command_has_its_whole_grace_before_the_hold_ends", whole_grace),
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

/// The process that holds the imagined lock: `SERVICE HOLD GRACE ON-LOSS COMMAND…`, with times in milliseconds; lost
/// once a file named `lost` is there.
fn runner(arguments: Vec<String>) -> ExitCode {
    let [service, hold, grace, on_loss, command @ ..] = arguments.as_slice() else { panic!("too few arguments") };
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let [hold, grace] = [hold, grace].map(|ms| Duration::from_millis(ms.parse().unwrap()));
    let stand_by = StandBy::fork(&command).unwrap();
    let renews = service == "renews";
    let (sleeper, first_end) = (Sleeper::start(), SystemClock.now().saturating_add(hold));
    let safe_until = move || SafeUntil::At(if renews { SystemClock.now().saturating_add(hold) } else { first_end });
    let supervision = Supervision {
        stand_by: Some(stand_by),
        command,
        environment: vec![("IN_TEST".into(), "yes".into())],
        lifeline: None,
        safe_until: Box::new(safe_until),
        grace,
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
    note_time_left(hold, &sleeper);
    ExitCode::from(
        u8::try_from(match outcome {
            CommandOutcome::Exited(code) => code,
            CommandOutcome::LockLost(_) => 123,
            other => panic!("{other:?}"),
        })
        .unwrap(),
    )
}

/// Notes how much of the hold was left when all was over, in milliseconds; where the machine stands still, so does
/// this.
fn note_time_left(hold: Duration, sleeper: &Sleeper) {
    let left = hold.saturating_sub(sleeper.slept()).as_millis();
    fs::write("left_ms", format!("{left}\n")).unwrap();
}

/// A runner that was started, and the place where it notes.
struct Started {
    place: Place,
    runner: Running,
}

fn command(terms: Terms, script: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let service = match terms.service {
        Service::Renews => "renews",
        Service::Silent => "silent",
    };
    let [hold, grace] = [terms.hold, terms.grace].map(|time| time.as_millis().to_string());
    command.args(["__runner", service, &hold, &grace, terms.on_loss, "sh", "-c", script]);
    command
}

fn start(terms: Terms, script: &str) -> Started {
    let place = Place::new();
    let runner = Running::start(command(terms, script).current_dir(place.notes()));
    Started { place, runner }
}

impl Started {
    /// The command and its child.
    fn pids(&self) -> [i32; 2] {
        ["child", "grandchild"].map(|name| self.place.note(name))
    }

    /// Waits for the end; returns the exit code, what was said, and how much of the hold was left, in milliseconds.
    fn end(self) -> (i32, String, i32) {
        let ended = self.runner.end();
        (ended.code.unwrap(), ended.stderr, self.place.note("left_ms"))
    }
}

/// Ignores requests to end, and so does its child.
const STUBBORN: &str = r#"
    trap '' TERM
    echo $PPID > watchdog
    sh -c 'trap "" TERM; echo $$ > grandchild; for second in $(seq 600); do sleep 1; done' 2> /dev/null &
    echo $$ > child
    for second in $(seq 600); do sleep 1; done"#;

/// Asserts that it is in time. To find the processes of a command and to end them takes a part of a processor: on a
/// machine with other work to do it is tried again.
fn in_time(mut is_in_time: impl FnMut() -> bool) {
    let tries = if long::is_asked_for() { 1 } else { TRIES_MAX };
    assert!((0..tries).any(|_| is_in_time()), "too late, {tries} times");
}

/// Asserts that a stubborn command, whose hold is not renewed, is dead in time after something was done.
fn dead_in_time(strike: impl Fn(&Started)) {
    in_time(|| {
        let started = start(Terms::of(Service::Silent, HOLD), STUBBORN);
        let pids = started.pids();
        strike(&started);
        let (code, said, left_ms) = started.end();
        assert_eq!(code, 123, "{said}");
        assert!(!pids.into_iter().any(is_alive));
        left_ms > 0
    });
}

fn not_renewed() {
    dead_in_time(|_| ());
}

fn stopped_watchdog() {
    dead_in_time(|started| send(started.place.note("watchdog"), Signal::STOP));
}

fn whole_grace() {
    // Takes a fifth of a second, and has ten.
    let script = "trap 'sleep 0.2; echo 1 > farewell; exit 0' TERM; echo $$ > child; while :; do sleep 0.01; done";
    let terms = Terms { grace: Duration::from_secs(10), ..Terms::of(Service::Silent, Duration::from_secs(15)) };
    let Started { place, runner } = start(terms, script);
    let ended = runner.end();
    assert_eq!(ended.code, Some(123), "{ended:?}");
    assert_eq!(place.note("farewell"), 1);
    assert!(place.note("left_ms") >= 500);
}

fn stopped_runner() {
    in_time(|| {
        let started = start(Terms::of(Service::Renews, HOLD), STUBBORN);
        let pids = started.pids();
        started.runner.send(Signal::STOP);
        let sleeper = Sleeper::start();
        eventually("the group is dead", || (!pids.into_iter().any(is_alive)).then_some(()));
        let slept = sleeper.slept();
        started.runner.send(Signal::CONT);
        let (code, said, _) = started.end();
        assert_eq!(code, 123, "{said}");
        slept < HOLD
    });
}

fn lost() {
    let started = start(Terms::of(Service::Renews, Duration::from_secs(600)), STUBBORN);
    let pids = started.pids();
    started.place.write("lost", "");
    let (code, said, _) = started.end();
    let told = "lockkeeper: the lock is lost (as the test wished); ending the command\n";
    assert_eq!((code, said.as_str()), (123, told));
    assert!(!pids.into_iter().any(is_alive));
}

fn warned() {
    let script = "echo $$ > child; while [ ! -e end ]; do sleep 0.01; done; exit 4";
    let hold = Duration::from_millis(1_500);
    let mut started = start(Terms { on_loss: "warn", ..Terms::of(Service::Silent, hold) }, script);
    started.place.note("child");
    started.place.write("lost", "");
    let begun = now();
    eventually("the hold is over", || (begun.elapsed() > hold).then_some(()));
    assert!(!started.runner.is_over());
    started.place.write("end", "");
    let (code, said, _) = started.end();
    assert_eq!(code, 4);
    assert_eq!(said, "lockkeeper: the lock is lost (as the test wished); the command goes on without it\n");
}

fn ctrl_z() {
    let place = Place::new();
    let script = format!("cd {} && exec cat", place.notes().display());
    let inner = command(Terms::of(Service::Renews, HOLD), &script);
    let mut outer = Command::new("sh");
    outer.args(["-c", "cd $NOTES; \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    outer.env("NOTES", place.notes());
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
