//! Lockkeeper's lines on stderr while it waits for a lock and holds it: one line each, and one live line on a terminal.
//!
//! It observes the library's events, and so it also knows our own place in the queue. The texts are the callers'.

use std::io::IsTerminal as _;
use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock, SystemClock};
use lockkeeper::{ContenderId, Event, LossReason, Observer, SessionTimeout};
use parking_lot::Mutex;
use rustix::stdio::stderr;

use crate::output::{brief, one_line, say};
use crate::run::in_foreground;

/// How often a line says that a failure still leads to new tries, in seconds: often enough for a reader of a log, and
/// seldom enough for the log.
const RETRY_MENTION_S: u64 = 60;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Talk {
    Quiet,
    /// Also what is waited for.
    Normal,
    /// Everything that happens.
    Verbose,
}

#[derive(Debug)]
pub(crate) struct Voice {
    talk: Talk,
    is_terminal: bool,
    state: Mutex<VoiceState>,
}

#[derive(Debug, Default)]
struct VoiceState {
    /// Whether the live line is on the terminal.
    is_shown: bool,
    /// Our own place in the queue.
    contender: Option<ContenderId>,
    /// When a line last said that something is tried again.
    retry_mentioned_at: Option<BootInstant>,
    /// After how long without us the service ends our session; `None` where it ends with this process.
    session_timeout: Option<Duration>,
}

impl Voice {
    /// Finds out where stderr goes.
    pub(crate) fn new(talk: Talk) -> Self {
        let is_dumb = || std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
        let is_terminal = std::io::stderr().is_terminal() && !is_dumb();
        Self { talk, is_terminal, state: Mutex::default() }
    }

    /// Tells whether lines about waiting are left out.
    pub(crate) fn is_quiet(&self) -> bool {
        self.talk == Talk::Quiet
    }

    /// Tells whether a live line can be shown: on a terminal that can erase it.
    pub(crate) fn is_live(&self) -> bool {
        self.is_terminal
    }

    /// Returns our own place in the queue, once we have one.
    pub(crate) fn contender(&self) -> Option<ContenderId> {
        self.state.lock().contender.clone()
    }

    /// Says how what could not be given back ends.
    pub(crate) fn ends_by_itself(&self) -> String {
        match self.state.lock().session_timeout {
            Some(timeout) => format!("stays taken until the session ends at the service, within {timeout:?}"),
            None => "ends with this process".to_owned(),
        }
    }

    pub(crate) fn say(&self, text: &str) {
        self.erase(&mut self.state.lock());
        say(text);
    }

    /// Prints a line at the most verbose level.
    pub(crate) fn verbose(&self, text: &str) {
        if self.talk == Talk::Verbose {
            self.say(text);
        }
    }

    /// Tells whether the line that something is tried again is due at the normal level, and notes that it is printed.
    fn is_retry_due(&self, event: &Event, now: BootInstant) -> bool {
        let Event::Retrying { attempt, .. } = event else { return false };
        let last = &mut self.state.lock().retry_mentioned_at;
        let is_long_ago = |at: BootInstant| now.saturating_duration_since(at) >= Duration::from_secs(RETRY_MENTION_S);
        let is_due = *attempt == 1 || last.is_none_or(is_long_ago);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Shows a text in the live line; nothing in the background, where another process group has the terminal.
    pub(crate) fn show(&self, text: &str) {
        if !in_foreground(stderr()) {
            return;
        }
        // No wrapping at the terminal's edge: only one line can be erased. In one write, so that nothing comes between.
        let line = format!("\r\x1b[K\x1b[?7llockkeeper: {}\x1b[?7h", one_line(text));
        self.state.lock().is_shown = true;
        let _ = rustix::io::write(stderr(), line.as_bytes());
    }

    pub(crate) fn clear_status(&self) {
        self.erase(&mut self.state.lock());
    }

    fn erase(&self, state: &mut VoiceState) {
        if std::mem::take(&mut state.is_shown) {
            let _ = rustix::io::write(stderr(), b"\r\x1b[K");
        }
    }
}

impl Observer for Voice {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Joined { contender, .. } => self.state.lock().contender = Some(contender.clone()),
            Event::SessionOpened { timeout, .. } => {
                self.state.lock().session_timeout = timeout.map(|timeout| timeout.granted);
            }
            _ => {}
        }
        if let Some((talk, text)) = describe(event, self.is_retry_due(event, SystemClock.now()))
            && self.talk >= talk
        {
            self.say(&text);
        }
    }
}

/// Puts an event into words, and says at which level it is printed. Of tries in a row, only those that are due are for
/// the normal level.
fn describe(event: &Event, is_retry_due: bool) -> Option<(Talk, String)> {
    match event {
        Event::Joined { lock, ahead, .. } => Some((Talk::Verbose, format!("{lock}: joined the queue, {ahead} ahead"))),
        Event::Rejoining { lock, reason } => Some((
            Talk::Normal,
            format!("{lock}: the place in the queue was lost ({reason}); joining again at its end"),
        )),
        Event::Retrying { lock, delay, error, .. } => {
            let talk = if is_retry_due { Talk::Normal } else { Talk::Verbose };
            let lock = if error.lock().is_some() { String::new() } else { format!("{lock}: ") };
            Some((talk, format!("{lock}{error:#}; trying again in {}ms", delay.as_millis())))
        }
        Event::Granted { lock, token, waited, .. } => {
            Some((Talk::Verbose, format!("{lock}: granted with token {token} after {}ms", waited.as_millis())))
        }
        // The service has not answered yet. What was lost is told as a loss.
        Event::Released { lock, held, lost: None, .. } => {
            Some((Talk::Verbose, format!("{lock}: giving it back after {}", brief(*held))))
        }
        Event::SessionOpened { service, timeout: Some(timeout) } => {
            let SessionTimeout { asked, granted } = timeout;
            let text = match timeout.is_clipped() {
                false => format!("{service}: the session timeout is {granted:?}"),
                true => {
                    format!("{service}: warning: the server granted a session timeout of {granted:?}, not {asked:?}")
                }
            };
            Some((Talk::Verbose, text))
        }
        Event::Weakened { service, finding } => Some((Talk::Normal, format!("{service}: {finding}"))),
        Event::Jeopardy { service, safe_for } => {
            let safe_for =
                safe_for.map(|left| format!("; what is held is safe for {}", brief(left))).unwrap_or_default();
            Some((Talk::Verbose, format!("{service}: the connection is lost{safe_for}")))
        }
        Event::JeopardyOver { service } => Some((Talk::Verbose, format!("{service}: connected again"))),
        Event::SessionLost { service, reason } if *reason != LossReason::Closed => {
            Some((Talk::Verbose, format!("{service}: the session was lost: {reason}")))
        }
        // The holder of the lock says so itself.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::{Error, ErrorKind, Finding, Operation, QueueName, Severity};

    use super::*;

    #[test]
    fn a_failure_that_may_pass_is_printed_at_the_normal_level_at_once_and_then_once_a_minute() {
        let lock = QueueName::new("x").unwrap();
        let error = Error::transient(ErrorKind::ConnectionLost, Operation::Connect, "no answer").at(&lock);
        let voice = Voice::new(Talk::Quiet);
        let retrying = |attempt, second: u64| {
            let delay = Duration::from_millis(700);
            let event = Event::Retrying { lock: lock.clone(), attempt, delay, error: error.clone() };
            let now = BootInstant::from_nanos(0).saturating_add(Duration::from_secs(second));
            describe(&event, voice.is_retry_due(&event, now)).unwrap()
        };
        assert_eq!(retrying(1, 0), (Talk::Normal, "x: connect: no answer; trying again in 700ms".to_owned()));
        let told: Vec<u64> = (1..300).filter(|&second| retrying(second as u32 + 1, second).0 == Talk::Normal).collect();
        assert_eq!(told, [60, 120, 180, 240]);
        assert_eq!(retrying(1, 301).0, Talk::Normal, "it is another failure");
    }

    #[test]
    fn the_granted_session_timeout_is_printed_with_a_warning_if_another_was_asked_for() {
        let opened = |asked, granted| {
            let (asked, granted) = (Duration::from_secs(asked), Duration::from_secs(granted));
            let timeout = Some(SessionTimeout { asked, granted });
            describe(&Event::SessionOpened { service: "zk://h1".to_owned(), timeout }, false).unwrap()
        };
        assert_eq!(opened(20, 20), (Talk::Verbose, "zk://h1: the session timeout is 20s".to_owned()));
        let clipped = "zk://h1: warning: the server granted a session timeout of 40s, not 3600s";
        assert_eq!(opened(3600, 40), (Talk::Verbose, clipped.to_owned()));
        let untimed = Event::SessionOpened { service: "file:/x".to_owned(), timeout: None };
        assert!(describe(&untimed, false).is_none());
    }

    #[test]
    fn what_is_wrong_with_the_service_is_one_line_unless_nothing_should_be_said() {
        let finding = Finding::new(Severity::Warning, "the database is full", "make room");
        let weakened = Event::Weakened { service: "etcd://h1".to_owned(), finding };
        let line = "etcd://h1: warning: the database is full: make room".to_owned();
        assert_eq!(describe(&weakened, false), Some((Talk::Normal, line)));
    }

    #[test]
    fn our_place_in_the_queue_is_remembered() {
        let voice = Voice::new(Talk::Quiet);
        let contender = ContenderId::new("c7");
        let lock = QueueName::new("x").unwrap();
        voice.on_event(&Event::Joined { lock, contender: contender.clone(), ahead: 0 });
        assert_eq!(voice.contender(), Some(contender));
    }
}
