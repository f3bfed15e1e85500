//! A database in memory, as an engine: as much of the functions as sessions ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, TestClock};
use lockkeeper_core::{BoxFuture, Ticket};
use lockkeeper_session::{Effect, Failure, FailureKind, Server};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc, watch};

use crate::engine::{Connected, DatabaseEngine, Hint, Intent, NamedLockWait, ServerGreeting, WakeMethod, Wire};
use crate::statement::{AnswerRow, Argument, RowKind, SessionNumber, Statement};

/// What a test makes of the database, and what it sees of it.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) instance: String,
    pub(super) settled: Option<String>,
    /// How long a state that seems to have lost nothing is to be waited for, if it is such a one.
    pub(super) brief: Option<Duration>,
    pub(super) doubts: usize,
    wake_method: Option<WakeMethod>,
    /// Whether no connection can be opened, by the server's place.
    pub(super) down: BTreeMap<usize, FailureKind>,
    /// Whether nothing is executed or answered.
    pub(super) is_stuck: bool,
    /// Whether the server turns away what it is asked.
    pub(super) is_busy: bool,
    /// Whether so many listen that no more may.
    pub(super) is_full: bool,
    /// Whether connections listen as they should.
    pub(super) is_pooled: bool,
    /// Whether its functions are those that say in the answer to a beat nothing of the state of the data.
    pub(super) is_older: bool,
    /// The greatest timeout of sessions, where it is more than any has; 0 if not.
    pub(super) timeout_max_ms: i64,
    pub(super) sessions: BTreeMap<u128, SessionRow>,
    pub(super) contenders: BTreeMap<u128, u128>,
    pub(super) broken: BTreeMap<u128, u128>,
    pub(super) asked: BTreeMap<u128, String>,
    pub(super) pinned: BTreeSet<u128>,
    /// How many stand ahead of each who asks.
    pub(super) ahead: i64,
    listening: BTreeMap<u128, mpsc::Sender<Hint>>,
    /// The functions that were asked, with their arguments.
    pub(super) log: Vec<Statement>,
    open: Vec<watch::Sender<bool>>,
    pub(super) connected: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SessionRow {
    pub(super) epoch: i64,
    pub(super) beat: i64,
    pub(super) timeout_ms: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Database {
    data: Arc<Mutex<Data>>,
    named_locks: Arc<Notify>,
    pub(super) clock: Arc<TestClock>,
}

#[derive(Debug)]
struct MemoryWire {
    database: Database,
    is_over: watch::Sender<bool>,
    hints: mpsc::Sender<Hint>,
}

impl Database {
    pub(super) fn new(wake_method: WakeMethod) -> Self {
        let (instance, settled) = ("one".to_owned(), Some("one".to_owned()));
        let data = Data { instance, settled, wake_method: Some(wake_method), ..Data::default() };
        Self { data: Arc::new(Mutex::new(data)), named_locks: Arc::default(), clock: Arc::new(TestClock::new()) }
    }

    pub(super) fn data(&self) -> MutexGuard<'_, Data> {
        self.data.lock()
    }

    pub(super) fn cut(&self) {
        let open = std::mem::take(&mut self.data().open);
        for is_over in open {
            is_over.send_replace(true);
        }
    }

    pub(super) fn hint(&self, session: SessionNumber, hint: Hint) {
        let hints = self.data().listening.get(&session.0).cloned();
        if let Some(hints) = hints {
            hints.try_send(hint).expect("few hints");
        }
    }

    /// Whether a session is told.
    pub(super) fn tells(&self, session: SessionNumber) -> bool {
        self.data().listening.contains_key(&session.0)
    }

    /// Removes a contender; all who listen are told, and its named lock is free.
    pub(super) fn remove(&self, ticket: Ticket) {
        let listening: Vec<_> = {
            let mut data = self.data();
            data.contenders.remove(&ticket.bits());
            data.listening.values().cloned().collect()
        };
        listening.iter().for_each(|hints| drop(hints.try_send(Hint::Departed(ticket))));
        self.named_locks.notify_waiters();
    }

    pub(super) fn asked(&self, function: &str) -> Vec<Statement> {
        self.data().log.iter().filter(|statement| statement.function == function).cloned().collect()
    }

    pub(super) fn count(&self, function: &str) -> usize {
        self.asked(function).len()
    }

    /// Adds another session, whose owner does nothing.
    pub(super) fn add_session(&self, id: u128, timeout: Duration) {
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap();
        self.data().sessions.insert(id, SessionRow { epoch: 1, beat: 1, timeout_ms });
    }
}

impl DatabaseEngine for Database {
    fn connect(&self, server: &Server, deadline: BootInstant, _: Intent) -> BoxFuture<Result<Connected, Failure>> {
        let mut data = self.data();
        // `h1` is the first.
        let server = server.name[1..].parse::<usize>().expect("a number") - 1;
        data.connected.push(server);
        if let Some(kind) = data.down.get(&server) {
            return Box::pin(std::future::ready(Err(Failure::new(*kind, Effect::None, "down"))));
        }
        if data.is_stuck {
            let clock = self.clock.clone();
            return Box::pin(async move {
                clock.sleep_until(deadline).await;
                Err(Failure::late(Effect::None))
            });
        }
        let (is_over, (tell, hints)) = (watch::Sender::new(false), mpsc::channel(64));
        data.open.push(is_over.clone());
        let greeting =
            ServerGreeting { instance: data.instance.clone(), wake_method: data.wake_method.expect("it is set") };
        let wire = Arc::new(MemoryWire { database: self.clone(), is_over, hints: tell });
        Box::pin(std::future::ready(Ok(Connected { wire, greeting, hints })))
    }
}

impl Wire for MemoryWire {
    fn ask(&self, statement: Statement) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        if self.is_over() {
            return Box::pin(std::future::ready(Err(Failure::broken(Effect::None))));
        }
        let answer = self.database.data().execute(statement);
        let over = self.over();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => {
                    over.await;
                    Err(Failure::broken(Effect::Unknown))
                }
            }
        })
    }

    fn listen(&self, session: SessionNumber) -> BoxFuture<Result<bool, Failure>> {
        let mut data = self.database.data();
        data.log.push(Statement::new("listen", vec![session.into(), Argument::Flag(true)]));
        let is_let = !data.is_full;
        if is_let && !data.is_pooled {
            data.listening.insert(session.0, self.hints.clone());
        }
        Box::pin(std::future::ready(Ok(is_let)))
    }

    fn unlisten(&self, session: SessionNumber) -> BoxFuture<Result<(), Failure>> {
        let mut data = self.database.data();
        data.log.push(Statement::new("listen", vec![session.into(), Argument::Flag(false)]));
        data.listening.remove(&session.0);
        Box::pin(std::future::ready(Ok(())))
    }

    fn await_named_lock(&self, ticket: Ticket, within: Duration) -> BoxFuture<Result<NamedLockWait, Failure>> {
        let database = self.database.clone();
        database.data().log.push(Statement::new("door", vec![ticket.into()]));
        let ends_at = database.clock.now().saturating_add(within);
        Box::pin(async move {
            loop {
                let opens = database.named_locks.notified();
                if !database.data().contenders.contains_key(&ticket.bits()) {
                    return Ok(NamedLockWait::Free);
                }
                tokio::select! {
                    () = opens => {}
                    () = database.clock.sleep_until(ends_at) => return Ok(NamedLockWait::GivenUp),
                }
            }
        })
    }

    fn end(&self) -> watch::Receiver<bool> {
        self.is_over.subscribe()
    }

    fn shut(&self) {
        self.is_over.send_replace(true);
    }
}

fn status(word: &str, number: i64) -> AnswerRow {
    AnswerRow { text: Some(word.to_owned()), number: Some(number), ..AnswerRow::default() }
}

fn of_ticket(what: RowKind, ticket: u128) -> AnswerRow {
    AnswerRow { what: what as i16, ticket: Some(ticket), ..AnswerRow::default() }
}

impl Data {
    /// Executes a statement; `None` if it is never answered.
    fn execute(&mut self, statement: Statement) -> Option<Result<Vec<AnswerRow>, Failure>> {
        self.log.push(statement.clone());
        if self.is_stuck {
            return None;
        }
        if self.is_busy {
            return Some(Err(Failure::new(FailureKind::Busy, Effect::None, "busy")));
        }
        use Argument::{Flag, Id, Ids, Int, OptionalInt, OptionalText, Text};
        Some(Ok(match (statement.function, &statement.arguments[..]) {
            ("greet", [OptionalText(instance)]) => {
                let instance = instance.as_ref().unwrap_or(&self.instance);
                vec![self.state_of(instance)]
            }
            ("settle", [Text(state)]) if *state == self.state(&self.instance) => {
                self.settled = Some(self.instance.clone());
                vec![status("ok", 0)]
            }
            ("settle", [Text(_)]) => vec![status("unsettled", 0)],
            ("doubt", [Text(state)]) => {
                // What is doubted already, is not doubted more.
                if *state == self.state(&self.instance) && self.doubts == 0 {
                    self.doubts += 1;
                }
                vec![status("ok", 0)]
            }
            ("limit", [OptionalInt(Some(timeout_ms)), Flag(false)]) => {
                self.timeout_max_ms = *timeout_ms;
                self.doubts += 1;
                vec![status("ok", 0)]
            }
            ("open", [Id(session), Int(timeout_ms), Text(_), Flag(_)]) => {
                self.sessions.insert(*session, SessionRow { epoch: 1, beat: 1, timeout_ms: *timeout_ms });
                let instance = self.instance.clone();
                vec![self.state_of(&instance)]
            }
            ("resume", [Id(session), Int(epoch), Int(beat), Ids(kept)]) => self.resume(*session, *epoch, *beat, kept),
            ("beat", [Id(session), Int(epoch), Int(beat), Ids(own), Ids(awaited), Int(ring)]) => {
                self.beat((*session, *epoch, *beat), own, awaited, *ring)
            }
            ("reap", [Id(session), Int(epoch), Int(beat)]) => {
                let stands = |row: &SessionRow| row.epoch == *epoch && row.beat == *beat;
                if self.pinned.contains(session) {
                    return Some(Ok(vec![status("pinned", 0)]));
                }
                if !self.sessions.get(session).is_some_and(stands) {
                    return Some(Ok(vec![status("alive", 0)]));
                }
                self.sessions.remove(session);
                self.contenders.retain(|_, owner| owner != session);
                vec![status("removed", 0)]
            }
            ("close", [Id(session)]) => {
                // Two a call, so that pieces are seen.
                let of_it = self.contenders.iter().filter(|(_, owner)| *owner == session).map(|(ticket, _)| *ticket);
                let piece: Vec<_> = of_it.take(2).collect();
                self.contenders.retain(|ticket, _| !piece.contains(ticket));
                let left = self.contenders.values().filter(|owner| *owner == session).count();
                if left == 0 {
                    self.sessions.remove(session);
                }
                vec![status("ok", i64::try_from(left).unwrap())]
            }
            ("rest", [Id(session), Text(_), Int(_), Int(_), Int(far), Int(most)]) => {
                let ahead = self.ahead.min(*most);
                if ahead >= *far {
                    self.listening.remove(session);
                }
                vec![status(if ahead >= *far { "ok" } else { "near" }, ahead)]
            }
            ("missing", [Ids(tickets)]) => {
                std::iter::once(status("ok", 0)).chain(self.missing(tickets, RowKind::Missing)).collect()
            }
            other => panic!("no session asks this: {other:?}"),
        }))
    }

    fn state(&self, instance: &str) -> String {
        format!("{instance}, doubted {} times", self.doubts)
    }

    fn timeout_max_ms(&self) -> i64 {
        self.sessions.values().map(|row| row.timeout_ms).max().unwrap_or(0).max(self.timeout_max_ms)
    }

    fn state_of(&self, instance: &str) -> AnswerRow {
        let greatest = self.timeout_max_ms();
        let brief = self.brief.filter(|_| self.doubts == 0).map(|brief| i64::try_from(brief.as_millis()).unwrap());
        let state = Some(self.state(instance));
        match self.settled.as_deref() == Some(instance) {
            true => AnswerRow { ask: state, ..status("ok", 1) },
            false => AnswerRow { timeout_ms: brief.or(Some(greatest)), ask: state, ..status("unsettled", 1) },
        }
    }

    fn missing(&self, tickets: &[u128], what: RowKind) -> Vec<AnswerRow> {
        let is_gone = |ticket: &&u128| !self.contenders.contains_key(ticket);
        tickets.iter().filter(is_gone).map(|ticket| of_ticket(what, *ticket)).collect()
    }

    fn of_ours(&self, session: u128) -> impl Iterator<Item = AnswerRow> {
        let broken = self.broken.iter().filter(move |(_, owner)| **owner == session);
        let asked = self.asked.iter().filter(move |(ticket, _)| self.contenders.get(ticket) == Some(&session));
        let asked =
            asked.map(|(ticket, ask)| AnswerRow { ask: Some(ask.clone()), ..of_ticket(RowKind::Asked, *ticket) });
        broken.map(|(ticket, _)| of_ticket(RowKind::Broken, *ticket)).chain(asked)
    }

    fn resume(&mut self, session: u128, epoch: i64, beat: i64, kept: &[u128]) -> Vec<AnswerRow> {
        match self.sessions.get_mut(&session) {
            None => return vec![status("gone", 0)],
            Some(row) if row.epoch >= epoch || row.beat >= beat => return vec![status("stale", 0)],
            Some(row) => (row.epoch, row.beat) = (epoch, beat),
        }
        self.contenders.retain(|ticket, owner| *owner != session || kept.contains(ticket));
        let standing = kept.iter().filter(|ticket| self.contenders.contains_key(ticket));
        let standing = standing.map(|ticket| of_ticket(RowKind::Stands, *ticket));
        std::iter::once(status("ok", 0)).chain(standing).chain(self.of_ours(session)).collect()
    }

    fn beat(&mut self, of: (u128, i64, i64), own: &[u128], awaited: &[u128], ring: i64) -> Vec<AnswerRow> {
        let (session, epoch, beat) = of;
        match self.sessions.get_mut(&session) {
            None => return vec![status("gone", 0)],
            Some(row) if row.epoch != epoch || row.beat >= beat => return vec![status("stale", 0)],
            Some(row) => row.beat = beat,
        }
        let listens = i64::from(self.listening.contains_key(&session));
        let settled = self.settled.as_ref() == Some(&self.instance);
        let ask = Some(if settled { self.state(&self.instance) } else { String::new() }).filter(|_| !self.is_older);
        let timeout_ms = Some(self.timeout_max_ms()).filter(|_| settled && !self.is_older);
        let mut rows = vec![AnswerRow { epoch: Some(listens), ask, timeout_ms, ..status("ok", 4_711) }];
        rows.extend(self.missing(own, RowKind::Missing));
        rows.extend(self.missing(awaited, RowKind::Missing));
        rows.extend(self.of_ours(session));
        let owners = awaited.iter().filter_map(|ticket| Some((*ticket, *self.contenders.get(ticket)?)));
        rows.extend(
            owners
                .clone()
                .map(|(ticket, owner)| AnswerRow { session: Some(owner), ..of_ticket(RowKind::Owner, ticket) }),
        );
        let owners = owners.map(|(_, owner)| owner);
        let behind = self.sessions.range(session + 1..).chain(self.sessions.range(..session)).map(|(id, _)| *id);
        let shown: BTreeSet<u128> = owners.chain(behind.take(usize::try_from(ring).unwrap())).collect();
        for id in shown.into_iter().filter(|id| *id != session) {
            if let Some(row) = self.sessions.get(&id) {
                rows.push(AnswerRow {
                    what: RowKind::Beat as i16,
                    session: Some(id),
                    number: Some(row.beat),
                    epoch: Some(row.epoch),
                    timeout_ms: Some(row.timeout_ms),
                    ..AnswerRow::default()
                });
            }
        }
        rows
    }
}
