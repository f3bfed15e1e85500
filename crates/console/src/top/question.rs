//! The question before an order: what it does, to whom, and what has to be typed for it.

use std::time::Duration;

use lockkeeper::{FencingToken, LockKind, QueueName};

use super::contender::{ContenderLine, QueueRole};
use super::input::KeyPress;
use super::sight::LockLine;
use crate::args::{FreezableKind, reason};
use crate::ordering::OperatorOrder;

/// How long a freeze waits until those who hold the lock have given it back, unless it is given up before: as long as
/// an operator may look at the screen for it.
const FREEZE_WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// How many characters are typed at most: no reason is longer.
pub(super) const TYPED_MAX: usize = 500;

/// A question that waits for its answer. It keeps what was seen when it was asked: the order meets that and nothing
/// else.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) lock: QueueName,
    ask: QuestionKind,
    pub(super) typed: String,
    /// What was wrong with the last answer.
    pub(super) refusal: Option<String>,
}

#[derive(Clone, Debug)]
enum QuestionKind {
    Revoke(ContenderLine),
    Break(ContenderLine, FencingToken),
    /// As what a lock is used that nothing uses now.
    Kind,
    /// With those who hold it, and as what it is used if nothing in its queue tells.
    Freeze(String, Option<LockKind>),
    Thaw(ContenderLine),
}

/// What an answer leads to.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum QuestionOutcome {
    Stay,
    Drop,
    Do(OperatorOrder),
}

impl Question {
    /// Asks for an order by its key; of a lock's contenders it is for the one that is chosen, or for the only one that
    /// it can be for. Says why there is nothing to ask.
    pub(super) fn new(letter: char, row: &LockLine, chosen: Option<&ContenderLine>) -> Result<Self, String> {
        let ask = match letter {
            'r' => QuestionKind::Revoke(holder(row, chosen)?),
            'b' => {
                let holder = holder(row, chosen)?;
                let token = holder.token.ok_or_else(|| {
                    format!(
                        "the service shows no token of {}, and only a holder with a token can be broken",
                        holder.who
                    )
                })?;
                QuestionKind::Break(holder, token)
            }
            'f' => match &row.freezer {
                Some(_) => return Err(format!("{} is frozen already", row.lock)),
                None if row.kind.is_empty() => QuestionKind::Kind,
                None => QuestionKind::Freeze(row.holders.clone(), None),
            },
            _ => {
                let freezes = chosen.filter(|chosen| chosen.state == QueueRole::Freezes);
                let freezer = freezes.or(row.freezer.as_ref()).cloned();
                QuestionKind::Thaw(freezer.ok_or_else(|| format!("{} is not frozen", row.lock))?)
            }
        };
        Ok(Self { lock: row.lock.clone(), ask, typed: String::new(), refusal: None })
    }

    pub(super) const fn title(&self) -> &'static str {
        match self.ask {
            QuestionKind::Revoke(_) => "Revoke",
            QuestionKind::Break(..) => "Break",
            QuestionKind::Kind | QuestionKind::Freeze(..) => "Freeze",
            QuestionKind::Thaw(_) => "Thaw",
        }
    }

    /// Says to whom it is done, as names and values.
    pub(super) fn seen(&self) -> Vec<(&'static str, String)> {
        let mut seen = vec![("lock", self.lock.as_str().to_owned())];
        let contender = match &self.ask {
            QuestionKind::Revoke(one) | QuestionKind::Break(one, _) | QuestionKind::Thaw(one) => one,
            QuestionKind::Kind => return seen,
            QuestionKind::Freeze(holders, _) => {
                let holders = if holders.is_empty() { "nothing".to_owned() } else { holders.clone() };
                seen.push(("held by", holders));
                return seen;
            }
        };
        seen.push((contender.state.as_str(), contender.who.clone()));
        seen.extend(contender.details.first().map(|id| ("", id.clone())));
        let token = contender.token.map_or_else(|| "not shown".to_owned(), |token| token.to_string());
        seen.push(("token", token));
        seen
    }

    pub(super) const fn warning(&self) -> &'static str {
        match self.ask {
            QuestionKind::Revoke(_) => {
                "Asks this holder to give the lock up. A `lockkeeper run` ends its command for it."
            }
            QuestionKind::Break(..) => {
                "Takes the lock away. The next in line has it at once, while what this holder runs may go on for a \
                 moment. Better ask first: r."
            }
            QuestionKind::Kind => {
                "Nothing in its queue tells as what it is used. Clients that use it as another kind fail while it is \
                 frozen, and do not wait."
            }
            QuestionKind::Freeze(..) => {
                "Keeps all contenders out until it is thawed, also after this program has ended. It waits until those \
                 who hold the lock have given it back."
            }
            QuestionKind::Thaw(_) => "Lets contenders take the lock again.",
        }
    }

    /// Says what has to be typed, if it is more than a key.
    pub(super) const fn wants(&self) -> Option<&'static str> {
        match self.ask {
            QuestionKind::Revoke(_) | QuestionKind::Thaw(_) | QuestionKind::Kind => None,
            QuestionKind::Break(..) => Some("type the token"),
            QuestionKind::Freeze(..) => Some("why"),
        }
    }

    /// Says which keys answer it, if nothing is typed.
    pub(super) const fn keys(&self) -> &'static str {
        match self.ask {
            QuestionKind::Kind => "m mutex r rwlock s semaphore e election; Esc does nothing",
            _ => "y does it; n or Esc does nothing",
        }
    }

    pub(super) fn answer(&mut self, key: KeyPress) -> QuestionOutcome {
        if key == KeyPress::Escape {
            return QuestionOutcome::Drop;
        }
        if matches!(self.ask, QuestionKind::Kind) {
            let kind = match key {
                KeyPress::Letter('m' | 'M') => FreezableKind::Mutex,
                KeyPress::Letter('r' | 'R') => FreezableKind::Rwlock,
                KeyPress::Letter('s' | 'S') => FreezableKind::Semaphore,
                KeyPress::Letter('e' | 'E') => FreezableKind::Election,
                _ => return QuestionOutcome::Stay,
            };
            self.ask = QuestionKind::Freeze(String::new(), Some(kind.of_lock()));
            return QuestionOutcome::Stay;
        }
        if self.wants().is_none() {
            return match key {
                KeyPress::Letter('y' | 'Y') => self.give(),
                // A key that was meant for the list does nothing by itself.
                KeyPress::Letter('n' | 'N' | 'q') => QuestionOutcome::Drop,
                _ => QuestionOutcome::Stay,
            };
        }
        self.refusal = None;
        match key {
            KeyPress::Enter => return self.give(),
            KeyPress::Letter(letter) => self.append(&letter.to_string()),
            KeyPress::Backspace => _ = self.typed.pop(),
            KeyPress::Clear => self.typed.clear(),
            _ => {}
        }
        QuestionOutcome::Stay
    }

    /// Appends what was typed or pasted, as far as there is room.
    pub(super) fn append(&mut self, text: &str) {
        if self.wants().is_some() {
            let room = TYPED_MAX.saturating_sub(self.typed.chars().count());
            self.typed.extend(text.chars().take(room));
        }
    }

    fn give(&mut self) -> QuestionOutcome {
        let order = match &self.ask {
            QuestionKind::Revoke(holder) => OperatorOrder::Revoke { holder: holder.seen(), reason: None },
            QuestionKind::Thaw(freezer) => OperatorOrder::Thaw { freezer: freezer.seen() },
            QuestionKind::Break(holder, token) if self.typed.trim() == token.to_string() => {
                OperatorOrder::Break { holder: holder.seen() }
            }
            QuestionKind::Break(..) => {
                self.refusal = Some("that is not its token; nothing was done".to_owned());
                return QuestionOutcome::Stay;
            }
            QuestionKind::Kind => return QuestionOutcome::Stay,
            QuestionKind::Freeze(_, kind) => match reason(&self.typed) {
                Ok(reason) => OperatorOrder::Freeze { reason, wait: FREEZE_WAIT_MAX, kind: *kind },
                Err(what) => {
                    self.refusal = Some(format!("a reason is needed, for the waiters: {what}"));
                    return QuestionOutcome::Stay;
                }
            },
        };
        QuestionOutcome::Do(order)
    }
}

/// The holder that an order is for.
fn holder(row: &LockLine, chosen: Option<&ContenderLine>) -> Result<ContenderLine, String> {
    match (chosen, row.holding.as_slice()) {
        (Some(chosen), _) if chosen.state == QueueRole::Holds => Ok(chosen.clone()),
        (Some(chosen), _) => Err(format!("{} does not hold {}: choose a holder", chosen.who, row.lock)),
        (None, [holder]) => Ok(holder.clone()),
        (None, []) => Err(format!("{} has no holder", row.lock)),
        (None, _) => Err(format!("{} has several holders: enter, and choose one", row.lock)),
    }
}
