//! Looks at queues without a session: who stands in them, and which locks have contenders.

use std::collections::BTreeSet;

use lockkeeper_core::{ContenderInfo, Part, QueueName};

use crate::engine::Wire;
use crate::failure::Failure;
use crate::queue::inner::named;
use crate::queue::rows::Answer;
use crate::statement::{Argument, Statement};

/// The parts of a lock, as they are shown: of a semaphore the permits come first.
const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

/// Shows the contenders in all queues of a lock.
pub(crate) async fn inspect(wire: &dyn Wire, lock: &QueueName) -> Result<Vec<ContenderInfo>, Failure> {
    let statement = |part| Statement::new("inspect", named(&lock.with_part(part)).into());
    let asking = PARTS.map(|part| wire.ask(statement(part)));
    let mut infos = Vec::new();
    for rows in asking {
        infos.extend(Answer::read_ok(rows.await?)?.infos()?);
    }
    Ok(infos)
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(wire: &dyn Wire, prefix: &str) -> Result<Vec<QueueName>, Failure> {
    let rows = wire.ask(Statement::new("queues", vec![Argument::Text(prefix.to_owned())])).await?;
    let names: BTreeSet<_> = Answer::read_ok(rows)?.names()?.into_iter().collect();
    Ok(names.into_iter().filter(|name| name.as_str().starts_with(prefix)).collect())
}
