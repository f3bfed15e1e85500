//! A hold that is lost while its holder's runtime stands still. The holder asks nothing and is told nothing, but it
//! hears of the loss when its work is done or when it gives the lock back.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes, Result};
use lockkeeper_recipes::{CloseMode, Hold, LeaderLatch, OwnerKey};
use tokio::sync::oneshot;

use crate::asking::LOCK;
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, parties};
use crate::waiting::{SOON, soon};

/// How much longer than a session timeout the runtime is blocked, so that its holder finds its hold lapsed.
const LAPSE_MARGIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    // A fixture waits for a session timeout until it takes a client for one that stands still.
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]).outlives_sessions();
    let removing = |case: Case| case.needs(&[FaultKind::RemoveContender]);
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]).outlives_sessions();
    let of_mutexes = vec![
        expiring(Case::new("run() says so when its work never awaits and the session expires", async |fixture| {
            is_lost(fixture, Loss::Expired, run).await;
        })),
        removing(Case::new("run() says so when its work never awaits and its contender is removed", async |fixture| {
            is_lost(fixture, Loss::Removed, run).await;
        })),
        cutting(Case::new("run() says so when its work never awaits and the hold lapses", async |fixture| {
            is_lost(fixture, Loss::Lapsed, run).await;
        })),
        removing(Case::new("a release alone tells that the contender was removed", async |fixture| {
            is_lost(fixture, Loss::Removed, release_guard).await;
            is_lost(fixture, Loss::Removed, release_of_an_owner).await;
        })),
        expiring(Case::new("a release alone tells that the session has expired", async |fixture| {
            is_lost(fixture, Loss::Expired, release_guard).await;
        })),
        cutting(Case::new(
            "a release of a lapsed hold says so, and not that the connection is lost",
            async |fixture| {
                is_lost(fixture, Loss::Lapsed, release_guard).await;
            },
        )),
    ];
    let of_other_kinds = vec![
        removing(Case::new("run_read() and run_write() say so when their work never awaits", async |fixture| {
            is_lost(fixture, Loss::Removed, run_read).await;
            is_lost(fixture, Loss::Removed, run_write).await;
        }))
        .uses(Modes::READ_WRITE),
        removing(Case::new("leaving a double barrier says so when the place was removed", async |fixture| {
            is_lost(fixture, Loss::Removed, leave_barrier).await;
        }))
        .uses(Modes::BARRIER),
        removing(Case::new("closing a latch says so when its lead was removed", async |fixture| {
            is_lost(fixture, Loss::Removed, close_latch).await;
        }))
        .uses(Modes::ELECTION),
    ];
    [using(Modes::MUTEX, of_mutexes), of_other_kinds].concat()
}

/// How the hold is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Expired,
    Removed,
    Lapsed,
}

impl Loss {
    /// Does the harm, and waits until the holder alone still takes the hold for held.
    async fn happen(self, fixture: &dyn Fixture, holder: &Party, hold: &Hold) {
        match self {
            Self::Expired => holder.inflict(Fault::ExpireSession).await,
            Self::Removed => {
                let (queue, contender) = (hold.name().clone(), hold.contender().clone());
                holder.inflict(Fault::RemoveContender { queue, contender, stands_still: true }).await;
            }
            Self::Lapsed => {
                holder.inflict(Fault::Cut).await;
                let timeout = fixture.session_timeout().expect("a client that can be cut off has a session timeout");
                let clock = fixture.clock();
                clock.sleep_until(clock.now().saturating_add(timeout + LAPSE_MARGIN)).await;
            }
        }
    }

    const fn reason(self) -> LossReason {
        match self {
            Self::Expired => LossReason::Expired,
            Self::Removed => LossReason::Removed,
            Self::Lapsed => LossReason::Lapsed,
        }
    }
}

/// Blocks a runtime between a grant and the loss of the hold.
struct Standstill {
    begun: oneshot::Sender<Hold>,
    end: mpsc::Receiver<()>,
}

impl Standstill {
    /// Stands still, without an await, until the hold is lost.
    fn keep(self, hold: &Hold) {
        self.begun.send(hold.clone()).expect("the case waits for it");
        self.end.recv_timeout(SOON).expect("the case says when to go on");
    }

    async fn work(self, hold: Hold) -> u32 {
        self.keep(&hold);
        42
    }
}

/// Makes `act` hold a lock on a thread whose only runtime stands still while the hold is lost; its outcome must be the
/// loss.
async fn is_lost<Acting>(
    fixture: &dyn Fixture,
    loss: Loss,
    act: impl FnOnce(Party, Standstill) -> Acting + Send + 'static,
) where
    Acting: Future<Output = Result<u32>>,
{
    let [ann, bob] = parties(fixture).await;
    let ((begun, until_begun), (go_on, end)) = (oneshot::channel(), mpsc::channel());
    let (told, outcome) = oneshot::channel();
    let holder = ann.clone();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
        // The waiting case has given up, or is told.
        let _ = told.send(runtime.block_on(act(holder.clone(), Standstill { begun, end })));
        // The session lived in this runtime.
        let _ = runtime.block_on(holder.keeper.close());
    });
    let hold = soon("the grant", until_begun).await.expect("the thread does not panic");
    loss.happen(fixture, &ann, &hold).await;
    if !matches!(loss, Loss::Lapsed) {
        bob.until_contenders(LOCK, 0).await;
    }
    go_on.send(()).expect("the thread waits for it");
    let outcome = soon("the outcome", outcome).await.expect("the thread does not panic");
    if matches!(loss, Loss::Lapsed) {
        ann.inflict(Fault::Heal).await;
    }
    tokio::task::spawn_blocking(|| thread.join()).await.expect("it is joined").expect("the thread does not panic");
    let error = outcome.expect_err("the hold was lost");
    // A holder that stands still for a session timeout has lapsed, also if something else has happened.
    let reasons = [loss.reason(), LossReason::Lapsed].map(ErrorKind::Lost);
    assert!(reasons.contains(&error.kind()) && error.advice() == Advice::Permanent, "{error:?}");
}

async fn run(ann: Party, standstill: Standstill) -> Result<u32> {
    ann.mutex(LOCK).run(|hold| standstill.work(hold)).await
}

async fn run_read(ann: Party, standstill: Standstill) -> Result<u32> {
    ann.rw_lock(LOCK).run_read(|hold| standstill.work(hold)).await
}

async fn run_write(ann: Party, standstill: Standstill) -> Result<u32> {
    ann.rw_lock(LOCK).run_write(|hold| standstill.work(hold)).await
}

async fn release_guard(ann: Party, standstill: Standstill) -> Result<u32> {
    let guard = ann.lock(LOCK).await;
    standstill.keep(guard.hold());
    guard.release().await.map(|()| 42)
}

async fn release_of_an_owner(ann: Party, standstill: Standstill) -> Result<u32> {
    let guard = OwnerKey::new().lock(&ann.mutex(LOCK)).await.expect("the lock is granted");
    standstill.keep(guard.hold());
    guard.release().await.map(|()| 42)
}

async fn leave_barrier(ann: Party, standstill: Standstill) -> Result<u32> {
    let barrier = ann.keeper.double_barrier(LOCK, 1).expect("the name is valid");
    let entered = barrier.enter().await.expect("it has no other member to wait for");
    standstill.keep(entered.hold());
    let left = entered.leave().await.map(|()| 42);
    // The next round clears the note of this one.
    barrier.enter().await.expect("it has no other member to wait for").leave().await.expect("it was inside");
    left
}

async fn close_latch(ann: Party, standstill: Standstill) -> Result<u32> {
    let latch = LeaderLatch::start(&ann.keeper.election(LOCK).expect("the name is valid"));
    let hold = latch.until_leader().await.expect("there is no other candidate");
    standstill.keep(&hold);
    latch.close(CloseMode::Silent).await.map(|()| 42)
}
