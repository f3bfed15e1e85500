//! Findings of services that show what a test says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lockkeeper_core::{BoxFuture, ContenderId, Error, ErrorKind, Operation};

use super::*;

const NOW: Duration = Duration::from_secs(1_000 * 3_600);

/// A service that shows one lock, and others with the same contenders, and what was left.
#[derive(Debug, Default)]
struct Shown {
    contenders: Vec<ContenderInfo>,
    others: usize,
    looks: Arc<AtomicUsize>,
    left: Mutex<Vec<Remnant>>,
    refuses: Option<fn() -> Error>,
}

impl AdminBackend for Shown {
    fn inspect(&self, _queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>> {
        let (looks, contenders) = (self.looks.clone(), self.contenders.clone());
        assert!(looks.fetch_add(1, Ordering::SeqCst) < LOOKS_AT_ONCE_MAX);
        Box::pin(async move {
            tokio::task::yield_now().await;
            looks.fetch_sub(1, Ordering::SeqCst);
            Ok(contenders)
        })
    }

    fn queues(&self, _prefix: &str) -> BoxFuture<Result<Vec<QueueName>>> {
        let others = (0..self.others).map(|number| format!("other {number:02}"));
        let locks = std::iter::once("door".to_owned()).chain(others);
        let locks: Vec<_> = locks.map(|lock| QueueName::new(&lock).expect("a name")).collect();
        Box::pin(std::future::ready(self.refuses.map_or(Ok(locks), |refuse| Err(refuse()))))
    }

    fn remnants(&self, unused_for: Duration) -> BoxFuture<Result<Vec<Remnant>>> {
        assert_eq!(unused_for, UNUSED_FOR);
        Box::pin(std::future::ready(Ok(self.left.lock().expect("no task panics").clone())))
    }
}

fn frozen(hours: u64) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new("a"), Mode::Mutex);
    info.frozen = Some("new disks".to_owned());
    info.since_unix = NOW.checked_sub(Duration::from_secs(hours * 3_600));
    info
}

async fn told(shown: Shown) -> Vec<String> {
    let found = examine_locks(&shown, NOW).await.expect("it can be looked at");
    found.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_lock_that_is_frozen_for_more_than_a_day_is_told_with_its_reason() {
    let mut held = frozen(100);
    held.frozen = None;
    let told = told(Shown { contenders: vec![frozen(24), frozen(25), held], ..Shown::default() }).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("warning: door has been frozen for 25 hours: new disks: "), "{told:?}");
}

#[tokio::test]
async fn what_was_left_is_told_once_for_each_kind() {
    let remnants = [RemnantKind::Empty, RemnantKind::Empty, RemnantKind::Dead, RemnantKind::Unbound];
    let left = remnants.iter().zip(1..).map(|(&kind, at)| Remnant::new(kind, format!("/x/{at}"), ())).collect();
    let told = told(Shown { left: Mutex::new(left), ..Shown::default() }).await;
    for (told, words) in told.iter().zip([
        ["error: ", ": /x/4: ", "gc --yes --force"],
        ["note: ", ": /x/3: ", "`lockkeeper gc`"],
        ["note: ", ": /x/1 and 1 more: ", "`lockkeeper gc`"],
    ]) {
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    }
    assert_eq!(told.len(), 3, "{told:?}");
}

#[tokio::test]
async fn what_this_user_may_not_see_is_not_told_and_what_cannot_be_seen_now_is_an_error() {
    let refused = || Error::permanent(ErrorKind::Refused, Operation::Inspect, "no");
    assert_eq!(told(Shown { refuses: Some(refused), ..Shown::default() }).await, [""; 0]);
    let unreachable = || Error::transient(ErrorKind::Backend, Operation::Inspect, "not now");
    let shown = Shown { refuses: Some(unreachable), ..Shown::default() };
    examine_locks(&shown, NOW).await.expect_err("it is not known");
}

fn joined(id: &str, mode: Mode, minutes_ago: i64) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(id), mode);
    let seconds = i64::try_from(NOW.as_secs()).expect("it is small") - minutes_ago * 60;
    info.since_unix = Some(Duration::from_secs(seconds.try_into().expect("it is after 1970")));
    info
}

fn granted(id: &str, mode: Mode, minutes_ago: u64) -> ContenderInfo {
    let mut info = joined(id, mode, 2_000);
    info.granted_unix = Some(NOW - Duration::from_secs(minutes_ago * 60));
    info
}

#[tokio::test]
async fn a_holder_that_keeps_others_waiting_for_long_is_told() {
    let waiter = || joined("b", Mode::Mutex, 1);
    for (contenders, expected) in [
        (
            vec![joined("a", Mode::Mutex, 119), waiter()],
            "a holds door, for which it joined 119 minutes ago, and 1 waits",
        ),
        (vec![granted("a", Mode::Mutex, 6), waiter(), waiter()], "a has held door for 6 minutes, and 2 wait"),
        (
            vec![joined("a", Mode::Read, 1), joined("c", Mode::Read, 180), joined("b", Mode::Write, 1)],
            "c holds door, for which it joined 3 hours ago, and 1 waits",
        ),
        (
            vec![granted("a", Mode::Permit, 6), joined("b", Mode::Acquire, 1)],
            "a has held door for 6 minutes, and 1 waits",
        ),
    ] {
        let told = told(Shown { contenders, ..Shown::default() }).await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("warning: {expected}: ")) && told[0].contains("revoke"), "{told:?}");
    }
}

#[tokio::test]
async fn a_hold_that_is_short_awaited_by_nobody_or_of_a_leader_is_not_told() {
    let waiter = || joined("b", Mode::Mutex, 180);
    let mut frozen = waiter();
    frozen.frozen = Some("disks".to_owned());
    for contenders in [
        vec![joined("a", Mode::Mutex, 60), waiter()],
        vec![granted("a", Mode::Mutex, 5), waiter()],
        vec![joined("a", Mode::Mutex, 180)],
        vec![joined("a", Mode::Read, 180), joined("b", Mode::Read, 180)],
        vec![joined("a", Mode::Candidate, 180), joined("b", Mode::Candidate, 180)],
        vec![joined("a", Mode::Member, 180), joined("b", Mode::Member, 180)],
        vec![joined("a", Mode::Mutex, 180), frozen],
    ] {
        assert_eq!(told(Shown { contenders, ..Shown::default() }).await, [""; 0]);
    }
}

#[tokio::test]
async fn a_contender_of_the_future_tells_of_its_clock() {
    let mut ahead = joined("a", Mode::Mutex, -2);
    ahead.owner = Some(lockkeeper_core::Owner::new("web-3", 7, "backup.sh"));
    let mut little = joined("b", Mode::Mutex, 0);
    little.since_unix = Some(NOW + CLOCKS_APART_MAX);
    assert_eq!(told(Shown { contenders: vec![little.clone()], ..Shown::default() }).await, [""; 0]);
    let told = told(Shown { contenders: vec![little, ahead], ..Shown::default() }).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let expected = "warning: web-3 pid 7 backup.sh joined door by a clock that is 120.0 s ahead of this machine's: ";
    assert!(told[0].starts_with(expected), "{told:?}");
}

#[tokio::test]
async fn many_locks_are_looked_at_some_at_a_time_and_told_in_their_order_up_to_a_limit() {
    let contenders = vec![joined("a", Mode::Mutex, 180), joined("b", Mode::Mutex, 1)];
    let told = told(Shown { contenders, others: NAMED_MAX + 4, ..Shown::default() }).await;
    assert_eq!(told.len(), NAMED_MAX + 1, "{told:?}");
    assert!(told[0].contains("holds door,") && told[NAMED_MAX - 1].contains("holds other 18,"), "{told:?}");
    assert!(told[NAMED_MAX].starts_with("warning: 5 more locks are held for as long"), "{told:?}");
}
