//! Selectors; the counterparts of Curator's `TestLeaderSelector`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::paused::{after_pauses, at_once, keepers, service, settle};
use crate::{Hold, Keeper, LeaderSelector, Requeue};
use lockkeeper_core::{ErrorKind, SafeUntil};

/// A selector whose work never ends, and the receiver of its leads.
fn endless(keeper: &Keeper, requeue: Requeue) -> (LeaderSelector, mpsc::UnboundedReceiver<Hold>) {
    let (leads, told) = mpsc::unbounded_channel();
    let selector = LeaderSelector::start(&keeper.election("e").unwrap(), requeue, move |hold| {
        leads.send(hold).unwrap();
        std::future::pending()
    });
    (selector, told)
}

/// `testAutoRequeue` and `testRotatingLeadership`: each leads in turn, never two at once.
#[tokio::test(start_paused = true)]
async fn selectors_that_requeue_lead_in_turn_and_never_two_at_once() {
    const SELECTORS: usize = 3;
    /// Work that ends by being dropped is over too.
    struct AtWork(Arc<AtomicUsize>);
    impl Drop for AtWork {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let service = service();
    let at_work = Arc::new(AtomicUsize::new(0));
    let (done, mut order) = mpsc::unbounded_channel();
    let start = |number: usize, keeper: &Keeper| {
        let (at_work, done) = (at_work.clone(), done.clone());
        LeaderSelector::start(&keeper.election("e").unwrap(), Requeue::Always, move |_| {
            let (at_work, done) = (at_work.clone(), done.clone());
            async move {
                assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
                let at_work = AtWork(at_work);
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(at_work);
                done.send(number).unwrap();
            }
        })
    };
    let keepers = keepers::<SELECTORS>(&service);
    let selectors: Vec<_> = keepers.iter().enumerate().map(|(number, keeper)| start(number, keeper)).collect();
    for turn in 0..12 {
        assert_eq!(after_pauses("the lead", order.recv()).await, Some(turn % SELECTORS));
    }
    for selector in selectors {
        selector.close().await.unwrap();
    }
    assert!(keepers[0].contenders("e").await.unwrap().is_empty());
}

/// `testInterruptLeadership`, `testInterruption` and `testLeaderNodeDeleteOnInterrupt`.
#[tokio::test(start_paused = true)]
async fn an_interrupted_selector_resigns_and_stands_again_when_asked() {
    let keeper = service().keeper();
    let (selector, mut leads) = endless(&keeper, Requeue::WhenAsked);
    let first = at_once("the lead", leads.recv()).await.unwrap();
    assert!(selector.has_leadership());
    assert!(!selector.requeue(), "it leads");
    assert!(selector.interrupt());
    settle().await;
    assert!(!first.is_held() && !selector.has_leadership() && !selector.interrupt());
    assert!(keeper.contenders("e").await.unwrap().is_empty());
    assert!(selector.requeue());
    let second = at_once("the lead", leads.recv()).await.unwrap();
    assert!(second.fencing_token() > first.fencing_token());
}

/// `testInterruptLeadershipWithRequeue`.
#[tokio::test(start_paused = true)]
async fn an_interrupted_selector_that_requeues_lets_the_others_lead_first() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let (first, mut first_leads) = endless(&ann, Requeue::Always);
    at_once("the lead", first_leads.recv()).await.unwrap();
    let (second, mut second_leads) = endless(&bob, Requeue::Always);
    settle().await;
    assert!(second_leads.try_recv().is_err());
    assert!(first.interrupt());
    at_once("the lead", second_leads.recv()).await.unwrap();
    assert!(second.interrupt());
    at_once("the lead", first_leads.recv()).await.unwrap();
}

/// `testServerDying`, `testKillSessionThenCloseShouldElectNewLeader` and `testKillServerThenCloseShouldElectNewLeader`.
#[tokio::test(start_paused = true)]
async fn a_selector_that_loses_its_session_drops_its_work_and_the_next_one_leads() {
    struct Dropped(mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let service = service();
    let [ann, bob] = keepers(&service);
    let (drops, mut dropped) = mpsc::unbounded_channel();
    let first = LeaderSelector::start(&ann.election("e").unwrap(), Requeue::WhenAsked, move |_| {
        let dropped = Dropped(drops.clone());
        async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        }
    });
    settle().await;
    let (_second, mut second_leads) = endless(&bob, Requeue::WhenAsked);
    settle().await;
    ann.testing().unwrap().cut(SafeUntil::ProcessEnd);
    ann.testing().unwrap().expire_session();
    at_once("the end of the work", dropped.recv()).await.unwrap();
    at_once("the lead", second_leads.recv()).await.unwrap();
    assert!(!first.has_leadership());
    at_once("the close", first.close()).await.unwrap();
}

/// `testClosing` and `testRaceAtStateChanged`.
#[tokio::test(start_paused = true)]
async fn closing_a_selector_resigns_or_ends_its_candidacy() {
    let service = service();
    let [ann, bob] = keepers(&service);
    let (first, mut first_leads) = endless(&ann, Requeue::Always);
    at_once("the lead", first_leads.recv()).await.unwrap();
    let (second, mut second_leads) = endless(&bob, Requeue::Always);
    settle().await;
    second.close().await.unwrap();
    assert_eq!(ann.contenders("e").await.unwrap().len(), 1);
    first.close().await.unwrap();
    assert!(ann.contenders("e").await.unwrap().is_empty());
    assert!(second_leads.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_can_never_lead_says_why_it_is_over() {
    let keeper = service().keeper();
    let _guard = keeper.mutex("e").unwrap().lock().await.unwrap();
    let (selector, mut leads) = endless(&keeper, Requeue::Always);
    assert_eq!(at_once("the end", selector.over()).await.unwrap().kind(), ErrorKind::KindMismatch);
    assert!(at_once("the lead", leads.recv()).await.is_none());
    assert_eq!(selector.close().await.unwrap_err().kind(), ErrorKind::KindMismatch);
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_gives_up_the_lead() {
    let keeper = service().keeper();
    let election = keeper.election("e").unwrap();
    let selector = LeaderSelector::start(&election, Requeue::Always, |_| async { panic!("the work has a fault") });
    assert!(at_once("the end", selector.over()).await.is_none());
    assert!(!selector.has_leadership());
    assert!(at_once("the grant", election.campaign()).await.unwrap().hold().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_closed_keeper_ends_its_campaigns_leading_waiting_or_idle() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let idle = LeaderSelector::start(&eve.election("e").unwrap(), Requeue::WhenAsked, |_| async {});
    settle().await;
    let (leading, _leads) = endless(&ann, Requeue::Always);
    settle().await;
    let (waiting, _waits) = endless(&bob, Requeue::Always);
    settle().await;
    assert!(leading.has_leadership() && !waiting.has_leadership());
    for (keeper, selector) in [(bob, waiting), (ann, leading), (eve, idle)] {
        keeper.close().await.unwrap();
        assert_eq!(at_once("the end", selector.over()).await.expect("it failed").kind(), ErrorKind::Closed);
        assert!(!selector.requeue() && !selector.interrupt());
    }
    assert!(service.keeper().contenders("e").await.unwrap().is_empty());
}
