//! Selectors; the counterparts of Curator's `TestLeaderSelector`.

use tokio::sync::mpsc;

use crate::paused::{at_once, keepers, service, settle};
use crate::{Hold, Keeper, LeaderSelector, Requeue};
use lockkeeper_core::ErrorKind;

/// A selector whose work never ends, and the receiver of its leads.
fn endless(keeper: &Keeper, requeue: Requeue) -> (LeaderSelector, mpsc::UnboundedReceiver<Hold>) {
    let (leads, told) = mpsc::unbounded_channel();
    let selector = LeaderSelector::start(&keeper.election("e").unwrap(), requeue, move |hold| {
        leads.send(hold).unwrap();
        std::future::pending()
    });
    (selector, told)
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
