//! Tests of the metrics, on the memory backend: each outcome, gauges that come back to zero, losses and labels.

use std::collections::BTreeMap;
use std::time::Duration;

use ::metrics::LocalRecorderGuard;
use lockkeeper_core::{LossReason, NamePattern, QueueName, SafeUntil, Wait};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::event::Observer;
use crate::event::meter::Happened::{Closed, Lost, Opened};
use crate::event::meter::{SessionCount, names};
use crate::tests::{keepers, service, yield_often};
use crate::{Handoff, Keeper, Mutex, OwnerKey};

const SECOND: Duration = Duration::from_secs(1);

/// A recorder of this thread while it lives.
struct Recorded {
    told: Snapshotter,
    /// The sums of what was read of counters and gauges.
    values: BTreeMap<String, f64>,
    /// What was read of histograms.
    samples: BTreeMap<String, Vec<f64>>,
    _guard: LocalRecorderGuard<'static>,
}

impl Recorded {
    fn start() -> Self {
        let recorder = Box::leak(Box::new(DebuggingRecorder::new()));
        Self {
            told: recorder.snapshotter(),
            values: BTreeMap::new(),
            samples: BTreeMap::new(),
            _guard: ::metrics::set_default_local_recorder(recorder),
        }
    }

    /// All values, by a name such as `lockkeeper_lost_total{reason=expired}`. Reading takes out what came since.
    fn values(&mut self) -> BTreeMap<String, f64> {
        for (key, _, _, value) in self.told.snapshot().into_vec() {
            let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            match value {
                DebugValue::Counter(count) => *self.values.entry(name).or_default() += count as f64,
                DebugValue::Gauge(change) => *self.values.entry(name).or_default() += change.into_inner(),
                DebugValue::Histogram(samples) => {
                    self.samples.entry(name).or_default().extend(samples.into_iter().map(|sample| sample.into_inner()));
                }
            }
        }
        self.values.clone()
    }

    fn value(&mut self, name: &str) -> f64 {
        let values = self.values();
        *values.get(name).unwrap_or_else(|| panic!("{name} is not in {values:?}"))
    }

    /// The samples so far of a histogram.
    fn samples(&mut self, name: &str) -> Vec<f64> {
        self.values();
        self.samples.get(name).cloned().unwrap_or_default()
    }

    /// The times of calls for a mutex that ended in this way.
    fn calls(&mut self, outcome: &str) -> Vec<f64> {
        self.samples(&format!("lockkeeper_acquire_seconds{{backend=memory,kind=mutex,outcome={outcome}}}"))
    }

    /// How many wait for a mutex, and how many hold one.
    fn gauges(&mut self) -> (f64, f64) {
        let gauge = |name| format!("{name}{{backend=memory,kind=mutex}}");
        (self.value(&gauge(names::WAITERS)), self.value(&gauge(names::HELD)))
    }
}

/// Starts a task that waits for the mutex.
async fn waiting(mutex: &Mutex) -> tokio::task::JoinHandle<lockkeeper_core::Result<crate::MutexGuard>> {
    let waiting = tokio::spawn(mutex.clone().lock_owned());
    yield_often().await;
    waiting
}

#[tokio::test(start_paused = true)]
async fn each_outcome_of_a_call_is_recorded_once_with_its_time() {
    let mut recorded = Recorded::start();
    let [ann, bob] = keepers(&service());
    let (held, mutex) = (ann.mutex("door").unwrap(), bob.mutex("door").unwrap());
    let guard = held.lock().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(mutex.lock_timeout(2 * SECOND).await.unwrap().is_none());
    let dropped = waiting(&mutex).await;
    let removed = waiting(&mutex).await;
    let kept = waiting(&mutex).await;
    assert_eq!(recorded.gauges(), (3.0, 1.0));
    tokio::time::sleep(3 * SECOND).await;
    dropped.abort();
    let place = bob.contenders("door").await.unwrap()[2].id.clone();
    bob.testing().unwrap().remove_contender("door", &place).unwrap();
    assert!(removed.await.unwrap().is_err());
    tokio::time::sleep(SECOND).await;
    guard.release().await.unwrap();
    drop(kept.await.unwrap().unwrap());
    bob.close().await.unwrap();
    assert!(mutex.lock().await.is_err());
    assert_eq!(recorded.calls("granted"), [0.0, 4.0]);
    assert_eq!(recorded.calls("busy"), [0.0]);
    assert_eq!(recorded.calls("timeout"), [2.0]);
    assert_eq!(recorded.calls("cancelled"), [3.0]);
    assert_eq!(recorded.calls("lost"), [3.0]);
    assert_eq!(recorded.calls("error"), [0.0]);
    assert_eq!(recorded.samples("lockkeeper_hold_seconds{backend=memory,kind=mutex}"), [6.0, 0.0]);
    assert_eq!(recorded.value("lockkeeper_timeouts_total{}"), 1.0);
    assert_eq!(recorded.gauges(), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn gauges_come_back_to_zero_after_a_panic_a_lost_session_and_the_end_of_a_task() {
    let mut recorded = Recorded::start();
    let [ann, bob] = keepers(&service());
    let mutex = ann.mutex("door").unwrap();
    let panicking = tokio::spawn({
        let mutex = mutex.clone();
        async move {
            let _guard = mutex.lock().await.unwrap();
            panic!("it is meant to");
        }
    });
    assert!(panicking.await.unwrap_err().is_panic());
    assert_eq!(recorded.gauges(), (0.0, 0.0));
    let guard = mutex.lock().await.unwrap();
    let lost = waiting(&bob.mutex("door").unwrap()).await;
    assert_eq!(recorded.gauges(), (1.0, 1.0));
    tokio::time::sleep(5 * SECOND).await;
    ann.testing().unwrap().expire_session();
    yield_often().await;
    // The guard is still there; what it held is not.
    assert!(lost.await.unwrap().is_ok());
    assert_eq!(recorded.gauges(), (0.0, 0.0));
    assert_eq!(recorded.samples("lockkeeper_hold_seconds{backend=memory,kind=mutex}"), [0.0, 5.0, 0.0]);
    drop(guard);
    assert_eq!(recorded.gauges(), (0.0, 0.0));
    assert_eq!(recorded.samples("lockkeeper_hold_seconds{backend=memory,kind=mutex}").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_hand_off_are_counted_though_they_stand_in_no_queue() {
    let mut recorded = Recorded::start();
    let keeper = service().keeper();
    for handoff in [Handoff::local(), Handoff::sticky()] {
        let mutex = keeper.mutex("door").unwrap().handoff(handoff);
        let guard = mutex.lock().await.unwrap();
        let waiters = [waiting(&mutex).await, waiting(&mutex).await, waiting(&mutex).await];
        assert_eq!(keeper.contenders("door").await.unwrap().len(), 1);
        assert_eq!(recorded.gauges(), (3.0, 1.0));
        waiters[1].abort();
        yield_often().await;
        assert_eq!(recorded.gauges(), (2.0, 1.0));
        drop(guard);
        let [first, _, last] = waiters;
        drop(first.await.unwrap().unwrap());
        drop(last.await.unwrap().unwrap());
        assert_eq!(recorded.gauges(), (0.0, 0.0));
        // The next policy has a separate contender, for which the idle place leaves.
        tokio::time::sleep(5 * SECOND).await;
    }
    assert_eq!((recorded.calls("granted").len(), recorded.calls("cancelled").len()), (6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_place_in_line_waits_until_it_is_granted_or_dropped() {
    let mut recorded = Recorded::start();
    let service = service();
    let mutex = service.keeper().mutex("door").unwrap();
    let guard = service.keeper().mutex("door").unwrap().lock().await.unwrap();
    let mut place = mutex.queue_up().await.unwrap();
    assert!(place.granted_within(Wait::AtMost(SECOND)).await.unwrap().is_none());
    let other = mutex.queue_up().await.unwrap();
    assert_eq!(recorded.gauges(), (2.0, 1.0));
    drop(other);
    assert_eq!(recorded.gauges(), (1.0, 1.0));
    drop(guard);
    let guard = place.granted().await.unwrap();
    assert_eq!(recorded.gauges(), (0.0, 1.0));
    drop(guard);
    assert_eq!((recorded.calls("granted"), recorded.calls("cancelled")), (vec![0.0, 1.0], vec![0.0]));
    assert!(recorded.calls("timeout").is_empty(), "the place was kept");
}

#[tokio::test(start_paused = true)]
async fn every_permit_of_a_call_is_held_and_the_call_is_one() {
    let mut recorded = Recorded::start();
    let semaphore = service().keeper().semaphore("slots", 3).unwrap();
    let permits = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(recorded.value("lockkeeper_held{backend=memory,kind=semaphore}"), 3.0);
    drop(permits);
    assert_eq!(recorded.value("lockkeeper_held{backend=memory,kind=semaphore}"), 0.0);
    assert_eq!(recorded.value("lockkeeper_waiters{backend=memory,kind=semaphore}"), 0.0);
    let calls = recorded.samples("lockkeeper_acquire_seconds{backend=memory,kind=semaphore,outcome=granted}");
    assert_eq!(calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_locks_again_asks_for_nothing_and_one_that_waits_for_itself_is_a_waiter() {
    let mut recorded = Recorded::start();
    let service = service();
    let mutex = service.keeper().mutex("door").unwrap();
    let owner = OwnerKey::new();
    let (first, again) = (owner.lock(&mutex).await.unwrap(), owner.lock(&mutex).await.unwrap());
    assert_eq!((recorded.calls("granted").len(), recorded.gauges()), (1, (0.0, 1.0)));
    drop((first, again));
    let other = service.keeper().mutex("door").unwrap().lock().await.unwrap();
    let tasks = [0, 1].map(|_| {
        let (owner, mutex) = (owner.clone(), mutex.clone());
        tokio::spawn(async move { owner.lock_within(&mutex, Wait::AtMost(SECOND)).await })
    });
    yield_often().await;
    assert_eq!(recorded.gauges(), (2.0, 1.0));
    for task in tasks {
        assert!(task.await.unwrap().unwrap().is_none());
    }
    drop(other);
    assert_eq!((recorded.calls("timeout"), recorded.gauges()), (vec![1.0, 1.0], (0.0, 0.0)));
}

/// Loses a hold in some way, and returns the counted reason.
#[expect(clippy::future_not_send, reason = "the recorder is of one thread")]
async fn reason(recorded: &mut Recorded, lose: impl AsyncFnOnce(&Keeper)) -> String {
    let before = recorded.values();
    let keeper = service().keeper();
    let guard = keeper.mutex("door").unwrap().max_hold(100 * SECOND).lock().await.unwrap();
    lose(&keeper).await;
    guard.hold().lost().await;
    drop(guard);
    let after = recorded.values();
    let is_more =
        |name: &&String| name.starts_with(names::LOST_TOTAL) && after[*name] > *before.get(*name).unwrap_or(&0.0);
    let more: Vec<_> = after.keys().filter(is_more).cloned().collect();
    assert_eq!(more.len(), 1, "{more:?}");
    more.concat()
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_counted_once_with_its_reason() {
    let mut recorded = Recorded::start();
    let told = &mut recorded;
    let expired = reason(told, async |keeper| keeper.testing().unwrap().expire_session()).await;
    assert_eq!(expired, "lockkeeper_lost_total{reason=expired}");
    let lapsed = reason(told, async |keeper| {
        let until = keeper.shared.clock.now().saturating_add(SECOND);
        keeper.testing().unwrap().cut(SafeUntil::At(until));
    });
    assert_eq!(lapsed.await, "lockkeeper_lost_total{reason=lapsed}");
    assert_eq!(reason(told, async |_| ()).await, "lockkeeper_lost_total{reason=max_hold}");
    let closed = reason(told, async |keeper| drop(keeper.close().await)).await;
    assert_eq!(closed, "lockkeeper_lost_total{reason=closed}");
    let removed = reason(told, async |keeper| {
        let id = keeper.contenders("door").await.unwrap()[0].id.clone();
        keeper.testing().unwrap().remove_contender("door", &id).unwrap();
    });
    assert_eq!(removed.await, "lockkeeper_lost_total{reason=removed}");
    let broken = reason(told, async |keeper| {
        let token = keeper.contenders("door").await.unwrap()[0].token.unwrap();
        keeper.admin().break_lock("door", token).await.unwrap();
    });
    assert_eq!(broken.await, "lockkeeper_lost_total{reason=broken}");
}

#[tokio::test(start_paused = true)]
async fn retries_reconnections_and_what_was_left_at_a_renewal_are_recorded() {
    let mut recorded = Recorded::start();
    let keeper = service().keeper();
    let testing = keeper.testing().unwrap();
    let mutex = keeper.mutex("door").unwrap();
    let guard = mutex.lock().await.unwrap();
    testing.cut(SafeUntil::At(keeper.shared.clock.now().saturating_add(10 * SECOND)));
    let retrying = waiting(&keeper.mutex("gate").unwrap()).await;
    tokio::time::sleep(4 * SECOND).await;
    testing.heal();
    drop(retrying.await.unwrap().unwrap());
    assert!(recorded.value("lockkeeper_retries_total{}") >= 1.0);
    assert_eq!(recorded.value("lockkeeper_reconnections_total{}"), 1.0);
    assert_eq!(recorded.samples("lockkeeper_margin_seconds{backend=memory}"), [6.0]);
    testing.expire_session();
    yield_often().await;
    drop(guard);
    drop(mutex.lock().await.unwrap());
    assert_eq!(recorded.value("lockkeeper_reconnections_total{}"), 2.0);
}

#[tokio::test(start_paused = true)]
async fn a_lock_has_a_label_only_if_it_is_allowed() {
    let mut recorded = Recorded::start();
    let service = service();
    let labelled = service.keeper_builder().label_locks([NamePattern::new("nightly-*").unwrap()]).build();
    for keeper in [service.keeper(), labelled] {
        for name in ["nightly-backup", "job-17", "job-18"] {
            let mutex = keeper.mutex(name).unwrap();
            let _guard = mutex.lock().await.unwrap();
            assert!(mutex.lock_timeout(SECOND).await.unwrap().is_none());
        }
    }
    let values = recorded.values();
    let timeouts: Vec<_> = values.iter().filter(|(name, _)| name.starts_with(names::TIMEOUTS_TOTAL)).collect();
    let expected = [
        ("lockkeeper_timeouts_total{lock=nightly-backup}", 1.0),
        ("lockkeeper_timeouts_total{lock=other}", 2.0),
        ("lockkeeper_timeouts_total{}", 3.0),
    ];
    assert_eq!(
        timeouts,
        expected.map(|(name, count)| (name.to_owned(), count)).iter().map(|(n, c)| (n, c)).collect::<Vec<_>>()
    );
    assert!(values.contains_key("lockkeeper_waiters{backend=memory,kind=mutex,lock=other}"), "{values:?}");
    assert!(!values.keys().any(|name| name.contains("job-")), "{values:?}");
}

#[test]
fn a_thousand_locks_have_labels_and_all_others_share_one() {
    let mut recorded = Recorded::start();
    let keeper = service().keeper_builder().label_locks([NamePattern::new("*").unwrap()]).build();
    for number in 0..1_500 {
        keeper.mutex(&format!("job-{number}")).unwrap();
        // It is known already.
        keeper.mutex("job-0").unwrap();
    }
    let values = recorded.values();
    let labels = values.keys().filter(|name| name.starts_with(names::TIMEOUTS_TOTAL)).count();
    assert_eq!(labels, 1_000);
    assert!(values.contains_key("lockkeeper_timeouts_total{lock=job-998}"));
    assert!(values.contains_key("lockkeeper_timeouts_total{lock=other}"));
}

#[test]
fn every_reason_of_a_loss_has_a_label() {
    let mut recorded = Recorded::start();
    let meters = &service().keeper().shared.meters;
    let lock = QueueName::new("door").unwrap();
    // A hold that was given back is not lost, and is not told as one.
    let reasons = LossReason::ALL.into_iter().filter(|&reason| reason != LossReason::Released);
    let expected: Vec<_> =
        reasons.clone().map(|reason| format!("{}{{reason={}}}", names::LOST_TOTAL, reason.as_str())).collect();
    for reason in reasons {
        let token = lockkeeper_core::FencingToken::new(1, 0).unwrap();
        meters.on_event(&crate::Event::Lost { lock: lock.clone(), token, reason, late: Duration::ZERO });
    }
    let values = recorded.values();
    let counted = values.iter().filter(|(name, count)| name.starts_with(names::LOST_TOTAL) && **count == 1.0);
    assert_eq!(counted.map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
}

/// The loss of a session may be told after the next one was opened.
#[test]
fn only_a_session_behind_a_lost_one_is_a_reconnection_in_whichever_order_that_is_told() {
    for (happened, reconnections) in [
        (&[Opened, Lost, Opened, Lost, Opened][..], &[0, 0, 1, 0, 1][..]),
        (&[Opened, Opened, Lost, Opened, Lost], &[0, 0, 1, 0, 1]),
        (&[Opened, Closed, Opened, Closed], &[0; 4]),
        (&[Opened, Opened, Closed, Lost, Opened], &[0, 0, 0, 0, 1]),
        (&[Lost, Opened], &[0, 0]),
    ] {
        let mut sessions = SessionCount::default();
        let counted: Vec<_> = happened.iter().map(|&happened| sessions.take(happened)).collect();
        assert_eq!(counted, reconnections, "{happened:?}");
    }
}
