//! Looks at queues without a session: who stands in them, and which locks have contenders.

use std::collections::BTreeSet;

use lockkeeper_core::{ContenderInfo, Operation, Part, QueueName, Result};

use crate::failure::Failure;
use crate::look::Onlooker;
use crate::queue::inner::named;
use crate::queue::rows::Answer;
use crate::statement::{Argument, Row, Statement};

/// Shows the contenders in all queues of a lock; of a semaphore the permits come first.
pub(crate) async fn inspect(onlooker: &Onlooker, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
    let [line, permits, waiters] = [Part::Line, Part::Permits, Part::Waiters]
        .map(|part| Statement::new("inspect", named(&lock.with_part(part)).into()));
    let ask = |statement| onlooker.ask(statement, Operation::Inspect);
    let (line, permits, waiters) = tokio::try_join!(ask(&line), ask(&permits), ask(&waiters))?;
    let mut infos = Vec::new();
    for rows in [line, permits, waiters] {
        infos.extend(read(rows, Answer::infos)?);
    }
    Ok(infos)
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(onlooker: &Onlooker, prefix: &str) -> Result<Vec<QueueName>> {
    let statement = Statement::new("queues", vec![Argument::Text(prefix.to_owned())]);
    let names = read(onlooker.ask(&statement, Operation::Inspect).await?, Answer::names)?;
    let names: BTreeSet<_> = names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect();
    Ok(names.into_iter().collect())
}

fn read<T>(rows: Vec<Row>, read: impl FnOnce(&Answer) -> Result<T, Failure>) -> Result<T> {
    let shown = Answer::read_ok(rows).and_then(|answer| read(&answer));
    shown.map_err(|failure| failure.into_core(Operation::Inspect, false))
}
