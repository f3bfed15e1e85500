//! `show --watch`: a lock shown again at each change, until a signal ends it or its reader goes away.
//!
//! On a terminal the screen is drawn anew; elsewhere each change is one more text, or one line of JSON.

use std::io::IsTerminal as _;
use std::time::Duration;

use lockkeeper::clock::{Clock, SystemClock};
use lockkeeper::{Advice, Changes, ContenderInfo, Keeper, QueueName};
use rustix::termios::tcgetwinsize;

use super::service::{block_on_closing, open};
use crate::config::Global;
use crate::exit::{self, CommandFailure};
use crate::output::{self, ShownLock, say, write};
use crate::signals::EndingSignals;
use crate::witness::QueueWitness;

/// How often a terminal is drawn anew though nothing has changed, so that ages go on.
const BEAT: Duration = Duration::from_secs(1);

/// How often the lock is looked at though no contender came or went: for notes at a contender that no watch reports,
/// such as a request to give up.
const LOOK: Duration = Duration::from_secs(5);

/// How long to pause after a look that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How many rows a terminal has that does not report it.
const ROWS_DEFAULT: u16 = 24;

pub(super) fn watch(global: &Global, name: &str) -> Result<u8, CommandFailure> {
    let name = QueueName::new(name)?;
    let keeper = open(global)?;
    let form = match (global.json, std::io::stdout().is_terminal()) {
        (true, _) => WatchForm::Json,
        (false, true) => WatchForm::Screen,
        (false, false) => WatchForm::Text,
    };
    let (queue, witness) = (Vec::new(), QueueWitness::default());
    let watching = QueueWatch { keeper: &keeper, name: &name, form, queue, witness, shown: None, is_failing: false };
    block_on_closing(&keeper, watching.follow())?
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WatchForm {
    Json,
    Screen,
    Text,
}

struct QueueWatch<'a> {
    keeper: &'a Keeper,
    name: &'a QueueName,
    form: WatchForm,
    queue: Vec<ContenderInfo>,
    /// Grants that were observed here and that the service does not report.
    witness: QueueWitness,
    shown: Option<ShownLock>,
    /// Whether a line said that the service cannot be looked at.
    is_failing: bool,
}

impl QueueWatch<'_> {
    async fn follow(mut self) -> Result<u8, CommandFailure> {
        let mut interruption = EndingSignals::listen()?;
        let changes = self.keeper.admin().changes(self.name.as_str())?;
        if self.keeper.admin().set_up_text().is_some()
            && let Some(code) = self.until_used(&mut interruption).await?
        {
            return Ok(code);
        }
        let mut change = Box::pin(next(changes, Duration::ZERO));
        let mut looks = tokio::time::interval(LOOK);
        let mut beats = tokio::time::interval(BEAT);
        // Their first ticks come at once, and the first look is under way.
        looks.reset();
        beats.reset();
        loop {
            let is_shown = self.shown.is_some();
            let goes_on = tokio::select! {
                biased;
                cause = interruption.heard() => return Ok(exit::by_signal(cause.number)),
                (changes, looked) = &mut change => {
                    let pause = if looked.is_ok() { Duration::ZERO } else { PAUSE };
                    change.set(next(changes, pause));
                    self.take(looked)?
                }
                _ = looks.tick(), if is_shown && !self.is_failing => {
                    let looked = self.keeper.contenders(self.name.as_str()).await;
                    self.take(looked)?
                }
                _ = beats.tick(), if is_shown && self.form == WatchForm::Screen => self.draw(self.describe())?,
            };
            if !goes_on {
                return Ok(0);
            }
        }
    }

    /// Looks again and again while the lock has no contender, where a session, which is told of changes, would make the
    /// schema that it needs. Returns the exit code if a signal comes or the reader goes away.
    async fn until_used(&mut self, interruption: &mut EndingSignals) -> Result<Option<u8>, CommandFailure> {
        loop {
            let looked = self.keeper.contenders(self.name.as_str()).await;
            let is_used = looked.as_ref().is_ok_and(|queue| !queue.is_empty());
            if !self.take(looked)? {
                return Ok(Some(0));
            }
            if is_used {
                return Ok(None);
            }
            tokio::select! {
                biased;
                cause = interruption.heard() => return Ok(Some(exit::by_signal(cause.number))),
                () = tokio::time::sleep(BEAT) => {}
            }
        }
    }

    /// Shows what was seen, if it is new; `false` if there is no reader any more.
    fn take(&mut self, looked: lockkeeper::Result<Vec<ContenderInfo>>) -> Result<bool, CommandFailure> {
        match looked {
            Ok(queue) => {
                self.queue = queue;
                self.witness.look(&mut self.queue, SystemClock.unix_time());
            }
            Err(error) if error.advice() == Advice::Permanent || self.shown.is_none() => return Err(error.into()),
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    say(&format!("{error:#}; trying again"));
                }
                return Ok(true);
            }
        }
        if std::mem::take(&mut self.is_failing) {
            say(&format!("{} ({}) can be looked at again", self.name, self.keeper.service()));
        }
        let now = self.describe();
        if self.shown.as_ref().is_some_and(|shown| shown.is_same(&now)) {
            return Ok(true);
        }
        self.draw(now)
    }

    fn describe(&self) -> ShownLock {
        ShownLock::new(self.name.as_str(), self.keeper.service(), &self.queue, SystemClock.unix_time())
    }

    fn draw(&mut self, now: ShownLock) -> Result<bool, CommandFailure> {
        let text = match self.form {
            WatchForm::Json => output::json_line(&now)?,
            WatchForm::Screen => screen(&now.text(), rows()),
            WatchForm::Text if self.shown.is_some() => format!("\n{}", now.text()),
            WatchForm::Text => now.text(),
        };
        self.shown = Some(now);
        write(&text)
    }
}

/// Waits for the next change, after a pause.
async fn next(mut changes: Changes, pause: Duration) -> (Changes, lockkeeper::Result<Vec<ContenderInfo>>) {
    tokio::time::sleep(pause).await;
    let looked = changes.next().await;
    (changes, looked)
}

fn rows() -> u16 {
    let told = tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_row);
    if told == 0 { ROWS_DEFAULT } else { told.max(2) }
}

/// Draws a text from the top of a cleared screen; of one that is too long, as many lines as fit. Lines are not wrapped.
fn screen(text: &str, rows: u16) -> String {
    let fit = usize::from(rows) - 1;
    let count = text.lines().count();
    let mut drawn = String::from("\x1b[H\x1b[2J\x1b[?7l");
    let whole = if count > fit { fit - 1 } else { count };
    for line in text.lines().take(whole) {
        drawn.push_str(line);
        drawn.push_str("\r\n");
    }
    if count > whole {
        drawn.push_str(&format!("{} more\r\n", count - whole));
    }
    drawn.push_str("\x1b[?7h");
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_shows_as_many_lines_as_fit_and_counts_the_rest() {
        let lines = |text: &str, rows| {
            let drawn = screen(text, rows);
            let body = drawn.strip_prefix("\x1b[H\x1b[2J\x1b[?7l").unwrap().strip_suffix("\x1b[?7h").unwrap();
            body.split_terminator("\r\n").map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines("a\nb\nc\n", 24), ["a", "b", "c"]);
        assert_eq!(lines("a\nb\nc\n", 4), ["a", "b", "c"]);
        assert_eq!(lines("a\nb\nc\n", 3), ["a", "2 more"]);
        assert_eq!(lines("a\nb\nc\n", 2), ["3 more"]);
    }
}
