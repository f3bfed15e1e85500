//! The promises of several locks at once, on the memory backend.

use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{Advice, ErrorKind, LossReason, SafeUntil, Wait};

use crate::keeper::memory::MemoryService;
use crate::retry::RetryPolicy;
use crate::tests::{service, yield_often};
use crate::{Event, Keeper, Member, MultiLock, Observer, OwnerKey};

const TIMEOUT: Duration = Duration::from_secs(2);

fn multi(keeper: &Keeper, names: &[&str]) -> MultiLock {
    MultiLock::new(names.iter().map(|name| keeper.mutex(name).unwrap())).unwrap()
}

async fn counts(keeper: &Keeper, names: &[&str]) -> Vec<usize> {
    let mut counts = Vec::new();
    for name in names {
        counts.push(keeper.contenders(name).await.unwrap().len());
    }
    counts
}

/// Records grants and releases.
#[derive(Debug, Default)]
struct Log(StdMutex<Vec<String>>);

impl Observer for Log {
    fn on_event(&self, event: &Event) {
        let line = match event {
            Event::Granted { lock, .. } => format!("+{lock}"),
            Event::Released { lock, .. } => format!("-{lock}"),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Log {
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

#[tokio::test(start_paused = true)]
async fn in_any_given_order_they_are_taken_by_name_and_given_back_in_reverse() {
    let log = Arc::new(Log::default());
    let service = service();
    let keeper = service.keeper_builder().observer(log.clone()).build();
    for names in [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]] {
        let lock = multi(&keeper, &names);
        lock.lock().await.unwrap().release().await.unwrap();
        assert_eq!(log.take(), "+a +b +c -c -b -a");
        drop(lock.try_lock().await.unwrap());
        assert_eq!(log.take(), "+a +b +c -c -b -a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_answers_for_all_of_its_locks() {
    let (keeper, other) = (service().keeper(), service().keeper());
    let members = [keeper.mutex("b").unwrap(), other.mutex("a").unwrap()];
    let guard = MultiLock::new(members).unwrap().lock().await.unwrap();
    let names: Vec<_> = guard.fencing_tokens().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(guard.is_held());
    assert!(tokio::time::timeout(TIMEOUT, guard.lost()).await.is_err());
    keeper.testing().unwrap().expire_session();
    let (name, reason) = guard.lost().await;
    assert_eq!((name.as_str(), reason), ("b", LossReason::Expired));
    assert!(!guard.is_held());
    assert_eq!(guard.holds().filter(|hold| hold.is_held()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_on_the_way_is_had_again_before_all_are_granted() {
    let (keeper, other) = (service().keeper(), service().keeper());
    let last = other.mutex("b").unwrap().lock().await.unwrap();
    let members = [keeper.mutex("a").unwrap(), other.mutex("b").unwrap()];
    let lock = MultiLock::new(members).unwrap();
    let waiting = tokio::spawn(async move { lock.lock().await });
    yield_often().await;
    keeper.testing().unwrap().expire_session();
    yield_often().await;
    // It waits for no further lock while an earlier hold is gone.
    assert_eq!(other.contenders("b").await.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(other.contenders("b").await.unwrap().len(), 2);
    last.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_lost_on_the_way_ends_the_wait_where_nothing_is_tried_again() {
    let service = service();
    let (keeper, other) = (service.keeper_builder().retry(RetryPolicy::none()).build(), service.keeper());
    let last = other.mutex("b").unwrap().lock().await.unwrap();
    let lock = multi(&keeper, &["a", "b"]);
    let waiting = tokio::spawn(async move { lock.lock().await });
    yield_often().await;
    keeper.testing().unwrap().expire_session();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Lost(LossReason::Expired), Advice::Transient));
    assert_eq!(counts(&keeper, &["a", "b"]).await, [0, 1]);
    drop(last);
}

#[tokio::test(start_paused = true)]
async fn time_that_is_up_while_a_service_is_cut_off_is_a_transient_error_on_time() {
    let clock = Arc::new(TestClock::new());
    let services = [MemoryService::new(clock.clone()), MemoryService::new(clock.clone())];
    let [keeper, other] = services.each_ref().map(MemoryService::keeper);
    other.testing().unwrap().cut(SafeUntil::ProcessEnd);
    let members = [keeper.mutex("a").unwrap(), other.mutex("b").unwrap()];
    let start = clock.now();
    let error = MultiLock::new(members).unwrap().lock_timeout(TIMEOUT).await.unwrap_err();
    assert_eq!((error.kind(), error.advice()), (ErrorKind::ConnectionLost, Advice::Transient));
    assert_eq!(clock.now().saturating_duration_since(start), TIMEOUT);
    assert_eq!(counts(&keeper, &["a"]).await, [0]);
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_has_already_counts() {
    let keeper = service().keeper();
    let (a, book) = (keeper.mutex("a").unwrap(), keeper.rw_lock("book").unwrap());
    let locks = MultiLock::new([a.clone().into(), Member::read(book.clone())]).unwrap();
    let owner = OwnerKey::new();
    let (door, write) = (owner.lock(&a).await.unwrap(), owner.write(&book).await.unwrap());
    let all = owner.lock_all_within(&locks, Wait::No).await.unwrap().expect("they are ours");
    assert!(locks.try_lock().await.unwrap().is_none());
    assert_eq!(counts(&keeper, &["a", "book"]).await, [1, 2]);
    drop((door, write));
    assert!(all.is_held());
    drop(owner.lock_all(&locks).await.unwrap());
    let alone = MultiLock::new([Member::write(book)]).unwrap();
    assert_eq!(
        owner.lock_all_within(&alone, Wait::AtMost(TIMEOUT)).await.unwrap_err().kind(),
        ErrorKind::WouldDeadlock
    );
    all.release().await.unwrap();
    assert_eq!(counts(&keeper, &["a", "book"]).await, [0, 0]);
}
