//! Tests of a runner's reaction to its watchdog's messages.

use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::net::SendFlags;

use super::*;

/// A runner without a command, the other end of its channel, and its watchdog; dropping that kills it.
fn runner() -> (CommandRunner, OwnedFd, LeavingWatchdog) {
    let watchdog = Pid::from_child(&Command::new("sleep").arg("60").spawn().unwrap());
    let (theirs, ours) = channel::pair().unwrap();
    let ours = StdUnixStream::from(ours);
    ours.set_nonblocking(true).unwrap();
    let runner = CommandRunner {
        program: String::new(),
        watchdog,
        channel: UnixStream::from_std(ours).unwrap(),
        terminal: Terminal::open(),
        safe_until: Box::new(|| SafeUntil::ProcessEnd),
        on_loss: OnLoss::Stop,
        told: SafeUntil::ProcessEnd,
        grace: Duration::ZERO,
        end_told_at: None,
        unconfirmed_since: None,
        is_giving_up: false,
        took_over: false,
        group: None,
        is_stopped: false,
        loss: None,
        failure: None,
        ended: None,
    };
    (runner, theirs, LeavingWatchdog::of(watchdog))
}

#[tokio::test]
async fn a_watchdog_that_is_given_over_is_heard_until_it_is_gone() {
    let (mut runner, theirs, _leaving) = runner();
    let says = async {
        rustix::net::send(&theirs, b"not a message", SendFlags::empty()).unwrap();
        tokio::task::yield_now().await;
        channel::send(&theirs, Message::Stopped { signal: Signal::TSTP.as_raw() }, &[]).unwrap();
        channel::send(&theirs, Message::Launched { pid: 7 }, &[]).unwrap();
        tokio::task::yield_now().await;
        drop(theirs);
    };
    tokio::join!(runner.give_over(), says);
    assert_eq!(runner.group.map(|group| group.leader().as_raw_nonzero().get()), Some(7));
}

#[tokio::test]
async fn the_first_reason_why_a_command_could_not_be_started_is_told() {
    let (mut runner, _theirs, _leaving) = runner();
    for errno in [Errno::NOMEM, Errno::PIPE] {
        runner.hear(Message::NotLaunched { errno: errno.raw_os_error() }).unwrap();
    }
    assert_eq!(runner.sum_up().unwrap_err().raw_os_error(), Some(Errno::NOMEM.raw_os_error()));
}
