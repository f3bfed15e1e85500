//! The runner's side: starts the watchdog, tells it what it must know, passes signals on, and stays until all is over.
//!
//! The caller holds the lock all the while and releases it only after [`supervise`] has returned.

#[cfg(test)]
mod tests;

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::pin;
use std::time::Duration;

use lockkeeper::SafeUntil;
use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_console::output::say;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::MissedTickBehavior;

use super::channel::{self, CommandEnd, EndCause, Message};
use super::ending::take_over_at;
use super::group::Group;
use super::stand_by::{LeavingWatchdog, StandBy, end_group};
use super::terminal::{ENDING, Signals};
use super::terminal::{JobControl, Terminal, stop_job};
use super::{CommandOutcome, OnLoss, StopOrder, Supervision};

/// How often a hold with a deadline is asked for its newest one, in milliseconds: far more often than it is renewed.
const RENEWAL_LOOK_MS: u64 = 250;

/// How long a command runs before its lock's loss is waited for, in milliseconds.
///
/// Waiting for it can cost more than a short command does: the kernel takes some 15 ms to take down a watch on a
/// directory. The watchdog keeps to the deadline from the start.
const LOSS_WAIT_AFTER_MS: u64 = 50;

/// Runs a command under a hold. Returns when the command has ended and no process of ours is left but the watchdog, if
/// it has nothing more to do: that one is waited for while the lock is given back.
///
/// When the lock is lost, or to be given up because `stop` says so, all of the command's processes are dead before this
/// returns. When the command ends by itself, what it has left in the background is left alone. From the call on,
/// signals are the command's.
///
/// Must be polled by the thread that has called it, as a `current_thread` runtime does: a background process that takes
/// the terminal back must have blocked SIGTTOU, and a mask belongs to a thread.
///
/// Dropping the future breaks the watchdog's pipe: it ends the command's processes, and keeps the lifeline until then.
/// Otherwise the lifeline is closed before this returns.
///
/// When the connection is lost, the command runs on until `safe_until` less the grace comes near; then it is ended.
/// Fails for want of resources, or if the watchdog was killed; then the command's processes are dead.
pub(crate) async fn supervise(
    supervision: Supervision,
    lost: impl Future<Output = String> + Send,
    stop: impl Future<Output = StopOrder> + Send,
) -> io::Result<(CommandOutcome, Option<LeavingWatchdog>)> {
    let signals = Signals::listen()?;
    // Orphans of a watchdog that was killed come to us, so that we can see them end.
    set_child_subreaper(Some(getpid()))?;
    let mut runner = CommandRunner::start(supervision, Terminal::open())?;
    if let Err(error) = runner.listen(signals, lost, stop).await {
        // The lock is given back when this returns; so the command has to be gone.
        runner.give_over().await;
        let _ = runner.finish().await;
        return Err(error);
    }
    runner.finish().await
}

struct CommandRunner {
    program: String,
    watchdog: Pid,
    /// A stream to the runtime alone; it carries the messages of `channel`.
    channel: UnixStream,
    terminal: Terminal,
    safe_until: Box<dyn Fn() -> SafeUntil + Send + Sync>,
    on_loss: OnLoss,
    /// What the watchdog was told last.
    told: SafeUntil,
    grace: Duration,
    /// When the watchdog was told to end the command, if it was.
    end_told_at: Option<BootInstant>,
    /// Since when a signal that ends most commands was not confirmed by the watchdog, if one was not.
    unconfirmed_since: Option<BootInstant>,
    /// Whether it was told so because the lock is to be given up.
    is_giving_up: bool,
    /// Whether we had to end the watchdog.
    took_over: bool,
    group: Option<Group>,
    /// Whether the command is stopped while we go on renewing.
    is_stopped: bool,
    loss: Option<String>,
    failure: Option<LaunchFailure>,
    ended: Option<(CommandEnd, EndCause)>,
}

/// Why the command never ran.
enum LaunchFailure {
    NotExecuted(i32),
    NotLaunched(i32),
}

impl CommandRunner {
    fn start(supervision: Supervision, terminal: Terminal) -> io::Result<Self> {
        let Supervision { stand_by, command, environment, lifeline, safe_until, grace, on_loss } = supervision;
        let program = command.first().map(|program| program.display().to_string()).unwrap_or_default();
        let stand_by = stand_by.map_or_else(|| StandBy::execute(&command), Ok)?;
        let (waiting, ours) = stand_by.into_parts();
        let ours = StdUnixStream::from(ours);
        ours.set_nonblocking(true)?;
        // All that can fail comes before the command starts, with the last message.
        let channel = UnixStream::from_std(ours)?;
        channel::send_environment(&channel, &environment)?;
        let stdin = rustix::stdio::stdin();
        let mut files = vec![stdin.as_fd()];
        files.extend(lifeline.as_ref().map(AsFd::as_fd));
        let until = if on_loss == OnLoss::Warn { SafeUntil::ProcessEnd } else { safe_until() };
        channel::send(&channel, Message::SafeUntil(until), &[])?;
        channel::send(&channel, Message::Begin { grace, foreground: terminal.at_start() }, &files)?;
        Ok(Self {
            program,
            watchdog: waiting.begun(),
            channel,
            terminal,
            safe_until,
            on_loss,
            told: until,
            grace,
            end_told_at: None,
            unconfirmed_since: None,
            is_giving_up: false,
            took_over: false,
            group: None,
            is_stopped: false,
            loss: None,
            failure: None,
            ended: None,
        })
    }

    /// Goes on until the watchdog is gone, with or without its last message.
    async fn listen(
        &mut self,
        mut signals: Signals,
        lost: impl Future<Output = String> + Send,
        stop: impl Future<Output = StopOrder> + Send,
    ) -> io::Result<()> {
        let mut lost = pin!(later(lost));
        let mut stop = pin!(later(stop));
        let mut is_lost = false;
        let mut looks = tokio::time::interval(Duration::from_millis(RENEWAL_LOOK_MS));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.is_over() {
            let told_at = self.end_told_at.into_iter().chain(self.unconfirmed_since).min();
            let take_over_at = take_over_at(self.told, told_at, self.grace).filter(|_| !self.took_over);
            let renews = !is_lost && matches!(self.told, SafeUntil::At(_));
            tokio::select! {
                // After a long stop of all of us much is due at once, and the time to take over has come too.
                biased;
                message = receive(&self.channel) => match message? {
                    Some(message) => self.hear(message)?,
                    None => return Ok(()),
                },
                signal = signals.next() => self.hear_signal(signal),
                reason = &mut lost, if !is_lost => {
                    is_lost = true;
                    self.lose(reason);
                }
                reason = &mut stop, if !is_lost && !self.is_giving_up => self.give_up(reason),
                _ = looks.tick(), if renews => self.renew(),
                // The runtime may not have told yet of a word that lies there.
                () = reached(take_over_at) => match channel::receive(&self.channel, RecvFlags::DONTWAIT) {
                    Ok(Some((message, _))) => self.hear(message)?,
                    Ok(None) => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.take_over(),
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(())
    }

    /// Tells whether the command has ended by itself: then its watchdog has nothing left to do but to end.
    fn is_over(&self) -> bool {
        matches!(self.ended, Some((_, EndCause::Itself)))
    }

    fn hear(&mut self, message: Message) -> io::Result<()> {
        match message {
            Message::Launched { pid } => self.group = Pid::from_raw(pid).map(Group::led_by),
            Message::NotExecuted { errno } => self.fail(LaunchFailure::NotExecuted(errno)),
            Message::NotLaunched { errno } => self.fail(LaunchFailure::NotLaunched(errno)),
            Message::Stopped { signal } => {
                if let (Some(signal), Some(group)) = (Signal::from_named_raw(signal), self.group) {
                    self.command_stopped(signal, group.leader())?;
                }
            }
            Message::PassedOn => self.unconfirmed_since = None,
            Message::Ended { end, cause } => self.ended = Some((end, cause)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(())
    }

    /// Keeps the first failure: the launcher's, and not that it was gone when the watchdog told it to go.
    fn fail(&mut self, failure: LaunchFailure) {
        self.failure.get_or_insert(failure);
    }

    fn tell(&self, message: Message) {
        // The end of a watchdog is noticed where its messages are read. One that was stopped for so long that its
        // channel is full misses the rest; it then ends the command too early rather than too late.
        let _ = channel::send(&self.channel, message, &[]);
    }

    fn renew(&mut self) {
        let safe_until = (self.safe_until)();
        if self.told != safe_until {
            self.told = safe_until;
            self.tell(Message::SafeUntil(safe_until));
        }
    }

    fn lose(&mut self, reason: String) {
        match self.on_loss {
            OnLoss::Stop => {
                say(&format!("the lock is lost ({reason}); ending the command"));
                self.end_command(Duration::MAX);
            }
            OnLoss::Warn => say(&format!("the lock is lost ({reason}); the command goes on without it")),
        }
        self.loss = Some(reason);
    }

    fn give_up(&mut self, StopOrder { why, within }: StopOrder) {
        self.is_giving_up = true;
        say(&format!("{why}; ending the command"));
        self.end_command(within.unwrap_or(Duration::MAX));
    }

    /// Asks the command to end, and has it killed after the grace or `within` this time, if that is shorter.
    fn end_command(&mut self, within: Duration) {
        self.grace = self.grace.min(within);
        self.end_told_at.get_or_insert_with(|| SystemClock.now());
        self.tell(Message::End { within });
    }

    /// Ends a watchdog that is stopped or stuck. The command dies with it, and then we kill its group.
    fn take_over(&mut self) {
        self.took_over = true;
        if self.unconfirmed_since.is_some() {
            say("the command's watchdog does not pass the signal on, as it is stopped or stuck; killing the command");
        }
        let _ = kill_process(self.watchdog, Signal::KILL);
    }

    fn hear_signal(&mut self, signal: Signal) {
        match signal {
            Signal::CONT => self.resume(),
            Signal::TSTP if self.is_stopped => self.resume(),
            signal => {
                self.tell(Message::Signal(signal.as_raw()));
                if ENDING.contains(&signal) {
                    self.unconfirmed_since.get_or_insert_with(|| SystemClock.now());
                }
            }
        }
    }

    fn resume(&mut self) {
        self.is_stopped = false;
        if let Some(group) = self.group {
            self.terminal.lend(group.leader());
        }
        self.tell(Message::Signal(Signal::CONT.as_raw()));
    }

    /// Decides what a stopped command means for us and our terminal.
    fn command_stopped(&mut self, signal: Signal, command: Pid) -> io::Result<()> {
        let wants_terminal = matches!(signal, Signal::TTIN | Signal::TTOU);
        if wants_terminal && self.terminal.lend(command) {
            self.tell(Message::Signal(Signal::CONT.as_raw()));
            return Ok(());
        }
        // A command that stops itself still has the terminal, and the user could type nothing more.
        let keeps_terminal = signal == Signal::STOP && self.terminal.is_lent_to(command);
        // Stopped by hand in the background, or where there is no terminal: the process that did it continues it.
        if !self.terminal.is_there() || !(wants_terminal || keeps_terminal || signal == Signal::TSTP) {
            return Ok(());
        }
        self.terminal.take_back(command);
        if matches!((self.safe_until)(), SafeUntil::At(_)) {
            // Stopped, we could not renew. So we stay in front, where Ctrl-Z reaches us.
            self.is_stopped = true;
            say("the command is stopped; the lock is still held and renewed; Ctrl-Z continues it");
            return Ok(());
        }
        match stop_job()? {
            // Continued; the signal that did it is received next.
            JobControl::Shell => {}
            JobControl::NoProcess if signal == Signal::TSTP => self.resume(),
            // The process that did it continues it, as there is no shell to do it; then it needs the terminal.
            JobControl::NoProcess if keeps_terminal => _ = self.terminal.lend(command),
            JobControl::NoProcess => say("the command waits for the terminal, which another process has"),
        }
        Ok(())
    }

    /// Ends a watchdog that cannot be listened to any more, and hears what it and the launcher have said, which tells
    /// the command's group, until both are gone.
    async fn give_over(&mut self) {
        let _ = kill_process(self.watchdog, Signal::KILL);
        loop {
            match receive(&self.channel).await {
                // A command that was stopped dies as well.
                Ok(Some(Message::Stopped { .. })) => {}
                Ok(Some(message)) => _ = self.hear(message),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Waits for the end of the watchdog, ends what it left if it was killed, and sums up.
    async fn finish(mut self) -> io::Result<(CommandOutcome, Option<LeavingWatchdog>)> {
        let leaving = if self.is_over() {
            Some(LeavingWatchdog::of(self.watchdog))
        } else {
            // Its sockets are closed: it is ending or dead. Once it is dead, the command has come to us.
            drop(LeavingWatchdog::of(self.watchdog));
            None
        };
        let is_orphaned = self.ended.is_none() && self.failure.is_none();
        if let (true, Some(group)) = (is_orphaned, self.group) {
            end_group(group).await;
        }
        if let Some(group) = self.group {
            self.terminal.take_back(group.leader());
        }
        if !matches!(self.ended, Some((CommandEnd::Exited(_), EndCause::Itself))) {
            self.terminal.restore_modes();
        }
        Ok((self.sum_up()?, leaving))
    }

    fn sum_up(&mut self) -> io::Result<CommandOutcome> {
        let stops = self.on_loss == OnLoss::Stop;
        let is_told_to_end = self.is_giving_up || self.unconfirmed_since.is_some();
        match (self.failure.take(), self.loss.take().filter(|_| stops), self.ended) {
            (Some(LaunchFailure::NotLaunched(errno)), ..) => Err(io::Error::from_raw_os_error(errno)),
            (Some(LaunchFailure::NotExecuted(errno)), ..) => Ok(not_executed(&self.program, errno)),
            (None, Some(reason), _) => Ok(CommandOutcome::LockLost(reason)),
            // The watchdog was told to end it, or it was about to end by itself; the sender of `stop` reports that.
            (None, None, Some((CommandEnd::Exited(code), _))) if self.is_giving_up => Ok(CommandOutcome::Exited(code)),
            (None, None, Some((CommandEnd::Signaled(signal), _))) if self.is_giving_up => {
                Ok(CommandOutcome::Signaled(signal))
            }
            (None, None, None) if is_told_to_end && self.took_over => {
                Ok(CommandOutcome::Signaled(Signal::KILL.as_raw()))
            }
            (None, None, Some((_, EndCause::Watchdog))) => {
                Ok(CommandOutcome::LockLost("it was not renewed in time".to_owned()))
            }
            (None, None, Some((CommandEnd::Exited(code), EndCause::Itself))) => Ok(CommandOutcome::Exited(code)),
            (None, None, Some((CommandEnd::Signaled(signal), EndCause::Itself))) => {
                Ok(CommandOutcome::Signaled(signal))
            }
            (None, None, None) if self.took_over => {
                Ok(CommandOutcome::LockLost("its watchdog did not end the command in time".to_owned()))
            }
            (None, None, None) => Err(io::Error::other("the watchdog was killed; the command was ended")),
        }
    }
}

fn not_executed(program: &str, errno: i32) -> CommandOutcome {
    let message = format!("cannot run {program}: {}", nix::errno::Errno::from_raw(errno).desc());
    if errno == Errno::NOENT.raw_os_error() {
        CommandOutcome::NotFound(message)
    } else {
        CommandOutcome::NotExecutable(message)
    }
}

/// Waits for something, but not at once: [`LOSS_WAIT_AFTER_MS`] says why.
async fn later<Fut: Future>(awaited: Fut) -> Fut::Output {
    tokio::time::sleep(Duration::from_millis(LOSS_WAIT_AFTER_MS)).await;
    awaited.await
}

async fn reached(moment: Option<BootInstant>) {
    match moment {
        Some(moment) => SystemClock.sleep_until(moment).await,
        None => pending().await,
    }
}

async fn receive(channel: &UnixStream) -> io::Result<Option<Message>> {
    let received = channel.async_io(Interest::READABLE, || channel::receive(channel, RecvFlags::DONTWAIT)).await?;
    Ok(received.map(|(message, _)| message))
}
