//! `run --restart`, `--min-hold` and `--max-hold`: commands that are run anew, and bounds on how long a lock is held.

use rustix::process::Signal;

use crate::support::{Ended, Place, Running, eventually, now};

/// A place with a note to which each start of the command adds a line.
struct Service {
    place: Place,
}

impl Service {
    fn new() -> Self {
        let place = Place::new();
        place.write("starts", "");
        Self { place }
    }

    /// Starts a run whose command notes its start and its token at `NOTE`, or first of all, and does `script`.
    fn start(&self, options: &[&str], script: &str) -> Running {
        let script = if script.contains("NOTE") { script.to_owned() } else { format!("NOTE; {script}") };
        self.place.start(options, &script.replace("NOTE", "echo $LOCKKEEPER_TOKEN >> starts"))
    }

    /// Waits until the command was started this many times; returns the tokens of the starts.
    fn started(&self, times: usize) -> Vec<u64> {
        eventually("the command was started", || {
            let text = self.place.read("starts");
            let tokens: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (tokens.len() >= times && text.ends_with('\n')).then_some(tokens)
        })
    }

    fn end(&self, run: Running) -> Ended {
        run.send(Signal::TERM);
        run.end()
    }
}

const FOREVER: &str = "while :; do sleep 0.01; done";

fn break_it(service: &Service, token: u64) {
    let broken = service.place.run(&["break", "x", "--token", &token.to_string()]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
}

#[test]
fn after_a_loss_the_command_is_run_anew_under_the_next_grant() {
    let service = Service::new();
    let child = service.start(&["--restart"], FOREVER);
    let first = service.started(1)[0];
    break_it(&service, first);
    let tokens = service.started(2);
    assert!(tokens[0] < tokens[1], "{tokens:?}");
    let ended = service.end(child);
    assert_eq!(ended.code, Some(143), "{ended:?}");
    let told = "lockkeeper: x: the lock was lost (an operator broke the lock), and the command was ended; \
                queueing again in 1s";
    assert!(ended.stderr.lines().any(|line| line == told), "{ended:?}");
    assert_eq!(service.place.contenders("x"), 0);
}

#[test]
fn a_command_that_fails_is_run_anew_and_one_that_succeeds_is_not() {
    let service = Service::new();
    let ended = service.start(&["--restart"], "[ $(wc -l < starts) -ge 3 ] || exit 9").end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(service.started(3).len(), 3);
    let lines: Vec<_> = ended.stderr.lines().collect();
    let again = |pause| format!("lockkeeper: x: the command ended with 9; queueing again in {pause}");
    assert_eq!(lines, [again("1s"), again("2s")]);
}

#[test]
fn a_signal_to_the_runner_ends_the_service_also_if_the_command_ignores_it() {
    let service = Service::new();
    let child = service.start(&["--restart"], &format!("trap 'exit 3' TERM; NOTE; {FOREVER}"));
    service.started(1);
    let ended = service.end(child);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(!ended.stderr.contains("lockkeeper: "), "{ended:?}");
    assert_eq!(service.started(1).len(), 1);
}

#[test]
fn a_signal_in_the_pause_ends_the_service() {
    let service = Service::new();
    let child = service.start(&["--restart"], "exit 3");
    service.started(3);
    // The third pause is four seconds long; no contender stands in the queue meanwhile.
    eventually("it pauses", || (service.place.contenders("x") == 0).then_some(()));
    let ended = service.end(child);
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(ended.stderr.lines().last().unwrap().contains("ended by SIGTERM"), "{ended:?}");
}

#[test]
fn a_revoked_service_lets_the_next_one_in_and_queues_behind_it() {
    let service = Service::new();
    let child = service.start(&["--restart"], FOREVER);
    service.started(1);
    let place = &service.place;
    let next = place.start(&["-q"], "echo $LOCKKEEPER_TOKEN");
    place.until_contenders("x", 2);
    assert_eq!(place.run(&["revoke", "x", "-w", "2m"]).code, Some(0));
    let between: u64 = next.end().stdout.trim().parse().unwrap();
    let tokens = service.started(2);
    assert!(tokens[0] < between && between < tokens[1], "{tokens:?} {between}");
    assert_eq!(service.end(child).code, Some(143));
}

#[test]
fn a_command_that_holds_the_lock_too_long_is_ended() {
    let service = Service::new();
    let ended = service.start(&["--max-hold", "300ms"], FOREVER).end();
    assert_eq!(ended.code, Some(123), "{ended:?}");
    let last = ended.stderr.lines().rfind(|line| line.starts_with("lockkeeper: ")).unwrap();
    assert_eq!(last, "lockkeeper: x: the lock was held for 300ms (--max-hold), and the command was ended");
    let quick = service.start(&["--max-hold", "10m"], "exit 5").end();
    assert_eq!((quick.code, &*quick.stderr), (Some(5), ""));
}

#[test]
fn a_lock_is_kept_for_the_shortest_time_though_its_command_has_ended() {
    let service = Service::new();
    let started = now();
    let child = service.start(&["--min-hold", "6s"], "echo 1 > done; exit 5");
    service.place.note("done");
    let attempt = || service.place.run(&["run", "-n", "x", "--", "true"]).code;
    assert_eq!(attempt(), Some(124));
    assert_eq!(child.end().code, Some(5));
    assert!(now() - started >= std::time::Duration::from_secs(6));
    assert_eq!(attempt(), Some(0));
}

#[test]
fn a_signal_ends_the_shortest_time_and_the_code_is_the_commands() {
    let service = Service::new();
    let child = service.start(&["-v", "--min-hold", "600s"], "echo 1 > done; exit 5");
    service.place.note("done");
    let watchdog_is_gone = || {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        children.trim().is_empty().then_some(())
    };
    eventually("the command has ended", watchdog_is_gone);
    // A signal before this is not lost: the runner catches signals from the start of its command on.
    let ended = service.end(child);
    assert_eq!(ended.code, Some(5), "{ended:?}");
}
