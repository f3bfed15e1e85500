//! A session on a connection that is only its own, calls of functions, and what they answer.

use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{BoxFuture, Ticket};
use lockkeeper_session::Failure;
use tokio::sync::mpsc;

use super::server::connect;
use crate::engine::{Connected, Hint, ServerGreeting, Wire};
use crate::statement::{AnswerRow, Argument, RowKind, SessionNumber, Statement, word};

pub(super) struct Client {
    pub(super) wire: Arc<dyn Wire>,
    pub(super) greeting: ServerGreeting,
    pub(super) hints: mpsc::Receiver<Hint>,
    pub(super) session: SessionNumber,
}

impl Client {
    /// Connects and opens a session with this number.
    pub(super) async fn open(url: &str, session: u128) -> Self {
        Self::begin(connect(url).await.expect("a connection"), session).await
    }

    /// Opens a session with this number over a connection.
    pub(super) async fn begin(connected: Connected, session: u128) -> Self {
        let client = Self::of(connected, session);
        client.ok("greet", vec![Argument::OptionalText(Some(client.greeting.instance.clone()))]).await;
        client.ok("open", open(session, 10_000)).await;
        client
    }

    pub(super) async fn connect(url: &str, session: u128) -> Self {
        Self::of(connect(url).await.expect("a connection"), session)
    }

    fn of(connected: Connected, session: u128) -> Self {
        let Connected { wire, greeting, hints } = connected;
        Self { wire, greeting, hints, session: SessionNumber(session) }
    }

    pub(super) fn call(
        &self,
        function: &'static str,
        arguments: Vec<Argument>,
    ) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        self.wire.ask(Statement::new(function, arguments))
    }

    pub(super) async fn rows(&self, function: &'static str, arguments: Vec<Argument>) -> Vec<AnswerRow> {
        soon(function, self.call(function, arguments)).await.expect(function)
    }

    /// Calls a function, and returns the word and the rows behind it.
    pub(super) async fn told(&self, function: &'static str, arguments: Vec<Argument>) -> (String, Vec<AnswerRow>) {
        read(self.rows(function, arguments).await)
    }

    pub(super) async fn ok(&self, function: &'static str, arguments: Vec<Argument>) -> Vec<AnswerRow> {
        let (word, rows) = self.told(function, arguments).await;
        assert_eq!(word, "ok", "{function}");
        rows
    }

    /// Begins to join, with one mutex.
    pub(super) fn joining(&self, name: &str, ticket: u128) -> BoxFuture<Result<Vec<AnswerRow>, Failure>> {
        self.call("join", self.to_join(name, &[ticket], &[0]))
    }

    pub(super) async fn join(&self, name: &str, ticket: u128) -> Vec<AnswerRow> {
        self.ok("join", self.to_join(name, &[ticket], &[0])).await
    }

    /// The arguments of a join over the session's first connection.
    pub(super) fn to_join(&self, name: &str, tickets: &[u128], modes: &[u8]) -> Vec<Argument> {
        vec![
            self.session.into(),
            Argument::Int(1),
            text(name),
            Argument::Int(0),
            Argument::Ids(tickets.to_vec()),
            Argument::Bytes(modes.to_vec()),
            Argument::Flag(false),
            Argument::OptionalId(None),
            text("{}"),
            Argument::Flag(false),
        ]
    }

    pub(super) async fn leave(&self, name: &str, ticket: u128) -> String {
        self.told("leave", self.to_leave(name, ticket)).await.0
    }

    pub(super) fn to_leave(&self, name: &str, ticket: u128) -> Vec<Argument> {
        vec![self.session.into(), text(name), Argument::Int(0), Argument::Id(ticket)]
    }

    /// The arguments of a takeover by a new connection, which knows of these places.
    pub(super) fn to_resume(&self, epoch: i64, beat: i64, tickets: &[u128]) -> Vec<Argument> {
        vec![self.session.into(), Argument::Int(epoch), Argument::Int(beat), Argument::Ids(tickets.to_vec())]
    }

    pub(super) fn to_beat(&self, epoch: i64, beat: i64, tickets: [&[u128]; 2], ring: i64) -> Vec<Argument> {
        let [own, awaited] = tickets.map(|tickets| Argument::Ids(tickets.to_vec()));
        vec![self.session.into(), Argument::Int(epoch), Argument::Int(beat), own, awaited, Argument::Int(ring)]
    }

    /// The arguments of a change to a value: of this version, if one is expected.
    pub(super) fn to_set(&self, name: &str, expected: i64, version: i64, bytes: Option<&[u8]>) -> Vec<Argument> {
        let mut arguments = vec![self.session.into(), Argument::Int(1), text(name)];
        arguments.extend([0, expected, version].map(Argument::Int));
        arguments.push(Argument::OptionalBytes(bytes.map(<[u8]>::to_vec)));
        arguments
    }

    pub(super) async fn close(self) {
        self.ok("close", vec![self.session.into()]).await;
    }

    /// Whether the server tells this session from now on.
    pub(super) async fn listens(&self) -> bool {
        soon("listening", self.wire.listen(self.session)).await.expect("an answer")
    }

    pub(super) async fn hint(&mut self) -> Hint {
        soon("a hint", self.hints.recv()).await.expect("the connection stands")
    }

    /// Makes sure that nothing was told so far: a notification that was sent before an answer comes before it.
    pub(super) async fn assert_untold(&mut self) {
        self.ok("missing", vec![Argument::Ids(Vec::new())]).await;
        assert_eq!(self.hints.try_recv().ok(), None);
    }

    pub(super) async fn queue(&self, name: &str) -> Vec<u128> {
        tickets(&self.ok("look", look(name, None, true)).await, RowKind::Contender)
    }
}

pub(super) fn text(text: &str) -> Argument {
    Argument::Text(text.to_owned())
}

pub(super) fn open(session: u128, timeout_ms: i64) -> Vec<Argument> {
    vec![Argument::Id(session), Argument::Int(timeout_ms), text("a test"), Argument::Flag(false)]
}

pub(super) fn look(name: &str, around: Option<u128>, is_whole: bool) -> Vec<Argument> {
    vec![text(name), Argument::Int(0), Argument::OptionalId(around), Argument::Flag(is_whole)]
}

/// The word of an answer, and the rows behind it.
pub(super) fn read(mut rows: Vec<AnswerRow>) -> (String, Vec<AnswerRow>) {
    let word = word(&rows).expect("a status").to_owned();
    rows.remove(0);
    (word, rows)
}

pub(super) fn all(rows: &[AnswerRow], what: RowKind) -> Vec<&AnswerRow> {
    rows.iter().filter(|row| row.says(what)).collect()
}

pub(super) fn tickets(rows: &[AnswerRow], what: RowKind) -> Vec<u128> {
    all(rows, what).iter().map(|row| row.ticket.expect("it has a ticket")).collect()
}

/// The number of the first row that was stored: its token.
pub(super) fn token(rows: &[AnswerRow]) -> i64 {
    all(rows, RowKind::Stored)[0].number.expect("a token")
}

pub(super) fn departed(ticket: u128) -> Hint {
    Hint::Departed(Ticket::from_bits(ticket))
}
