//! The owner that nested `run` closures have in common.
//!
//! Each `run` has a separate owner inside that of the enclosing `run`, and shares what the enclosing one holds. Two
//! that run side by side under a third have different owners, and exclude one another.

use std::sync::Arc;

use lockkeeper_core::Result;

use crate::hold::Hold;
use crate::lock::guard::Guard;
use crate::owner_key::places::OwnerPlaces;
use crate::owner_key::{OwnerKey, Reentrant};
use crate::shared::call;

tokio::task_local! {
    /// The owner of the innermost enclosing `run` of this task.
    static RUNNING: OwnerKey;
}

impl OwnerKey {
    /// Makes the owner of a `run` that begins here.
    pub(crate) fn of_this_run() -> Self {
        match RUNNING.try_with(Self::clone) {
            Ok(outer) => Self { places: Arc::new(OwnerPlaces::inside(outer.places, call::this_flow())) },
            // No `run` is around us.
            Err(_) => Self::of_this_flow(),
        }
    }

    /// Runs `work` under what was granted to the owner of this `run`.
    pub(crate) async fn run<Kind, Work, Running, Output>(
        self,
        held: Reentrant<Guard<Kind>>,
        work: Work,
    ) -> Result<Output>
    where
        Work: FnOnce(Hold) -> Running,
        Running: Future<Output = Output>,
    {
        let ticket = held.hold().ticket();
        RUNNING.scope(self, call::nested(ticket, held.run(work))).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use crate::tests::service;
    use lockkeeper_core::Wait;
    use lockkeeper_core::{ErrorKind, LossReason};

    #[tokio::test(start_paused = true)]
    async fn a_run_within_a_run_counts_also_through_another_lock_and_through_functions() {
        let keeper = service().keeper();
        let (door, hall) = (keeper.mutex("door").unwrap(), keeper.mutex("hall").unwrap());
        let same_hold = door
            .run(|outer| {
                let (door, hall) = (door.clone(), hall.clone());
                async move {
                    let inner = hall.run(|_| async move { door.run(|inner| async move { inner }).await }).await;
                    let inner = inner.unwrap().unwrap();
                    inner.fencing_token() == outer.fencing_token() && inner.is_held()
                }
            })
            .await;
        assert!(same_hold.unwrap());
        assert!(door.try_lock().await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn two_runs_side_by_side_exclude_one_another_though_a_run_is_around_both() {
        let keeper = service().keeper();
        let (door, hall) = (keeper.mutex("door").unwrap(), keeper.mutex("hall").unwrap());
        let inside = Rc::new(Cell::new(0));
        let work = |_| {
            let inside = inside.clone();
            async move {
                inside.set(inside.get() + 1);
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert_eq!(inside.get(), 1, "two are inside at once");
                inside.set(inside.get() - 1);
            }
        };
        let both = hall.run(|_| async { tokio::join!(door.run(work), door.run(work)) }).await.unwrap();
        assert!(both.0.is_ok() && both.1.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_spawned_within_a_run_is_a_separate_contender() {
        let keeper = service().keeper();
        let door = keeper.mutex("door").unwrap();
        let mut spawned = None;
        door.run(|_| {
            let door = door.clone();
            let task = spawned.insert(tokio::spawn(async move { door.run(|_| async {}).await }));
            async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                assert!(!task.is_finished());
            }
        })
        .await
        .unwrap();
        spawned.expect("it was spawned").await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_explicit_owner_and_a_run_do_not_count_on_one_another() {
        let keeper = service().keeper();
        let door = keeper.mutex("door").unwrap();
        let owner = OwnerKey::new();
        assert!(door.run(|_| owner.lock_within(&door, Wait::No)).await.unwrap().unwrap().is_none());
        let _held = owner.lock(&door).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(60), door.run(|_| async {})).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn within_a_write_one_may_write_and_read_and_within_a_read_only_read() {
        let keeper = service().keeper();
        let book = keeper.rw_lock("book").unwrap();
        let waiting = Box::pin(book.write());
        book.run_write(|_| async {
            // A writer that waits keeps none of the inner ones waiting.
            let mut waiting = waiting;
            assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
            book.run_write(|_| async {}).await.unwrap();
            book.run_read(|_| async { book.run_write(|_| async {}).await }).await.unwrap().unwrap();
        })
        .await
        .unwrap();
        let refused = book.run_read(|_| async {
            book.run_read(|_| async {}).await.unwrap();
            book.run_write(|_| async {}).await
        });
        let error = refused.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_within_one_that_has_lost_its_lock_fails_at_once() {
        let keeper = service().keeper();
        let door = keeper.mutex("door").unwrap();
        let inner = Rc::new(Cell::new(None));
        let outer = door
            .run(|_| async {
                keeper.testing().unwrap().expire_session();
                inner.set(door.run(|_| async { unreachable!("the lock was lost") }).await.err());
                std::future::pending::<()>().await;
            })
            .await;
        let lost = ErrorKind::Lost(LossReason::Expired);
        assert_eq!(outer.unwrap_err().kind(), lost);
        assert_eq!(inner.take().expect("it failed").kind(), lost);
    }
}
