//! The state of the screen, and the effect of a key. Pure: what was seen and keys come in, and what is to be done goes
//! out.

use lockkeeper::QueueName;

use super::contender::{Contender, Key as ContenderKey};
use super::cursor::Cursor;
use super::input::{Input, Key};
use super::query::Query;
use super::question::{Answer, Question};
use super::sight::{Row, Sight};
use crate::ordering::Order;

/// How many characters a filter has at most: no name is longer.
const FILTER_MAX: usize = 200;

/// How many lines a page is moved by before the window's size is known.
const PAGE_LINES: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) service: String,
    pub(super) sight: Sight,
    pub(super) query: Query,
    pub(super) list: Cursor<QueueName>,
    /// The lock whose queue is looked into.
    pub(super) lock: Option<QueueName>,
    pub(super) queue: Cursor<ContenderKey>,
    /// Whether the contender that was chosen has left, and no other has been chosen since.
    has_left: bool,
    pub(super) mode: Mode,
    /// What came of the last key or order.
    pub(super) notice: Option<Notice>,
    /// What is said of the order that is being carried out.
    pub(super) under_way: Option<String>,
    /// How many lines of rows fit, as they were drawn last.
    pub(super) lines: usize,
}

/// What keys are for.
#[derive(Clone, Debug)]
pub(super) enum Mode {
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
pub(super) enum Effect {
    /// The end, as it was asked for.
    Quit,
    /// The end, as by an interrupt.
    Interrupt,
    Suspend,
    Redraw,
    Do(QueueName, Order),
    /// The order that is under way is not waited for any more.
    GiveUp,
}

impl App {
    pub(super) fn new(service: String) -> Self {
        Self {
            service,
            sight: Sight::default(),
            query: Query::default(),
            list: Cursor::default(),
            lock: None,
            queue: Cursor::default(),
            has_left: false,
            mode: Mode::Browse,
            notice: None,
            under_way: None,
            lines: PAGE_LINES,
        }
    }

    /// Takes in what is known now. The chosen lock and the chosen contender stay chosen.
    pub(super) fn see(&mut self, mut sight: Sight) {
        let query = &self.query;
        let chosen = sight.chosen.take();
        let unlisted = |lock: &QueueName| match chosen {
            Some(row) if row.lock == *lock => Some(row),
            _ => query.asks_for(lock).then(|| Row::free(lock)),
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
    pub(super) fn handle(&mut self, input: Input) -> Option<Effect> {
        match input {
            Input::Key(Key::Interrupt) => Some(Effect::Interrupt),
            Input::Key(Key::Suspend) => Some(Effect::Suspend),
            Input::Key(Key::Redraw) => Some(Effect::Redraw),
            Input::Key(key) => self.press(key),
            Input::Pasted(text) => {
                self.paste(&text);
                None
            }
            // It is drawn anew after each input.
            Input::Resized => None,
        }
    }

    fn press(&mut self, key: Key) -> Option<Effect> {
        match &mut self.mode {
            Mode::Browse => self.browse(key),
            Mode::Filter => {
                self.edit(key);
                None
            }
            Mode::Problems(_) | Mode::Help => {
                self.read(key);
                None
            }
            Mode::Ask(question) => match question.answer(key) {
                Answer::Stay => None,
                Answer::Drop => {
                    self.mode = Mode::Browse;
                    self.say("nothing was done");
                    None
                }
                Answer::Do(order) => {
                    let lock = question.lock.clone();
                    self.mode = Mode::Browse;
                    self.notice = None;
                    let token = order.seen().and_then(|seen| seen.token).map(|token| format!(", token {token}"));
                    let token = token.unwrap_or_default();
                    self.under_way = Some(format!("{} {lock}{token}: under way; Esc gives it up", order.word()));
                    Some(Effect::Do(lock, order))
                }
            },
        }
    }

    /// Takes a pasted text where one is typed; elsewhere it is not a row of keys.
    fn paste(&mut self, text: &str) {
        // Terminals send either as the end of a line.
        let line = text.split(['\r', '\n']).next().unwrap_or_default();
        match &mut self.mode {
            Mode::Ask(question) => question.append(line),
            Mode::Filter => self.extend_filter(line),
            _ => {}
        }
    }

    fn browse(&mut self, key: Key) -> Option<Effect> {
        self.notice = None;
        match key {
            Key::Letter('q') => return Some(Effect::Quit),
            Key::Escape if self.under_way.is_some() => return Some(Effect::GiveUp),
            Key::Escape | Key::Backspace => self.leave(),
            Key::Enter if self.lock.is_none() => self.enter(),
            Key::Up | Key::Letter('k') => self.step(-1),
            Key::Down | Key::Letter('j') => self.step(1),
            Key::PageUp => self.step(-self.page()),
            Key::PageDown => self.step(self.page()),
            Key::First => self.step(isize::MIN),
            Key::Last => self.step(isize::MAX),
            Key::Letter('/') if self.lock.is_none() => self.mode = Mode::Filter,
            Key::Letter('s') if self.lock.is_none() => {
                self.query.sort = self.query.sort.next();
                self.list.clear();
            }
            Key::Letter('p') => self.mode = Mode::Problems(0),
            Key::Letter('?' | 'h') => self.mode = Mode::Help,
            Key::Letter(letter @ ('r' | 'f' | 't' | 'b')) => self.ask(letter),
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
            Some(lock) => (self.sight.lock.clone().unwrap_or_else(|| Row::free(lock)), self.chosen_contender()),
            None => match self.list.chosen().and_then(|lock| self.sight.rows.iter().find(|row| row.lock == *lock)) {
                Some(row) => (row.clone(), None),
                None => return self.fail("choose a lock first, by the arrow keys"),
            },
        };
        match Question::new(letter, &row, chosen) {
            Ok(question) => self.mode = Mode::Ask(Box::new(question)),
            Err(why) => self.fail(&why),
        }
    }

    pub(super) fn chosen_contender(&self) -> Option<&Contender> {
        let key = self.queue.chosen()?;
        self.sight.queue.iter().find(|one| one.key == *key)
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Browse,
            Key::Escape => {
                self.query.filter.clear();
                self.mode = Mode::Browse;
            }
            Key::Backspace => _ = self.query.filter.pop(),
            Key::Clear => self.query.filter.clear(),
            Key::Letter(letter) => self.extend_filter(&letter.to_string()),
            _ => {}
        }
        self.list.clear();
    }

    fn extend_filter(&mut self, text: &str) {
        let room = FILTER_MAX.saturating_sub(self.query.filter.chars().count());
        self.query.filter.extend(text.chars().take(room));
    }

    fn read(&mut self, key: Key) {
        match (&mut self.mode, key) {
            (Mode::Problems(from), Key::Down | Key::Letter('j')) => *from = from.saturating_add(1),
            (Mode::Problems(from), Key::Up | Key::Letter('k')) => *from = from.saturating_sub(1),
            (Mode::Problems(from), Key::PageDown) => *from = from.saturating_add(self.lines),
            (Mode::Problems(from), Key::PageUp) => *from = from.saturating_sub(self.lines),
            (Mode::Problems(from), Key::First) => *from = 0,
            (Mode::Problems(_), Key::Letter('p')) | (_, Key::Escape | Key::Backspace | Key::Letter('q')) => {
                self.mode = Mode::Browse;
            }
            (Mode::Help, _) => self.mode = Mode::Browse,
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

fn keys(queue: &[Contender]) -> Vec<ContenderKey> {
    queue.iter().map(|one| one.key.clone()).collect()
}

fn names(rows: &[Row]) -> Vec<QueueName> {
    rows.iter().map(|row| row.lock.clone()).collect()
}
