//! The state of the screen, and the effect of a key. Pure: what was seen and keys come in, and what is to be done goes
//! out.

use lockkeeper::QueueName;

use super::contender::{ContenderLine, RowIdentity};
use super::input::{KeyPress, TerminalInput};
use super::query::Cursor;
use super::query::Query;
use super::question::{Question, QuestionOutcome};
use super::sight::{LockLine, ScreenData};
use crate::ordering::OperatorOrder;

/// How many characters a filter has at most: no name is longer.
const FILTER_MAX: usize = 200;

/// How many lines a page is moved by before the window's size is known.
const PAGE_LINES: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) service: String,
    pub(super) sight: ScreenData,
    pub(super) query: Query,
    pub(super) list: Cursor<QueueName>,
    /// The lock whose queue is looked into.
    pub(super) lock: Option<QueueName>,
    pub(super) queue: Cursor<RowIdentity>,
    /// Whether the contender that was chosen has left, and no other has been chosen since.
    has_left: bool,
    pub(super) mode: InputMode,
    /// What came of the last key or order.
    pub(super) notice: Option<Notice>,
    /// What is said of the order that is being carried out.
    pub(super) under_way: Option<String>,
    /// How many lines of rows fit, as they were drawn last.
    pub(super) lines: usize,
}

/// What keys are for.
#[derive(Clone, Debug)]
pub(super) enum InputMode {
    /// They move the cursor and give orders.
    Browse,
    /// They are the text of the filter.
    Filter,
    /// They scroll what is wrong, from this line on.
    Problems(usize),
    Help,
    Ask(Box<Question>),
}

/// What is said in the line above the keys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_failure: bool,
}

/// What is to be done outside.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum AppEffect {
    /// The end, as it was asked for.
    Quit,
    /// The end, as by an interrupt.
    Interrupt,
    Suspend,
    Redraw,
    Do(QueueName, OperatorOrder),
    /// The order that is under way is not waited for any more.
    GiveUp,
}

impl App {
    pub(super) fn new(service: String) -> Self {
        Self {
            service,
            sight: ScreenData::default(),
            query: Query::default(),
            list: Cursor::default(),
            lock: None,
            queue: Cursor::default(),
            has_left: false,
            mode: InputMode::Browse,
            notice: None,
            under_way: None,
            lines: PAGE_LINES,
        }
    }

    /// Takes in what is known now. The chosen lock and the chosen contender stay chosen.
    pub(super) fn see(&mut self, mut sight: ScreenData) {
        let query = &self.query;
        let chosen = sight.chosen.take();
        let unlisted = |lock: &QueueName| match chosen {
            Some(row) if row.lock == *lock => Some(row),
            _ => query.asks_for(lock).then(|| LockLine::free(lock)),
        };
        self.list.keep(&mut sight.rows, |row| row.lock.clone(), unlisted);
        let had = self.queue.chosen().is_some();
        self.queue.find(&keys(&sight.queue));
        if had && self.queue.chosen().is_none() && self.lock.is_some() {
            self.has_left = true;
            // What came of an order is not hidden: it may be why the contender has left.
            if self.notice.is_none() {
                self.say("the chosen contender has left");
            }
        }
        self.sight = sight;
    }

    /// Takes a key, a pasted text, or a change of the window.
    pub(super) fn handle(&mut self, input: TerminalInput) -> Option<AppEffect> {
        match input {
            TerminalInput::Key(KeyPress::Interrupt) => Some(AppEffect::Interrupt),
            TerminalInput::Key(KeyPress::Suspend) => Some(AppEffect::Suspend),
            TerminalInput::Key(KeyPress::Redraw) => Some(AppEffect::Redraw),
            TerminalInput::Key(key) => self.press(key),
            TerminalInput::Pasted(text) => {
                self.paste(&text);
                None
            }
            // It is drawn anew after each input.
            TerminalInput::Resized => None,
        }
    }

    fn press(&mut self, key: KeyPress) -> Option<AppEffect> {
        match &mut self.mode {
            InputMode::Browse => self.browse(key),
            InputMode::Filter => {
                self.edit(key);
                None
            }
            InputMode::Problems(_) | InputMode::Help => {
                self.read(key);
                None
            }
            InputMode::Ask(question) => match question.answer(key) {
                QuestionOutcome::Stay => None,
                QuestionOutcome::Drop => {
                    self.mode = InputMode::Browse;
                    self.say("nothing was done");
                    None
                }
                QuestionOutcome::Do(order) => {
                    let lock = question.lock.clone();
                    self.mode = InputMode::Browse;
                    self.notice = None;
                    let token = order.seen().and_then(|seen| seen.token).map(|token| format!(", token {token}"));
                    let token = token.unwrap_or_default();
                    self.under_way = Some(format!("{} {lock}{token}: under way; Esc gives it up", order.word()));
                    Some(AppEffect::Do(lock, order))
                }
            },
        }
    }

    /// Takes a pasted text where one is typed; elsewhere it is not a row of keys.
    fn paste(&mut self, text: &str) {
        // Terminals send either as the end of a line.
        let line = text.split(['\r', '\n']).next().unwrap_or_default();
        match &mut self.mode {
            InputMode::Ask(question) => question.append(line),
            InputMode::Filter => self.extend_filter(line),
            _ => {}
        }
    }

    fn browse(&mut self, key: KeyPress) -> Option<AppEffect> {
        self.notice = None;
        match key {
            KeyPress::Letter('q') => return Some(AppEffect::Quit),
            KeyPress::Escape if self.under_way.is_some() => return Some(AppEffect::GiveUp),
            KeyPress::Escape | KeyPress::Backspace => self.leave(),
            KeyPress::Enter if self.lock.is_none() => self.enter(),
            KeyPress::Up | KeyPress::Letter('k') => self.step(-1),
            KeyPress::Down | KeyPress::Letter('j') => self.step(1),
            KeyPress::PageUp => self.step(-self.page()),
            KeyPress::PageDown => self.step(self.page()),
            KeyPress::First => self.step(isize::MIN),
            KeyPress::Last => self.step(isize::MAX),
            KeyPress::Letter('/') if self.lock.is_none() => self.mode = InputMode::Filter,
            KeyPress::Letter('s') if self.lock.is_none() => {
                self.query.sort = self.query.sort.next();
                self.list.clear();
            }
            KeyPress::Letter('p') => self.mode = InputMode::Problems(0),
            KeyPress::Letter('?' | 'h') => self.mode = InputMode::Help,
            KeyPress::Letter(letter @ ('r' | 'f' | 't' | 'b')) => self.ask(letter),
            _ => {}
        }
        None
    }

    fn page(&self) -> isize {
        isize::try_from(self.lines.saturating_sub(1).max(1)).unwrap_or(isize::MAX)
    }

    fn step(&mut self, lines: isize) {
        match self.lock {
            Some(_) => {
                self.queue.step(&keys(&self.sight.queue), lines);
                self.has_left &= self.queue.chosen().is_none();
            }
            None => self.list.step(&names(&self.sight.rows), lines),
        }
    }

    /// Goes back by one: from a queue to the list, then to a list that moves freely, then to one without a filter.
    fn leave(&mut self) {
        if self.lock.take().is_some() {
            self.queue.clear();
            self.has_left = false;
        } else if self.list.chosen().is_some() {
            self.list.clear();
        } else {
            self.query.filter.clear();
        }
    }

    /// Looks into the chosen lock, or the first one on the screen.
    fn enter(&mut self) {
        if self.list.chosen().is_none() {
            self.list.step(&names(&self.sight.rows), 0);
        }
        self.lock = self.list.chosen().cloned();
        self.queue = Cursor::default();
    }

    fn ask(&mut self, letter: char) {
        if self.under_way.is_some() {
            return self.fail("an order is under way: one at a time");
        }
        if self.has_left && matches!(letter, 'r' | 'b') {
            return self.fail("the chosen contender has left: choose another one first, by the arrow keys");
        }
        let (row, chosen) = match &self.lock {
            Some(lock) => (self.sight.lock.clone().unwrap_or_else(|| LockLine::free(lock)), self.chosen_contender()),
            None => match self.list.chosen().and_then(|lock| self.sight.rows.iter().find(|row| row.lock == *lock)) {
                Some(row) => (row.clone(), None),
                None => return self.fail("choose a lock first, by the arrow keys"),
            },
        };
        match Question::new(letter, &row, chosen) {
            Ok(question) => self.mode = InputMode::Ask(Box::new(question)),
            Err(why) => self.fail(&why),
        }
    }

    pub(super) fn chosen_contender(&self) -> Option<&ContenderLine> {
        let key = self.queue.chosen()?;
        self.sight.queue.iter().find(|one| one.key == *key)
    }

    fn edit(&mut self, key: KeyPress) {
        match key {
            KeyPress::Enter => self.mode = InputMode::Browse,
            KeyPress::Escape => {
                self.query.filter.clear();
                self.mode = InputMode::Browse;
            }
            KeyPress::Backspace => _ = self.query.filter.pop(),
            KeyPress::Clear => self.query.filter.clear(),
            KeyPress::Letter(letter) => self.extend_filter(&letter.to_string()),
            _ => {}
        }
        self.list.clear();
    }

    fn extend_filter(&mut self, text: &str) {
        let room = FILTER_MAX.saturating_sub(self.query.filter.chars().count());
        self.query.filter.extend(text.chars().take(room));
    }

    fn read(&mut self, key: KeyPress) {
        match (&mut self.mode, key) {
            (InputMode::Problems(from), KeyPress::Down | KeyPress::Letter('j')) => *from = from.saturating_add(1),
            (InputMode::Problems(from), KeyPress::Up | KeyPress::Letter('k')) => *from = from.saturating_sub(1),
            (InputMode::Problems(from), KeyPress::PageDown) => *from = from.saturating_add(self.lines),
            (InputMode::Problems(from), KeyPress::PageUp) => *from = from.saturating_sub(self.lines),
            (InputMode::Problems(from), KeyPress::First) => *from = 0,
            (InputMode::Problems(_), KeyPress::Letter('p'))
            | (_, KeyPress::Escape | KeyPress::Backspace | KeyPress::Letter('q')) => {
                self.mode = InputMode::Browse;
            }
            (InputMode::Help, _) => self.mode = InputMode::Browse,
            _ => {}
        }
    }

    /// Takes in what came of the order that was under way.
    pub(super) fn done(&mut self, outcome: Result<String, String>) {
        self.under_way = None;
        match outcome {
            Ok(text) => self.say(text.trim_end()),
            Err(text) => self.fail(&text),
        }
    }

    fn say(&mut self, text: &str) {
        self.notice = Some(Notice { text: text.to_owned(), is_failure: false });
    }

    pub(super) fn fail(&mut self, text: &str) {
        self.notice = Some(Notice { text: text.to_owned(), is_failure: true });
    }
}

fn keys(queue: &[ContenderLine]) -> Vec<RowIdentity> {
    queue.iter().map(|one| one.key.clone()).collect()
}

fn names(rows: &[LockLine]) -> Vec<QueueName> {
    rows.iter().map(|row| row.lock.clone()).collect()
}
