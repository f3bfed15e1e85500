//! A look at all queues, by what every service gives: the names of its locks, and the contenders of each.

use lockkeeper::clock::Clock;
use lockkeeper::follow::Scope;
use lockkeeper::{Advice, Error, ErrorKind, Keeper, Mode, Operation, QueueName, Result};
use tokio::task::{JoinError, JoinSet};

use crate::snapshot::{ObservedLock, ServiceSnapshot};

/// How many locks are looked at at once: enough that few round trips are waited for, and little work for a service at a
/// time.
const LOOKS_AT_ONCE_MAX: usize = 16;

/// Looks at all locks in use of a scope.
///
/// It takes no part in any of them. Where contenders wait for a semaphore, it opens a session, to read how many permits
/// the holders have agreed on; a user who may not is told nothing of these semaphores' deadlocks.
///
/// # Errors
///
/// Transient if the service cannot be reached now, permanent if it refuses.
///
/// # Cancellation
///
/// Dropping the future changes nothing.
pub async fn look(keeper: &Keeper, clock: &dyn Clock, scope: &Scope) -> Result<ServiceSnapshot> {
    let began = clock.now();
    let mut names: Vec<_> = keeper.admin().queues(&scope.prefix).await?;
    names.extend(scope.also.iter().cloned());
    let mut names = names.into_iter().enumerate();
    let mut looks = JoinSet::new();
    let mut seen = Vec::new();
    loop {
        for (number, name) in names.by_ref().take(LOOKS_AT_ONCE_MAX.saturating_sub(looks.len())) {
            let keeper = keeper.clone();
            looks.spawn(async move { Ok::<_, Error>((number, look_at(&keeper, name).await?)) });
        }
        match looks.join_next().await {
            Some(Ok(looked)) => seen.push(looked?),
            Some(Err(ended)) => return Err(unless_panicked(ended)),
            None => break,
        }
    }
    // They are answered in any order.
    seen.sort_by_key(|&(number, _)| number);
    // A contender may have left since the locks were listed.
    let locks = seen.into_iter().map(|(_, lock)| lock).filter(|lock| !lock.contenders.is_empty()).collect();
    Ok(ServiceSnapshot::new(locks, began, clock.now(), clock.unix_time()))
}

async fn look_at(keeper: &Keeper, name: QueueName) -> Result<ObservedLock> {
    let contenders = keeper.contenders(name.as_str()).await?;
    let is_awaited = contenders.iter().any(|contender| contender.mode == Mode::Acquire && contender.frozen.is_none());
    let permits = if is_awaited { permits(keeper, &name).await? } else { None };
    Ok(ObservedLock::new(name, contenders, permits))
}

/// Goes on with the panic of a task, if it has ended by one: else the runtime is ending, and runs no task any more.
fn unless_panicked(ended: JoinError) -> Error {
    match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => {
            Error::transient(ErrorKind::Closed, Operation::Inspect, "the runtime that looks at the locks is ending")
        }
    }
}

/// Asks how many permits a semaphore has; none is known where this user is refused.
pub(crate) async fn permits(keeper: &Keeper, name: &QueueName) -> Result<Option<u32>> {
    match keeper.admin().agreed_permits(name.as_str()).await {
        Err(error) if error.advice() == Advice::Permanent => Ok(None),
        asked => asked,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[tokio::test]
    async fn a_look_whose_tasks_were_cancelled_fails_and_one_that_panicked_goes_on_with_the_panic() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let error = unless_panicked(cancelled.await.unwrap_err());
        assert!(error.is_transient() && error.to_string().contains("the runtime"), "{error}");
        let panicked = tokio::spawn(async { panic!("a bug") }).await.unwrap_err();
        let panic = catch_unwind(AssertUnwindSafe(|| unless_panicked(panicked))).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug"));
    }
}
