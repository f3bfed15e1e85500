//! The statements of a connection that are not answered yet, and which of them may still be asked again. Pure.
//!
//! What is asked again comes behind all that was asked meanwhile. So a join that was given up may not be, once its
//! withdrawal was asked: it would take a place that its client takes for given up.

use std::collections::HashMap;

use lockkeeper_session::Failure;

use crate::engine::{STATEMENTS_MAX, too_many};
use crate::statement::{Argument, Statement};

/// Among which statements the order matters.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Topic {
    /// Those that change one queue.
    Queue(String, i64),
    /// Those that change the session itself.
    Session,
}

/// Which statement is the last of a topic, and how many of it are not answered.
#[derive(Debug, Default)]
struct Latest {
    number: u64,
    count: usize,
}

/// The statements that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Line {
    next: u64,
    count: usize,
    latest: HashMap<Topic, Latest>,
}

/// A statement's place among them.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    number: u64,
    /// `None` of one that changes nothing.
    topic: Option<Topic>,
}

impl Line {
    /// Notes that a statement is asked.
    pub(super) fn enter(&mut self, statement: &Statement) -> Result<Turn, Failure> {
        if self.count == STATEMENTS_MAX {
            return Err(too_many());
        }
        let turn = Turn { number: self.next, topic: topic(statement) };
        self.next += 1;
        self.count += 1;
        if let Some(topic) = &turn.topic {
            let latest = self.latest.entry(topic.clone()).or_default();
            latest.number = turn.number;
            latest.count += 1;
        }
        Ok(turn)
    }

    /// Whether another of its topic was asked after it.
    pub(super) fn is_overtaken(&self, turn: &Turn) -> bool {
        let latest = turn.topic.as_ref().and_then(|topic| self.latest.get(topic));
        latest.is_some_and(|latest| latest.number != turn.number)
    }

    /// Notes that a statement is answered, or never will be.
    pub(super) fn leave(&mut self, turn: &Turn) {
        self.count -= 1;
        let Some(topic) = &turn.topic else { return };
        if let Some(latest) = self.latest.get_mut(topic) {
            latest.count -= 1;
            if latest.count == 0 {
                self.latest.remove(topic);
            }
        }
    }
}

/// Says to which others the order of a statement matters.
fn topic(statement: &Statement) -> Option<Topic> {
    let arguments = &statement.arguments;
    let name_at = match statement.function {
        "look" | "missing" | "value" | "inspect" | "queues" => return None,
        "request" => 0,
        "leave" | "unwatch" => 1,
        "join" | "watch" | "set_value" => 2,
        _ => return Some(Topic::Session),
    };
    match (arguments.get(name_at), arguments.get(name_at + 1)) {
        (Some(Argument::Text(name)), Some(Argument::Int(part))) => Some(Topic::Queue(name.clone(), *part)),
        _ => Some(Topic::Session),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_session::FailureKind;

    use super::*;

    fn join(name: &str) -> Statement {
        let name = Argument::Text(name.to_owned());
        Statement::new("join", vec![Argument::Id(1), Argument::Int(1), name, Argument::Int(0)])
    }

    fn leave(name: &str) -> Statement {
        Statement::new("leave", vec![Argument::Id(1), Argument::Text(name.to_owned()), Argument::Int(0)])
    }

    #[test]
    fn a_statement_is_overtaken_by_a_later_one_about_the_same_queue_only() {
        let mut line = Line::default();
        let joined = line.enter(&join("a")).unwrap();
        line.enter(&leave("b")).unwrap();
        line.enter(&Statement::new("missing", Vec::new())).unwrap();
        assert!(!line.is_overtaken(&joined));
        let left = line.enter(&leave("a")).unwrap();
        assert!(line.is_overtaken(&joined));
        assert!(!line.is_overtaken(&left));
        line.leave(&left);
        assert!(line.is_overtaken(&joined), "it was asked, and took effect");
        line.leave(&joined);
        assert!(!line.latest.contains_key(&Topic::Queue("a".to_owned(), 0)));
    }

    #[test]
    fn there_is_a_limit() {
        let mut line = Line { count: STATEMENTS_MAX, ..Line::default() };
        assert_eq!(line.enter(&leave("a")).expect_err("it is full").kind, FailureKind::Limit);
    }
}
