//! The task behind a latch and a selector: it campaigns, leads, and campaigns again.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use crate::contend::STEADY;
use crate::election::{Election, Leadership};
use crate::event::Event;
use crate::hold::Hold;
use crate::lock::Lock;
use crate::shared::KeeperStage;
use crate::shared::call::heedless;

/// For how long a selector whose work has failed does not stand again: another candidate leads first, and work that
/// fails at once is begun no more often than this.
pub(super) const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Why the work of a leader has failed: any error, so that `?` takes it.
pub type WorkError = Box<dyn std::error::Error + Send + Sync>;

/// The state of a campaigner.
#[derive(Clone, Debug)]
pub(super) enum CampaignStatus {
    /// It does not stand for election, and waits to be told to.
    Idle,
    /// It stands for election.
    Queued,
    /// It leads, while the hold may be believed.
    Leading(Hold),
    /// It is over: with an error, or because it was closed.
    Ended(Option<Error>),
}

/// Whether a selector stands for election again after it has led.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a selector stands again, or waits to be told")]
pub enum Requeue {
    /// Always, at the tail.
    #[doc(alias = "autoRequeue")]
    Always,
    /// When [`LeaderSelector::requeue`](crate::LeaderSelector::requeue) asks for it.
    #[default]
    WhenAsked,
}

/// The orders to a campaigner; two are counters, since each change is one order.
#[derive(Clone, Copy, Debug, Default)]
struct CampaignOrders {
    stop: bool,
    interrupts: u64,
    requeues: u64,
}

/// A task that campaigns. Dropping it ends the task, and with it the candidacy or the lead.
#[derive(Debug)]
pub(super) struct Campaigner {
    orders: watch::Sender<CampaignOrders>,
    status: watch::Receiver<CampaignStatus>,
    task: Mutex<CampaignTask>,
}

/// The task of a campaigner, until one of its owners has waited for its end.
#[derive(Debug)]
enum CampaignTask {
    Running(JoinHandle<Result<()>>),
    /// How it was closed.
    Over(Result<()>),
}

impl Campaigner {
    /// Starts a task on the present runtime.
    pub(super) fn start<Work, Working>(election: Election, requeue: Requeue, work: Work) -> Self
    where
        Work: FnMut(Hold) -> Working + Send + 'static,
        Working: Future<Output = Result<(), WorkError>> + Send + 'static,
    {
        let (orders, taken) = watch::channel(CampaignOrders::default());
        let (reports, status) = watch::channel(CampaignStatus::Queued);
        let task = tokio::spawn(async move {
            let mut end = CampaignEnd { lock: &election.lock, error: None };
            let (error, closed) = match campaign_on(&election, requeue, work, &taken, &reports).await {
                Ok(None) => (None, Ok(())),
                // How the lead was given up is the answer to the call that asked for it, and no failure of the
                // campaign.
                Ok(Some(lead)) => (None, lead.resign().await),
                Err(error) => (Some(error.clone()), Err(error)),
            };
            end.error = error.clone();
            drop(end);
            reports.send_replace(CampaignStatus::Ended(error));
            closed
        });
        Self { orders, status, task: Mutex::new(CampaignTask::Running(task)) }
    }

    pub(super) fn status(&self) -> &watch::Receiver<CampaignStatus> {
        &self.status
    }

    /// Returns the hold by which it leads, if it may be believed now.
    pub(super) fn leadership(&self) -> Option<Hold> {
        // The status is not borrowed any more while observers are told of a loss.
        let status = self.status.borrow().clone();
        leadership(status)
    }

    /// Ends the lead, if it leads.
    pub(super) fn interrupt(&self) -> bool {
        let leads = self.leadership().is_some();
        if leads {
            self.orders.send_modify(|orders| orders.interrupts += 1);
        }
        leads
    }

    /// Makes it stand for election again, if it does not.
    pub(super) fn requeue(&self) -> bool {
        let is_idle = matches!(*self.status.borrow(), CampaignStatus::Idle);
        if is_idle {
            self.orders.send_modify(|orders| orders.requeues += 1);
        }
        is_idle
    }

    /// Ends it, by this call, and waits until the lead is given up for certain. A panic is told to the first caller.
    pub(super) fn close(self: Arc<Self>) -> impl Future<Output = Result<()>> + Send + 'static {
        self.orders.send_modify(|orders| orders.stop = true);
        async move {
            let mut task = self.task.lock().await;
            let ended = match &mut *task {
                CampaignTask::Running(running) => running.await,
                CampaignTask::Over(outcome) => return outcome.clone(),
            };
            let (outcome, panic) = match ended {
                Ok(outcome) => (outcome, None),
                // If there was no panic, the runtime has shut down, and everything was given up with it.
                Err(ended) => (Ok(()), ended.try_into_panic().ok()),
            };
            *task = CampaignTask::Over(outcome.clone());
            drop(task);
            panic.map_or(outcome, |panic| std::panic::resume_unwind(panic))
        }
    }
}

impl Drop for Campaigner {
    fn drop(&mut self) {
        if let CampaignTask::Running(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

/// Tells observers that a campaign is over, however it ends.
struct CampaignEnd<'a> {
    lock: &'a Lock,
    error: Option<Error>,
}

impl Drop for CampaignEnd<'_> {
    fn drop(&mut self) {
        let (lock, error) = (self.lock.queue.clone(), self.error.take());
        self.lock.shared.observers.emit(&Event::CampaignEnded { lock, error });
    }
}

/// Returns the hold by which this campaigner leads, if it may be believed now.
///
/// It is asked of a copy: a loss is told to observers, and no lock may be held meanwhile.
pub(super) fn leadership(status: CampaignStatus) -> Option<Hold> {
    match status {
        CampaignStatus::Leading(hold) if hold.is_held() => Some(hold),
        _ => None,
    }
}

/// Returns the error for a caller that waits for a lead after the campaign is over.
pub(super) fn over(election: &Election, error: Option<Error>) -> Error {
    let closed = || Error::permanent(ErrorKind::Closed, Operation::Wait, "the campaign is over").at(election.name());
    error.unwrap_or_else(closed)
}

/// Waits for an order. Never ends if the sender is gone, since then the task is aborted.
async fn ordered(orders: &watch::Receiver<CampaignOrders>, is_given: impl Fn(&CampaignOrders) -> bool + Send + Sync) {
    if orders.clone().wait_for(|orders| is_given(orders)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Hears of a request to give the lead up, of which observers are told. Ends with it only if it is to be answered.
async fn asked(hold: &Hold, is_resigning: bool) {
    hold.revoked().await;
    if !is_resigning {
        std::future::pending::<()>().await;
    }
}

/// Campaigns and leads until it is stopped, or fails for good; returns the lead that it has when it is stopped.
async fn campaign_on<Work, Working>(
    election: &Election,
    requeue: Requeue,
    mut work: Work,
    orders: &watch::Receiver<CampaignOrders>,
    reports: &watch::Sender<CampaignStatus>,
) -> Result<Option<Leadership>>
where
    Work: FnMut(Hold) -> Working + Send,
    Working: Future<Output = Result<(), WorkError>> + Send,
{
    let shared = &election.lock.shared;
    loop {
        reports.send_replace(CampaignStatus::Queued);
        let guard = tokio::select! {
            biased;
            () = ordered(orders, |orders| orders.stop) => return Ok(None),
            guard = elected(election) => guard?,
        };
        let hold = guard.hold().clone();
        let CampaignOrders { interrupts, requeues, .. } = *orders.borrow();
        reports.send_replace(CampaignStatus::Leading(hold.clone()));
        let done = tokio::select! {
            biased;
            () = ordered(orders, |orders| orders.stop) => {
                reports.send_replace(CampaignStatus::Ended(None));
                return Ok(Some(guard));
            }
            () = ordered(orders, |orders| orders.interrupts != interrupts) => Ok(()),
            _ = hold.lost() => Ok(()),
            () = asked(&hold, election.is_resigning) => Ok(()),
            done = work(hold.clone()) => done,
        };
        reports.send_replace(match requeue {
            Requeue::Always => CampaignStatus::Queued,
            Requeue::WhenAsked => CampaignStatus::Idle,
        });
        // A lead that cannot be given up now is given up in the background.
        let _ = guard.resign().await;
        let pause = done.is_err().then_some(FAILURE_PAUSE);
        if let Err(error) = done {
            let (lock, token) = (election.name().clone(), hold.fencing_token());
            shared.observers.emit(&Event::WorkFailed { lock, token, error: error.into() });
        }
        let again = async {
            match (requeue, pause) {
                (Requeue::Always, None) => {}
                (Requeue::Always, Some(pause)) => {
                    shared.clock.sleep_until(shared.clock.now().saturating_add(pause)).await;
                }
                (Requeue::WhenAsked, _) => ordered(orders, |orders| orders.requeues != requeues).await,
            }
        };
        tokio::select! {
            biased;
            () = ordered(orders, |orders| orders.stop) => return Ok(None),
            closed = shared.until(KeeperStage::Drained) => return Err(closed.at(election.name())),
            () = again => {}
        }
    }
}

/// Waits to lead. A candidate that is removed stands again, no faster than the retry policy allows.
async fn elected(election: &Election) -> Result<Leadership> {
    let shared = &election.lock.shared;
    let mut started = shared.clock.now();
    let mut failed = 0_u32;
    loop {
        let stood_from = shared.clock.now();
        let error = match heedless(!election.is_resigning, election.campaign()).await {
            Err(error) if error.kind() == ErrorKind::Removed => error,
            outcome => return outcome,
        };
        let now = shared.clock.now();
        if now.saturating_duration_since(stood_from) >= STEADY {
            (failed, started) = (0, now);
        }
        failed = failed.saturating_add(1);
        let Some(delay) = shared.delay(failed, started) else {
            return Err(error);
        };
        shared.observers.emit(&Event::Retrying { lock: election.name().clone(), attempt: failed, delay, error });
        shared.clock.sleep_until(now.saturating_add(delay)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use parking_lot::Mutex as SyncMutex;

    use super::*;
    use crate::event::Observer;
    use crate::tests::service;
    use lockkeeper_core::SafeUntil;

    /// Longer than any machine needs for a call that does not wait.
    const LONG: Duration = Duration::from_secs(20);

    /// Reports another status when it is told of a loss, as the campaign's task does at that moment.
    #[derive(Debug)]
    struct Reporting(SyncMutex<Option<watch::Sender<CampaignStatus>>>, SyncMutex<mpsc::Sender<bool>>);

    impl Observer for Reporting {
        fn on_event(&self, event: &Event) {
            if !matches!(event, Event::Lost { .. }) {
                return;
            }
            let status = self.0.lock().take().expect("the hold is lost once");
            let (done, is_done) = mpsc::channel();
            let reporting = thread::spawn(move || {
                status.send_replace(CampaignStatus::Queued);
                let _ = done.send(());
            });
            self.1.lock().send(is_done.recv_timeout(LONG).is_ok()).unwrap();
            drop(reporting);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_that_is_noticed_by_asking_who_leads_is_told_while_no_lock_is_held() {
        let service = service();
        let (reports, status) = watch::channel(CampaignStatus::Queued);
        let task = Mutex::new(CampaignTask::Over(Ok(())));
        let campaigner = Campaigner { orders: watch::Sender::new(CampaignOrders::default()), status, task };
        let (told, was_told) = mpsc::channel();
        let observer = Arc::new(Reporting(SyncMutex::new(Some(reports.clone())), SyncMutex::new(told)));
        let keeper = service.keeper_builder().observer(observer).build();
        let guard = keeper.election("lead").unwrap().campaign().await.unwrap();
        reports.send_replace(CampaignStatus::Leading(guard.hold().clone()));
        let testing = keeper.testing().unwrap();
        testing.cut(SafeUntil::ProcessEnd);
        testing.expire_session();
        testing.heal();
        while campaigner.leadership().is_some() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(was_told.try_recv().expect("the loss is told by then"), "the status could not be reported");
    }
}
