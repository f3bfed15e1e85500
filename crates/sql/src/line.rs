//! The statements of a connection that are not answered yet: which of them is sent next, and which may still be asked
//! again. Pure.
//!
//! So many are sent that the server never waits for the next one, if it takes several; the others wait here. So a join
//! that is withdrawn meanwhile is never sent, and many places that are given up in a row go in one statement.
//!
//! What is asked again comes behind all that was asked meanwhile. So a join that was given up may not be, once its
//! withdrawal was asked: it would take a place that its client takes for given up.

use std::collections::{HashMap, VecDeque};

use lockkeeper_session::Failure;

use crate::engine::{STATEMENTS_MAX, too_many};
use crate::statement::{Argument, LEAVES_MAX, Statement, leave_all, place};

/// The most statements that are sent and not answered: a round trip of 10 ms to a server that executes one in 0.2 ms
/// leaves none of its time unused.
const UNDER_WAY_MAX: usize = 64;

/// Among which statements the order matters.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum OrderTopic {
    /// Those that change one queue.
    Queue(String, i64),
    /// Those that change the session itself.
    Session,
}

/// Which statement is the last of a topic, and how many of it are not answered.
#[derive(Debug, Default)]
struct TopicCount {
    number: u64,
    count: usize,
}

/// The statements that are not answered yet, each with what its answer is told to.
#[derive(Debug)]
pub(super) struct StatementQueue<T> {
    next: u64,
    count: usize,
    latest: HashMap<OrderTopic, TopicCount>,
    waiting: VecDeque<(Statement, AskedStatement<T>)>,
    under_way: usize,
}

#[derive(Debug)]
pub(super) struct AskedStatement<T> {
    pub(super) turn: StatementTurn,
    pub(super) tell: T,
    /// The ticket that it gives up, where one statement gives up many.
    pub(super) ticket: Option<u128>,
}

/// What is to be done next.
#[derive(Debug)]
pub(super) enum QueueStep<T> {
    /// This statement is to be sent, for all of these.
    Send(Statement, Vec<AskedStatement<T>>),
    /// This one is not wanted any more.
    Unwanted(AskedStatement<T>),
}

impl<T> Default for StatementQueue<T> {
    fn default() -> Self {
        Self { next: 0, count: 0, latest: HashMap::new(), waiting: VecDeque::new(), under_way: 0 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct StatementTurn {
    number: u64,
    /// `None` of one that changes nothing.
    topic: Option<OrderTopic>,
}

impl<T> StatementQueue<T> {
    /// Has a statement wait for its turn. What is urgent waits for none: a beat says nothing that another statement
    /// changes, but that the session lives, and would be late behind joins that each wait for a row of another
    /// transaction.
    pub(super) fn ask(&mut self, statement: Statement, tell: T) -> Result<(), Failure> {
        let asked = AskedStatement { turn: self.enter(&statement)?, tell, ticket: None };
        match is_urgent(&statement) {
            true => self.waiting.push_front((statement, asked)),
            false => self.waiting.push_back((statement, asked)),
        }
        Ok(())
    }

    /// Says what is to be done next, if anything is to be done before another answer.
    pub(super) fn next(&mut self) -> Option<QueueStep<T>> {
        if self.under_way >= UNDER_WAY_MAX && !self.waiting.front().is_some_and(|(next, _)| is_urgent(next)) {
            return None;
        }
        let (statement, first) = self.waiting.pop_front()?;
        if !statement.is_wanted() {
            return Some(QueueStep::Unwanted(first));
        }
        self.under_way += 1;
        let Some((session, ticket)) = place(&statement) else {
            return Some(QueueStep::Send(statement, vec![first]));
        };
        let mut leaves = vec![AskedStatement { ticket: Some(ticket), ..first }];
        while leaves.len() < LEAVES_MAX {
            let next = self.waiting.front().and_then(|(next, _)| place(next));
            let Some((_, ticket)) = next.filter(|(of, _)| *of == session) else { break };
            leaves.extend(self.waiting.pop_front().map(|(_, next)| AskedStatement { ticket: Some(ticket), ..next }));
        }
        if leaves.len() == 1 {
            leaves[0].ticket = None;
            return Some(QueueStep::Send(statement, leaves));
        }
        let tickets = leaves.iter().filter_map(|leave| leave.ticket).collect();
        Some(QueueStep::Send(leave_all(session, tickets), leaves))
    }

    /// Whether a place is given up next.
    pub(super) fn gives_up_next(&self) -> bool {
        self.waiting.front().is_some_and(|(next, _)| place(next).is_some())
    }

    /// Takes the next one out if it calls one of these, to be sent together with the one before.
    pub(super) fn next_of(&mut self, functions: &[&str]) -> Option<(Statement, Vec<AskedStatement<T>>)> {
        self.waiting.front().filter(|(next, _)| functions.contains(&next.function))?;
        let (statement, asked) = self.waiting.pop_front()?;
        self.under_way += 1;
        Some((statement, vec![asked]))
    }

    /// Notes that a statement which was sent for these is answered, or never will be.
    pub(super) fn answered(&mut self, asked: &[AskedStatement<T>]) {
        self.under_way -= 1;
        asked.iter().for_each(|asked| self.leave(&asked.turn));
    }

    /// Gives up all that waits.
    pub(super) fn give_up(&mut self) -> Vec<AskedStatement<T>> {
        let given_up: Vec<_> = std::mem::take(&mut self.waiting).into_iter().map(|(_, asked)| asked).collect();
        given_up.iter().for_each(|asked| self.leave(&asked.turn));
        given_up
    }

    /// Notes that a statement is asked.
    fn enter(&mut self, statement: &Statement) -> Result<StatementTurn, Failure> {
        if self.count >= STATEMENTS_MAX && !is_urgent(statement) {
            return Err(too_many());
        }
        let turn = StatementTurn { number: self.next, topic: topic(statement) };
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
    pub(super) fn is_overtaken(&self, turn: &StatementTurn) -> bool {
        let latest = turn.topic.as_ref().and_then(|topic| self.latest.get(topic));
        latest.is_some_and(|latest| latest.number != turn.number)
    }

    /// Notes that a statement is answered, or never will be.
    pub(super) fn leave(&mut self, turn: &StatementTurn) {
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

/// What ends a wait of the server for a named lock, instead of a function of ours.
pub(super) const KILL: &str = "KILL QUERY";

/// Whether it goes before all others: there are few of its kind at a time.
fn is_urgent(statement: &Statement) -> bool {
    matches!(statement.function, "beat" | KILL)
}

/// Says to which others the order of a statement matters.
fn topic(statement: &Statement) -> Option<OrderTopic> {
    let arguments = &statement.arguments;
    let name_at = match statement.function {
        "look" | "missing" | "value" | "inspect" | "queues" => return None,
        "request" => 0,
        "leave" | "unwatch" => 1,
        "join" | "watch" | "set_value" => 2,
        _ => return Some(OrderTopic::Session),
    };
    match (arguments.get(name_at), arguments.get(name_at + 1)) {
        (Some(Argument::Text(name)), Some(Argument::Int(part))) => Some(OrderTopic::Queue(name.clone(), *part)),
        _ => Some(OrderTopic::Session),
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

    fn leave(name: &str, ticket: u128) -> Statement {
        let name = Argument::Text(name.to_owned());
        Statement::new("leave", vec![Argument::Id(1), name, Argument::Int(0), Argument::Id(ticket)])
    }

    /// What is sent until there is nothing to be done, each statement by its function, for so many.
    fn sent(line: &mut StatementQueue<()>) -> Vec<(&'static str, usize)> {
        std::iter::from_fn(|| line.next())
            .map(|next| match next {
                QueueStep::Send(statement, asked) => (statement.function, asked.len()),
                QueueStep::Unwanted(_) => ("", 1),
            })
            .collect()
    }

    #[test]
    fn a_statement_is_overtaken_by_a_later_one_about_the_same_queue_only() {
        let mut line = StatementQueue::<()>::default();
        let joined = line.enter(&join("a")).unwrap();
        line.enter(&leave("b", 1)).unwrap();
        line.enter(&Statement::new("missing", Vec::new())).unwrap();
        assert!(!line.is_overtaken(&joined));
        let left = line.enter(&leave("a", 2)).unwrap();
        assert!(line.is_overtaken(&joined));
        assert!(!line.is_overtaken(&left));
        line.leave(&left);
        assert!(line.is_overtaken(&joined), "it was asked, and took effect");
        line.leave(&joined);
        assert!(!line.latest.contains_key(&OrderTopic::Queue("a".to_owned(), 0)));
    }

    #[test]
    fn places_that_are_given_up_in_a_row_go_in_one_statement_and_joins_that_are_withdrawn_in_none() {
        let mut line = StatementQueue::default();
        for _ in 0..UNDER_WAY_MAX {
            line.ask(join("a"), ()).unwrap();
        }
        assert_eq!(sent(&mut line).len(), UNDER_WAY_MAX);
        line.ask(join("a").while_wanted(|| false), ()).unwrap();
        line.ask(leave("a", 1), ()).unwrap();
        line.ask(join("a").while_wanted(|| true), ()).unwrap();
        for ticket in 2..=600 {
            line.ask(leave(if ticket % 2 == 0 { "a" } else { "b" }, ticket), ()).unwrap();
        }
        line.ask(Statement::new("beat", Vec::new()), ()).unwrap();
        assert_eq!(sent(&mut line), [("beat", 1)]);
        (0..=UNDER_WAY_MAX).for_each(|_| line.answered(&[]));
        let leaves = |count| ("leave_all", count);
        let expected = [("", 1), ("leave", 1), ("join", 1), leaves(256), leaves(256), leaves(87)];
        assert_eq!(sent(&mut line), expected);
    }

    #[test]
    fn what_goes_together_with_a_statement_is_taken_out_only_if_it_is_the_next_one() {
        let mut line = StatementQueue::default();
        line.ask(leave("a", 1), ()).unwrap();
        line.ask(Statement::new("close", Vec::new()), ()).unwrap();
        assert!(line.gives_up_next() && line.next_of(&["open", "close"]).is_none());
        line.ask(Statement::new(KILL, vec![Argument::Int(7)]), ()).unwrap();
        assert!(!line.gives_up_next(), "what is urgent goes before");
        assert!(matches!(line.next(), Some(QueueStep::Send(Statement { function: KILL, .. }, _))));
        assert!(matches!(line.next(), Some(QueueStep::Send(Statement { function: "leave", .. }, _))));
        let (together, asked) = line.next_of(&["open", "close"]).unwrap();
        assert_eq!((together.function, asked.len()), ("close", 1));
        (0..3).for_each(|_| line.answered(&[]));
        assert_eq!(line.under_way, 0);
    }

    #[test]
    fn there_is_a_limit_to_all_but_what_is_urgent() {
        let mut line = StatementQueue::<()> { count: STATEMENTS_MAX, ..StatementQueue::default() };
        assert_eq!(line.enter(&leave("a", 1)).expect_err("it is full").kind, FailureKind::Limit);
        line.enter(&Statement::new("beat", Vec::new())).expect("a beat is not refused");
    }
}
