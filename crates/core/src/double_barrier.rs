//! A gate that opens when enough have come, and lets them out together.

use std::fmt;
use std::time::Duration;

use crate::contend::{OneRound, Patience, RoundGone, grant_by, refused};
use crate::contender::Ticket;
use crate::guard::{Guard, kind};
use crate::keeper::Shared;
use crate::lock::{Lock, granted};
use crate::{ErrorKind, Hold, Keeper, QueueName, Result};

/// The most members that a double barrier waits for: the names of a round, and of those who were late to leave an earlier
/// one, must fit into one value.
pub const MEMBERS_MAX: u32 = 900;

/// A double barrier: members go in when so many of them have come, and out when all of them have left.
///
/// Rounds follow one another. Whoever comes while the whole of a round is inside joins it (Curator calls it
/// over-subscribed); once one of a round has left, or died, whoever comes is of the next, and goes in when enough others
/// have come who are not inside yet. A member that dies is missing: those who wait for it to come wait on, those who
/// wait for it to leave do not.
///
/// Made by [`Keeper::double_barrier`]; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lockkeeper_core::Error> {
/// # let keeper = lockkeeper_core::Keeper::memory();
/// let barrier = keeper.double_barrier("phase", 2)?;
/// let (ann, bob) = tokio::try_join!(barrier.enter(), barrier.enter())?;
/// // Both are inside now.
/// tokio::try_join!(ann.leave(), bob.leave())?;
/// # Ok(())
/// # }
/// ```
///
/// # Source
///
/// Curator's `DistributedDoubleBarrier`, whose `enter` a spurious wake-up could pass until GH-1290. The layout is our own.
#[derive(Clone)]
#[doc(alias = "DistributedDoubleBarrier")]
pub struct DoubleBarrier {
    lock: Lock,
    members: u32,
}

impl Keeper {
    /// Returns the double barrier of this name that so many members go through together. Asking costs nothing.
    ///
    /// Everybody who uses it must say the same number.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if it is no name; [`ErrorKind::InvalidRequest`] for no members, or more than
    /// [`MEMBERS_MAX`].
    #[doc(alias = "DistributedDoubleBarrier")]
    pub fn double_barrier(&self, name: &str, members: u32) -> Result<DoubleBarrier> {
        let lock = self.lock(name)?;
        if members == 0 || members > MEMBERS_MAX {
            let message = format!("a double barrier has 1 to {MEMBERS_MAX} members, and {members} were asked for");
            return Err(refused(&lock.queue, message));
        }
        Ok(DoubleBarrier { lock, members })
    }
}

impl DoubleBarrier {
    /// Returns the barrier's name.
    pub fn name(&self) -> &QueueName {
        &self.lock.queue
    }

    /// Waits until enough members have come, however long it takes, and goes in with them.
    ///
    /// # Errors
    ///
    /// Permanent ones, as [`Mutex::lock`](crate::Mutex::lock); [`ErrorKind::LimitReached`] if too many are inside. What
    /// may pass is tried again under the keeper's retry policy.
    ///
    /// # Cancellation
    ///
    /// Dropping the future at any point leaves the barrier.
    ///
    /// # Ordering
    ///
    /// At some moment between the call and its answer enough members had come; whoever of them was still there then goes in.
    ///
    /// # On connection loss
    ///
    /// Keeps its place while the session lives. When the session ends, it comes anew under the next one.
    pub async fn enter(&self) -> Result<Entered> {
        self.enter_with(Patience::Endless).await.map(granted)
    }

    /// Waits until enough members have come, at most for `timeout`, and goes in with them; `None` if the time was up
    /// first, and then it does not count as one who has come.
    ///
    /// # Errors
    ///
    /// As [`DoubleBarrier::enter`]; and a transient one if the time was up before the service had answered.
    ///
    /// # Cancellation
    ///
    /// As [`DoubleBarrier::enter`].
    ///
    /// # Ordering
    ///
    /// As [`DoubleBarrier::enter`].
    ///
    /// # On connection loss
    ///
    /// As [`DoubleBarrier::enter`]; the timeout is kept to whatever happens.
    pub async fn enter_timeout(&self, timeout: Duration) -> Result<Option<Entered>> {
        self.enter_with(Patience::within(&self.lock.shared, timeout)).await
    }

    async fn enter_with(&self, patience: Patience) -> Result<Option<Entered>> {
        let attempt = OneRound { queue: &self.lock.queue, members: self.members };
        let mut went_in = None;
        let guards = self.lock.grant_all(&attempt, patience, |inside| {
            went_in = Some((inside.ticket, inside.round));
            vec![inside.granted]
        });
        let guard = guards.await?.and_then(|mut guards| guards.pop());
        let entered = guard.zip(went_in);
        Ok(entered.map(|(guard, (ticket, round))| Entered { lock: self.lock.clone(), guard, ticket, round }))
    }
}

/// Proof of being inside a double barrier; dropping it leaves, without waiting for the others.
#[must_use = "the barrier is left when this is dropped"]
pub struct Entered {
    lock: Lock,
    guard: Guard<kind::Member>,
    ticket: Ticket,
    round: Vec<Ticket>,
}

impl Entered {
    /// Returns what answers for being inside: a member whose hold is lost has left, as far as the others can see.
    pub fn hold(&self) -> &Hold {
        self.guard.hold()
    }

    /// Leaves, and waits until all others of the round have left, however long it takes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`], permanent, if our place had been lost before, so that the others may have gone on without us;
    /// other permanent ones as [`Mutex::lock`](crate::Mutex::lock). What may pass is tried again.
    ///
    /// # Cancellation
    ///
    /// We have left all the same.
    ///
    /// # Ordering
    ///
    /// Returns after every other member of the round has left or died. Those who joined the round late are of it.
    ///
    /// # On connection loss
    ///
    /// Goes on, under a new session if need be.
    pub async fn leave(self) -> Result<()> {
        self.leave_with(Patience::Endless).await.map(granted)
    }

    /// Leaves, and waits until all others of the round have left, at most for `timeout`; tells whether that came.
    ///
    /// # Errors
    ///
    /// As [`Entered::leave`]; and a transient one if the time was up before the service had answered.
    ///
    /// # Cancellation
    ///
    /// As [`Entered::leave`].
    ///
    /// # Ordering
    ///
    /// As [`Entered::leave`].
    ///
    /// # On connection loss
    ///
    /// As [`Entered::leave`]; the timeout is kept to whatever happens.
    pub async fn leave_timeout(self, timeout: Duration) -> Result<bool> {
        let patience = Patience::within(&self.lock.shared, timeout);
        self.leave_with(patience).await.map(|gone| gone.is_some())
    }

    async fn leave_with(self, patience: Patience) -> Result<Option<()>> {
        let Self { lock, guard, ticket, round } = self;
        let Some(left) = by(&lock.shared, patience, guard.release()).await else {
            return Ok(None);
        };
        match left {
            Err(error) if matches!(error.kind(), ErrorKind::Lost(_)) => return Err(error),
            // It goes on by itself.
            Ok(()) | Err(_) => {}
        }
        grant_by(&lock.shared, &RoundGone { queue: &lock.queue, ticket, round }, patience).await
    }
}

/// Waits for something as long as the patience lasts; what needs no wait is had without any.
async fn by<T>(shared: &Shared, patience: Patience, wanted: impl Future<Output = T>) -> Option<T> {
    let deadline = match patience {
        Patience::Endless => return Some(wanted.await),
        Patience::Until(deadline) => deadline,
        Patience::None => shared.clock.now(),
    };
    tokio::select! {
        biased;
        had = wanted => Some(had),
        () = shared.clock.sleep_until(deadline) => None,
    }
}

impl fmt::Debug for DoubleBarrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DoubleBarrier")
            .field("name", &self.lock)
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Entered").field(&self.guard).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinHandle;

    use super::*;
    use crate::clock::TestClock;
    use crate::memory::MemoryService;
    use crate::{Operation, SafeUntil};

    const SOON: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(600);

    fn service() -> MemoryService {
        MemoryService::new(Arc::new(TestClock::new()))
    }

    fn enter(keeper: &Keeper, members: u32) -> JoinHandle<Result<Entered>> {
        let barrier = keeper.double_barrier("d", members).unwrap();
        tokio::spawn(async move { barrier.enter().await })
    }

    fn leave(entered: Entered) -> JoinHandle<Result<()>> {
        tokio::spawn(entered.leave())
    }

    async fn soon<T>(task: JoinHandle<Result<T>>) -> T {
        tokio::time::timeout(SOON, task).await.expect("it comes soon").unwrap().unwrap()
    }

    async fn settle() {
        tokio::time::sleep(LONG).await;
    }

    /// Curator's `testBasic` and `testMultiClient`: nobody is in before all have come, and nobody out before all have left,
    /// round after round.
    #[tokio::test(start_paused = true)]
    async fn members_go_in_together_and_out_together_round_after_round() {
        const MEMBERS: usize = 5;
        let service = service();
        let keepers: Vec<_> = (0..MEMBERS).map(|_| service.keeper()).collect();
        for _ in 0..3 {
            let mut entering: Vec<_> = keepers[1..].iter().map(|keeper| enter(keeper, 5)).collect();
            settle().await;
            assert!(entering.iter().all(|task| !task.is_finished()));
            entering.push(enter(&keepers[0], 5));
            let mut inside = Vec::new();
            for task in entering {
                inside.push(soon(task).await);
            }
            let last = inside.pop().unwrap();
            let leaving: Vec<_> = inside.into_iter().map(leave).collect();
            settle().await;
            assert!(leaving.iter().all(|task| !task.is_finished()));
            soon(leave(last)).await;
            for task in leaving {
                soon(task).await;
            }
            assert!(service.keeper().contenders("d").await.unwrap().is_empty());
            assert_eq!(
                service.keeper().shared_value("d").unwrap().get().await.unwrap(),
                None,
                "the note is cleared away"
            );
        }
    }

    /// Curator's `testOverSubscribed`: one more than needed have come when somebody looks, and all go in and out.
    #[tokio::test(start_paused = true)]
    async fn one_more_than_needed_goes_in_with_the_others() {
        let service = service();
        let keepers: Vec<_> = (0..6).map(|_| service.keeper()).collect();
        for keeper in &keepers {
            keeper.shared_value("other").unwrap().get().await.unwrap();
        }
        // All six requests take effect before any of them is answered.
        keepers[0].testing().unwrap().pause();
        let through = |keeper: &Keeper| {
            let barrier = keeper.double_barrier("d", 5).unwrap();
            tokio::spawn(async move { barrier.enter().await?.leave().await })
        };
        let tasks: Vec<_> = keepers.iter().map(through).collect();
        tokio::task::yield_now().await;
        keepers[0].testing().unwrap().resume();
        for task in tasks {
            soon(task).await;
        }
        // Also one who comes later, while all are inside.
        let tasks: Vec<_> = keepers[..5].iter().map(|keeper| enter(keeper, 5)).collect();
        let mut inside = Vec::new();
        for task in tasks {
            inside.push(soon(task).await);
        }
        inside.push(soon(enter(&keepers[5], 5)).await);
        let last = inside.pop().unwrap();
        let leaving: Vec<_> = inside.into_iter().map(leave).collect();
        settle().await;
        assert!(leaving.iter().all(|task| !task.is_finished()), "the late one is of the round");
        soon(leave(last)).await;
        for task in leaving {
            soon(task).await;
        }
    }

    /// Curator's `testSpuriousWakeup` (GH-1290): wake-ups without cause, of the value, of the queue and of the connection.
    #[tokio::test(start_paused = true)]
    async fn a_wake_up_without_cause_lets_nobody_in() {
        let service = service();
        let (ann, bob, eve) = (service.keeper(), service.keeper(), service.keeper());
        let (first, second) = (enter(&ann, 3), enter(&bob, 3));
        settle().await;
        eve.shared_value("d").unwrap().set(b";").await.unwrap();
        settle().await;
        eve.shared_value("d").unwrap().remove().await.unwrap();
        settle().await;
        ann.testing().unwrap().cut(SafeUntil::ProcessEnd);
        settle().await;
        ann.testing().unwrap().heal();
        settle().await;
        assert!(!first.is_finished() && !second.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_after_one_of_a_round_has_left_waits_for_the_next_round() {
        let service = service();
        let (ann, bob, eve, dan) = (service.keeper(), service.keeper(), service.keeper(), service.keeper());
        let (first, second) = (enter(&ann, 2), enter(&bob, 2));
        let (first, second) = (soon(first).await, soon(second).await);
        assert!(!first.leave_timeout(Duration::ZERO).await.unwrap());
        let third = enter(&eve, 2);
        settle().await;
        assert!(!third.is_finished(), "bob is of the round before");
        let fourth = enter(&dan, 2);
        let (third, fourth) = (soon(third).await, soon(fourth).await);
        // Those of the second round do not wait for the straggler of the first, nor it for them.
        let leaving = leave(third);
        soon(leave(second)).await;
        settle().await;
        assert!(!leaving.is_finished());
        soon(leave(fourth)).await;
        soon(leaving).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_dies_before_all_have_come_is_missing_and_one_that_dies_inside_has_left() {
        let service = service();
        let (ann, bob, eve) = (service.keeper(), service.keeper(), service.keeper());
        let first = enter(&ann, 2);
        settle().await;
        drop(first);
        ann.close().await.unwrap();
        let second = enter(&bob, 2);
        settle().await;
        assert!(!second.is_finished());
        let third = soon(enter(&eve, 2)).await;
        let leaving = leave(soon(second).await);
        settle().await;
        assert!(!leaving.is_finished());
        eve.testing().unwrap().expire_session();
        soon(leaving).await;
        let error = third.leave().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_member_whose_session_expires_comes_anew() {
        let service = service();
        let (ann, bob) = (service.keeper(), service.keeper());
        let first = enter(&ann, 2);
        settle().await;
        ann.testing().unwrap().expire_session();
        settle().await;
        let second = soon(enter(&bob, 2)).await;
        let leaving = leave(second);
        soon(leave(soon(first).await)).await;
        soon(leaving).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_gives_up_or_is_cancelled_does_not_count() {
        let service = service();
        let (ann, bob) = (service.keeper(), service.keeper());
        let barrier = ann.double_barrier("d", 2).unwrap();
        assert!(barrier.enter_timeout(Duration::from_secs(3)).await.unwrap().is_none());
        let cancelled = enter(&ann, 2);
        settle().await;
        cancelled.abort();
        let second = enter(&bob, 2);
        settle().await;
        assert!(!second.is_finished());
        assert_eq!(bob.contenders("d").await.unwrap().len(), 1);
    }

    /// The reply to each request of whoever completes the round is lost, and it took effect all the same.
    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_leaves_nobody_outside() {
        for lost in [Operation::Join, Operation::Value, Operation::View] {
            let service = service();
            let (ann, bob) = (service.keeper(), service.keeper());
            let first = enter(&ann, 2);
            settle().await;
            bob.testing().unwrap().drop_next_reply(lost);
            let second = enter(&bob, 2);
            settle().await;
            let (first, second) = (leave(soon(first).await), leave(soon(second).await));
            soon(first).await;
            soon(second).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_is_somebody_else_s_is_refused_and_left_alone() {
        let keeper = service().keeper();
        keeper.shared_counter("d").unwrap().set(7).await.unwrap();
        let error = keeper.double_barrier("d", 1).unwrap().enter().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!(keeper.shared_counter("d").unwrap().get().await.unwrap().number(), 7);
        assert!(keeper.contenders("d").await.unwrap().is_empty());
        assert_eq!(keeper.double_barrier("d", 0).unwrap_err().kind(), ErrorKind::InvalidRequest);
        assert_eq!(keeper.double_barrier("d", MEMBERS_MAX + 1).unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
}
