//! Looks at a database without a session: who stands in the queues, and which locks have contenders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lockkeeper_core::{ContenderInfo, Operation, QueueName, Result, Scope};
use lockkeeper_session::{Failure, Lookable, Server};

use crate::answer::{QueueCount, SqlAnswer};
use crate::engine::{Connected, Intent, ServerGreeting, WakeMethod, Wire};
use crate::site::SqlSite;
use crate::statement::{AnswerRow, Argument, PARTS, Statement, named};
use crate::timing::SessionBeat;

/// Where looks go.
pub(crate) type Onlooker = lockkeeper_session::Onlooker<GreetedWire, ()>;

/// A connection that a session has been taken over to.
pub(crate) type SqlLink = lockkeeper_session::Linked<GreetedWire>;

/// A connection, as it was greeted.
pub(crate) struct GreetedWire {
    pub(crate) wire: Arc<dyn Wire>,
    server: Server,
    /// The server's account of itself.
    pub(crate) instance: String,
    /// How waiters are woken over it.
    pub(crate) wake_method: WakeMethod,
    /// The name of the state of the data under which it was put to use, once it was. A proxy's connection outlives a
    /// change of that state, and so does each where data are restored into a server that runs.
    pub(crate) served: OnceLock<String>,
}

impl GreetedWire {
    pub(crate) fn new(wire: Arc<dyn Wire>, server: Server, greeting: ServerGreeting) -> Self {
        let ServerGreeting { instance, wake_method } = greeting;
        Self { wire, server, instance, wake_method, served: OnceLock::new() }
    }
}

impl Lookable for GreetedWire {
    fn is_over(&self) -> bool {
        self.wire.is_over()
    }

    fn shut(&self) {
        self.wire.shut();
    }

    fn server(&self) -> &Server {
        &self.server
    }
}

pub(crate) fn onlooker(site: &SqlSite) -> Onlooker {
    let site = site.clone();
    Onlooker::new(site.clock.clone(), (), site.config.operation_timeout, Failure::needs_another, move || {
        let site = site.clone();
        Box::pin(async move {
            let (server, Connected { wire, greeting, .. }) =
                site.connect(Intent::Look).await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
            Ok(Arc::new(GreetedWire::new(wire, server, greeting)))
        })
    })
}

/// Asks, again over the next connection if one fails. What is asked may be executed more than once.
pub(crate) async fn ask(
    onlooker: &Arc<Onlooker>,
    statement: Statement,
    operation: Operation,
) -> Result<Vec<AnswerRow>> {
    onlooker.clone().look(operation, statement, |statement, lookout, _| lookout.wire.ask(statement.clone())).await
}

/// Shows the contenders in all queues of a lock; of a semaphore the permits come first.
pub(crate) async fn inspect(onlooker: &Arc<Onlooker>, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
    let [line, permits, waiters] = statements(lock);
    let ask = |statement| ask(onlooker, statement, Operation::Inspect);
    let (line, permits, waiters) = tokio::try_join!(ask(line), ask(permits), ask(waiters))?;
    let mut infos = Vec::new();
    for rows in [line, permits, waiters] {
        infos.extend(read(rows, SqlAnswer::infos)?);
    }
    Ok(infos)
}

/// What one look at all locks shows.
#[derive(Debug, Default)]
pub(crate) struct AllLocks {
    pub(crate) locks: BTreeMap<QueueName, Vec<Arc<ContenderInfo>>>,
    /// The sessions of these contenders, each with its last beat.
    pub(crate) beats: Vec<SessionBeat>,
    /// The queues that have changed since the look before, at least.
    pub(crate) counts: Vec<QueueCount>,
    /// The number by which the next look names this one.
    pub(crate) number: i64,
}

/// Shows all locks of a scope with contenders; of those that it names beside its prefix, no beats and no counts.
/// `since` is the number of the look before, or 0.
pub(crate) async fn inspect_all(wire: &dyn Wire, scope: &Scope, since: i64) -> Result<AllLocks, Failure> {
    let Scope { prefix, also, .. } = scope;
    let all = Statement::new("follow", vec![Argument::Text(prefix.clone()), Argument::Int(since)]);
    let answer = SqlAnswer::read_ok(wire.ask(all).await?)?;
    let (mut locks, mut counts) = (answer.locks()?, answer.counts()?);
    // The server may compare what names begin with otherwise than we do.
    locks.retain(|name, _| name.as_str().starts_with(prefix));
    counts.retain(|count| count.queue.as_str().starts_with(prefix));
    for lock in also.iter().filter(|lock| !lock.as_str().starts_with(prefix)) {
        let mut infos = Vec::new();
        for statement in statements(lock) {
            infos.extend(SqlAnswer::read_ok(wire.ask(statement).await?)?.infos()?.into_iter().map(Arc::new));
        }
        if !infos.is_empty() {
            locks.insert(lock.clone(), infos);
        }
    }
    // Without our schema there is none.
    let number = answer.number().unwrap_or_default();
    Ok(AllLocks { locks, beats: answer.beats(), counts, number })
}

fn statements(lock: &QueueName) -> [Statement; PARTS.len()] {
    PARTS.map(|part| Statement::new("inspect", named(&lock.with_part(part)).into()))
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(onlooker: &Arc<Onlooker>, prefix: &str) -> Result<Vec<QueueName>> {
    let statement = Statement::new("queues", vec![Argument::Text(prefix.to_owned())]);
    let names = read(ask(onlooker, statement, Operation::Inspect).await?, SqlAnswer::names)?;
    let names: BTreeSet<_> = names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect();
    Ok(names.into_iter().collect())
}

fn read<T>(rows: Vec<AnswerRow>, read: impl FnOnce(&SqlAnswer) -> Result<T, Failure>) -> Result<T> {
    let shown = SqlAnswer::read_ok(rows).and_then(|answer| read(&answer));
    shown.map_err(|failure| failure.into_core(Operation::Inspect, false))
}
