//! Selectors; the counterparts of Curator's `TestLeaderSelector`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::{Answers, ErrorKind, Revocation, Wait};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::election::campaign::FAILURE_PAUSE;
use crate::event::Observer;
use crate::tests::{after_pauses, at_once, keepers, service, settle};
use crate::{Event, Hold, Keeper, LeaderLatch, LeaderSelector, Requeue};

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

/// Counts the requests that it is told of.
#[derive(Debug, Default)]
struct Heard(AtomicUsize);

impl Observer for Heard {
    fn on_event(&self, event: &Event) {
        self.0.fetch_add(usize::from(matches!(event, Event::Revoked { .. })), Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_to_give_the_lead_up_is_heard_and_answered_where_the_program_asked_for_that() {
    let service = service();
    let [ann, bob, operator] = keepers(&service);
    let ask = |wait| operator.admin().revoke("e", Revocation::new(Some("deploy".to_owned()), None), wait);
    let leader = async || operator.contenders("e").await.unwrap().remove(0);
    // It leads on, and shows that it may.
    let heard = Arc::new(Heard::default());
    let heedless = service.keeper_builder().observer(heard.clone()).build();
    let (selector, mut leads) = endless(&heedless, Requeue::Always);
    let lead = at_once("the lead", leads.recv()).await.unwrap();
    assert_eq!(leader().await.answers, Answers::Unknown);
    assert!(ask(Wait::AtMost(Duration::from_secs(60))).await.unwrap().is_none());
    assert!(lead.is_held() && selector.has_leadership());
    assert_eq!(heard.0.load(Ordering::SeqCst), 1, "its observer hears of it once");
    selector.close().await.unwrap();
    // Those that resign: the lead goes from one to the other.
    let latch = LeaderLatch::start(&ann.election("e").unwrap().resigning());
    let first = at_once("the lead", latch.until_leader()).await.unwrap();
    assert_eq!(leader().await.answers, Answers::Yes);
    let second = LeaderLatch::start(&bob.election("e").unwrap().resigning());
    settle().await;
    assert!(ask(Wait::Forever).await.unwrap().is_some());
    assert!(at_once("the next lead", second.until_leader()).await.unwrap().is_held());
    assert!(!first.is_held() && !latch.has_leadership());
}

#[tokio::test(start_paused = true)]
async fn a_closed_keeper_ends_its_campaigns_leading_waiting_or_idle() {
    let service = service();
    let [ann, bob, eve] = keepers(&service);
    let idle = LeaderSelector::start(&eve.election("e").unwrap(), Requeue::WhenAsked, |_| async { Ok(()) });
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

/// What the work of selectors has failed with.
#[derive(Debug, Default)]
struct Failures(Mutex<Vec<String>>);

impl Observer for Failures {
    fn on_event(&self, event: &Event) {
        if let Event::WorkFailed { error, .. } = event {
            self.0.lock().push(error.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_gives_the_lead_up_is_told_to_the_owner_and_is_begun_again_after_a_pause() {
    let service = service();
    let failures = Arc::new(Failures::default());
    let ann = service.keeper_builder().observer(failures.clone()).build();
    let (terms, mut led) = mpsc::unbounded_channel();
    let failing = LeaderSelector::start(&ann.election("e").unwrap(), Requeue::Always, move |hold| {
        terms.send((hold, tokio::time::Instant::now())).unwrap();
        async { Err("no paper".into()) }
    });
    let (first, begun) = at_once("the lead", led.recv()).await.unwrap();
    let (next, mut leads) = endless(&service.keeper(), Requeue::WhenAsked);
    let lead = at_once("the next lead", leads.recv()).await.unwrap();
    assert!(!first.is_held() && lead.is_held(), "another leads meanwhile");
    assert_eq!(*failures.0.lock(), ["no paper"]);
    assert!(led.try_recv().is_err());
    next.close().await.unwrap();
    let (again, begun_again) = after_pauses("the lead", led.recv()).await.unwrap();
    assert!(begun_again.saturating_duration_since(begun) >= FAILURE_PAUSE);
    assert!(again.fencing_token() > first.fencing_token());
    at_once("the close", failing.close()).await.unwrap();
    assert!(service.keeper().contenders("e").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_is_not_begun_again_by_a_selector_that_waits_to_be_asked() {
    let keeper = service().keeper();
    let (terms, mut led) = mpsc::unbounded_channel();
    let selector = LeaderSelector::start(&keeper.election("e").unwrap(), Requeue::WhenAsked, move |_| {
        terms.send(()).unwrap();
        async { Err("no paper".into()) }
    });
    at_once("the lead", led.recv()).await.unwrap();
    tokio::time::sleep(100 * FAILURE_PAUSE).await;
    assert!(led.try_recv().is_err() && keeper.contenders("e").await.unwrap().is_empty());
    assert!(selector.requeue());
    at_once("the lead", led.recv()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_selector_lives_as_long_as_a_clone_and_is_closed_by_any_of_them_more_than_once() {
    let keeper = service().keeper();
    let (selector, mut leads) = endless(&keeper, Requeue::Always);
    let hold = at_once("the lead", leads.recv()).await.unwrap();
    let clone = selector.clone();
    drop(selector);
    settle().await;
    assert!(clone.has_leadership() && hold.is_held());
    let closed = clone.clone();
    for selector in [&clone, &closed, &clone] {
        at_once("the close", selector.close()).await.unwrap();
        assert!(!hold.is_held() && !selector.has_leadership() && !selector.interrupt());
    }
    let (selector, mut leads) = endless(&keeper, Requeue::Always);
    let clone = selector.clone();
    let hold = at_once("the lead", leads.recv()).await.unwrap();
    drop((selector, clone));
    settle().await;
    assert!(!hold.is_held(), "no clone is left");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_work_is_told_to_the_first_that_closes_the_selector_and_to_no_other() {
    let keeper = service().keeper();
    let selector = LeaderSelector::start(&keeper.election("e").unwrap(), Requeue::Always, |_| async {
        if true {
            std::panic::resume_unwind(Box::new("planned"));
        }
        Ok(())
    });
    assert!(at_once("the end", selector.over()).await.is_none());
    let panicked = tokio::spawn(selector.close()).await.unwrap_err();
    assert_eq!(panicked.into_panic().downcast_ref(), Some(&"planned"));
    at_once("the close", selector.close()).await.unwrap();
}
