//! Looks at queues without a session: who stands in them, and which locks have contenders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::{ContenderInfo, Operation, QueueName, Result};
use lockkeeper_session::Failure;

use crate::engine::Wire;
use crate::look::{Onlooker, ask};
use crate::queue::rows::Answer;
use crate::queue::service::named;
use crate::session::Shown;
use crate::statement::{Argument, PARTS, Row, Statement};

/// Shows the contenders in all queues of a lock; of a semaphore the permits come first.
pub(crate) async fn inspect(onlooker: &Arc<Onlooker>, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
    let [line, permits, waiters] = statements(lock);
    let ask = |statement| ask(onlooker, statement, Operation::Inspect);
    let (line, permits, waiters) = tokio::try_join!(ask(line), ask(permits), ask(waiters))?;
    let mut infos = Vec::new();
    for rows in [line, permits, waiters] {
        infos.extend(read(rows, Answer::infos)?);
    }
    Ok(infos)
}

/// What one look at all locks shows.
#[derive(Debug, Default)]
pub(crate) struct All {
    /// The locks with contenders.
    pub(crate) locks: BTreeMap<QueueName, Vec<ContenderInfo>>,
    /// The sessions of these contenders, each with its last beat.
    pub(crate) beats: Vec<Shown>,
}

/// Shows all locks with contenders whose names begin with `prefix`, and these ones; of these, no beats are shown.
pub(crate) async fn inspect_all(wire: &dyn Wire, prefix: &str, also: &[QueueName]) -> Result<All, Failure> {
    let all = Statement::new("inspect_all", vec![Argument::Text(prefix.to_owned())]);
    let answer = Answer::read_ok(wire.ask(all).await?)?;
    let mut locks = answer.locks()?;
    // The server may compare what names begin with otherwise than we do.
    locks.retain(|name, _| name.as_str().starts_with(prefix));
    for lock in also.iter().filter(|lock| !lock.as_str().starts_with(prefix)) {
        let mut infos = Vec::new();
        for statement in statements(lock) {
            infos.extend(Answer::read_ok(wire.ask(statement).await?)?.infos()?);
        }
        if !infos.is_empty() {
            locks.insert(lock.clone(), infos);
        }
    }
    Ok(All { locks, beats: answer.beats() })
}

/// What shows each part of a lock.
fn statements(lock: &QueueName) -> [Statement; PARTS.len()] {
    PARTS.map(|part| Statement::new("inspect", named(&lock.with_part(part)).into()))
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(onlooker: &Arc<Onlooker>, prefix: &str) -> Result<Vec<QueueName>> {
    let statement = Statement::new("queues", vec![Argument::Text(prefix.to_owned())]);
    let names = read(ask(onlooker, statement, Operation::Inspect).await?, Answer::names)?;
    let names: BTreeSet<_> = names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect();
    Ok(names.into_iter().collect())
}

fn read<T>(rows: Vec<Row>, read: impl FnOnce(&Answer) -> Result<T, Failure>) -> Result<T> {
    let shown = Answer::read_ok(rows).and_then(|answer| read(&answer));
    shown.map_err(|failure| failure.into_core(Operation::Inspect, false))
}
