//! A hold that is lost while its holder's runtime stands still. The holder asks nothing and is told nothing, but it
//! hears of the loss when its work is done or when it gives the lock back.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes, Result};
use lockkeeper_recipes::{CloseMode, Hold, LeaderLatch, OwnerKey};
use tokio::sync::oneshot;

use crate::ask::LOCK;
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, parties};
use crate::waiting::{SOON, soon};

/// How much longer than a session timeout the runtime is blocked, so that its holder finds its hold lapsed.
const LAPSE_MARGIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    let (mutex, book) = (Modes::MUTEX, Modes::READ_WRITE);
    let cases: [(_, Loss, &[Way], Modes); 9] = [
        ("run() says so when its work never awaits and the session expires", Loss::Expired, &[Way::Run], mutex),
        ("run() says so when its work never awaits and its contender is removed", Loss::Removed, &[Way::Run], mutex),
        ("run() says so when its work never awaits and the hold lapses", Loss::Lapsed, &[Way::Run], mutex),
        (
            "a release alone tells that the contender was removed",
            Loss::Removed,
            &[Way::Release, Way::OwnersRelease],
            mutex,
        ),
        ("a release alone tells that the session has expired", Loss::Expired, &[Way::Release], mutex),
        (
            "a release of a lapsed hold says so, and not that the connection is lost",
            Loss::Lapsed,
            &[Way::Release],
            mutex,
        ),
        (
            "run_read() and run_write() say so when their work never awaits",
            Loss::Removed,
            &[Way::Read, Way::Write],
            book,
        ),
        ("leaving a double barrier says so when the place was removed", Loss::Removed, &[Way::Leave], Modes::BARRIER),
        ("closing a latch says so when its lead was removed", Loss::Removed, &[Way::Close], Modes::ELECTION),
    ];
    let case = |(name, loss, ways, uses): (_, Loss, _, _)| {
        let case = Case::with(name, (loss, ways), is_told).uses(uses).needs(loss.needs());
        // A fixture waits for a session timeout until it takes a client for one that stands still. Of a removal the end
        // of a hold hears only where it asks.
        if loss == Loss::Removed { case.given_back() } else { case.outlives_sessions() }
    };
    cases.into_iter().map(case).collect()
}

/// How the hold is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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

    const fn needs(self) -> &'static [FaultKind] {
        match self {
            Self::Expired => &[FaultKind::ExpireSession],
            Self::Removed => &[FaultKind::RemoveContender],
            Self::Lapsed => &[FaultKind::Cut],
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

async fn is_told(fixture: &dyn Fixture, (loss, ways): (Loss, &[Way])) {
    for &way in ways {
        is_lost(fixture, loss, way).await;
    }
}

/// Has a lock held on a thread whose only runtime stands still while the hold is lost; the outcome must be the loss.
async fn is_lost(fixture: &dyn Fixture, loss: Loss, way: Way) {
    let [ann, bob] = parties(fixture).await;
    let ((begun, until_begun), (go_on, end)) = (oneshot::channel(), mpsc::channel());
    let (told, outcome) = oneshot::channel();
    let holder = ann.clone();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
        // The waiting case has given up, or is told.
        let _ = told.send(runtime.block_on(way.hold(&holder, Standstill { begun, end })));
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
    assert!(reasons.contains(&error.kind()) && error.advice() == Advice::AskAgain, "{error:?}");
}

/// In which way a lock is held and given back.
#[derive(Clone, Copy, Debug)]
enum Way {
    Run,
    Read,
    Write,
    Release,
    OwnersRelease,
    Leave,
    Close,
}

impl Way {
    async fn hold(self, ann: &Party, standstill: Standstill) -> Result<u32> {
        match self {
            Self::Run => return ann.mutex(LOCK).run(|hold| standstill.work(hold)).await,
            Self::Read => return ann.rw_lock(LOCK).run_read(|hold| standstill.work(hold)).await,
            Self::Write => return ann.rw_lock(LOCK).run_write(|hold| standstill.work(hold)).await,
            Self::Release => {
                let guard = ann.lock(LOCK).await;
                standstill.keep(guard.hold());
                guard.release().await
            }
            Self::OwnersRelease => {
                let guard = OwnerKey::new().lock(&ann.mutex(LOCK)).await.expect("the lock is granted");
                standstill.keep(guard.hold());
                guard.release().await
            }
            Self::Leave => {
                let barrier = ann.keeper.double_barrier(LOCK, 1).expect("the name is valid");
                let enter = async || barrier.enter().await.expect("it has no other member to wait for");
                let entered = enter().await;
                standstill.keep(entered.hold());
                let left = entered.leave().await;
                // The next round clears the note of this one.
                enter().await.leave().await.expect("it was inside");
                left
            }
            Self::Close => {
                let latch = LeaderLatch::start(&ann.keeper.election(LOCK).expect("the name is valid"));
                standstill.keep(&latch.until_leader().await.expect("there is no other candidate"));
                latch.close(CloseMode::Silent).await
            }
        }
        .map(|()| 42)
    }
}
