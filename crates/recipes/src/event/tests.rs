//! Events and log lines of sessions, holds and campaigns, on the memory backend.

use std::sync::{Arc, Mutex as StdMutex};

use lockkeeper_core::clock::{Clock, TestClock};
use lockkeeper_core::{ErrorKind, Operation, SafeUntil};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, Subscriber};
use tracing::{Level, Metadata};

use super::*;
use crate::keeper::memory::MemoryService;
use crate::retry::RetryPolicy;
use crate::{CloseMode, Handoff, KeeperBuilder, LeaderLatch, LeaderSelector, Requeue};

const SECOND: Duration = Duration::from_secs(1);

/// Keeps the library's lines of level INFO and above.
struct Lines(Arc<StdMutex<Vec<String>>>);

#[derive(Default)]
struct Message {
    message: String,
    error: String,
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!(": {value:?}"),
            _ => {}
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "lockkeeper" && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = Message::default();
        event.record(&mut said);
        self.0.lock().unwrap().push(format!("{} {}{}", event.metadata().level(), said.message, said.error));
    }

    fn new_span(&self, _attributes: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Keeps the events of an observer.
#[derive(Debug, Default)]
struct Heard(StdMutex<Vec<Event>>);

impl Observer for Heard {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Heard {
    fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| which(event)).count()
    }
}

/// Returns the lines that are written while `work` goes on, under time that the test governs.
fn lines(work: impl AsyncFnOnce()) -> Vec<String> {
    let lines = Arc::new(StdMutex::new(Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    subscriber::with_default(Lines(lines.clone()), || runtime.block_on(work()));
    lines.lock().unwrap().clone()
}

fn builder() -> (Arc<TestClock>, KeeperBuilder) {
    let clock = Arc::new(TestClock::new());
    (clock.clone(), MemoryService::new(clock).keeper_builder())
}

#[test]
fn the_fate_of_a_session_and_of_its_holds_is_told_in_one_line_each_though_no_holder_asks() {
    let lines = lines(async || {
        let heard = Arc::new(Heard::default());
        let (clock, builder) = builder();
        let keeper = builder.observer(heard.clone()).build();
        let (door, hall) = (keeper.mutex("door").unwrap(), keeper.mutex("hall").unwrap());
        let guards = (door.lock().await.unwrap(), hall.lock().await.unwrap());
        let testing = keeper.testing().unwrap();
        testing.cut(SafeUntil::At(clock.now().saturating_add(10 * SECOND)));
        tokio::time::sleep(SECOND).await;
        testing.heal();
        tokio::time::sleep(SECOND).await;
        testing.expire_session();
        tokio::time::sleep(SECOND).await;
        assert_eq!(guards.0.release().await.unwrap_err().kind(), ErrorKind::Lost(LossReason::Expired));
        drop(guards.1);
        let is_lost = |event: &Event| matches!(event, Event::Lost { reason: LossReason::Expired, .. });
        assert_eq!(heard.count(is_lost), 2);
        let is_safe = |event: &Event| match event {
            Event::Jeopardy { service, safe_for } => service == "memory:" && *safe_for == Some(10 * SECOND),
            _ => false,
        };
        assert_eq!(heard.count(is_safe), 1);
    });
    assert_eq!(
        lines,
        [
            "INFO session opened",
            "WARN the connection to the service is broken",
            "INFO the connection to the service is open again",
            "WARN session lost",
            "ERROR the lock was lost",
            "ERROR the lock was lost",
        ]
    );
}

#[test]
fn an_outage_is_told_in_three_lines_and_half_a_second_after_its_end_all_waiters_are_back() {
    const WAITERS: usize = 20;
    let lines = lines(async || {
        let service = MemoryService::new(Arc::new(TestClock::new()));
        let (ann, bob) = (service.keeper(), service.keeper_builder().handoff(Handoff::Strict).build());
        let held = ann.mutex("door").unwrap();
        let guard = held.lock().await.unwrap();
        let waiting: Vec<_> = (0..WAITERS).map(|_| tokio::spawn(bob.mutex("door").unwrap().lock_owned())).collect();
        let all_are_back = async || ann.contenders("door").await.unwrap().len() == 1 + WAITERS;
        tokio::time::sleep(SECOND).await;
        assert!(all_are_back().await);
        let testing = bob.testing().unwrap();
        testing.cut(SafeUntil::ProcessEnd);
        tokio::time::sleep(SECOND).await;
        testing.expire_session();
        // By then the retry policy has them rest for longer than for half of this.
        tokio::time::sleep(100 * SECOND).await;
        testing.heal();
        tokio::time::sleep(SECOND / 2).await;
        assert!(all_are_back().await);
        guard.release().await.unwrap();
        waiting.into_iter().for_each(|task| task.abort());
    });
    let of_bob = [
        "INFO session opened",
        "WARN the connection to the service is broken",
        "WARN session lost",
        "INFO session opened",
    ];
    assert_eq!(lines, [&["INFO session opened"], &of_bob[..]].concat());
}

#[test]
fn a_contender_that_is_removed_is_told_once_its_holder_asks_and_not_again() {
    let lines = lines(async || {
        let (_, builder) = builder();
        let keeper = builder.build();
        let guard = keeper.mutex("door").unwrap().lock().await.unwrap();
        keeper.testing().unwrap().remove_contender("door", guard.hold().contender()).unwrap();
        let hold = guard.hold().clone();
        assert!(!hold.is_held() && !hold.is_held());
        assert_eq!(hold.lost().await, LossReason::Removed);
        guard.release().await.unwrap_err();
    });
    assert_eq!(lines, ["INFO session opened", "ERROR the lock was lost"]);
}

#[test]
fn what_this_process_ends_itself_is_no_error() {
    let lines = lines(async || {
        let (_, builder) = builder();
        let keeper = builder.build();
        let guard = keeper.mutex("door").unwrap().lock().await.unwrap();
        let latch = LeaderLatch::start(&keeper.election("hall").unwrap());
        latch.until_leader().await.unwrap();
        drop(latch);
        tokio::time::sleep(SECOND).await;
        keeper.close().await.unwrap();
        tokio::time::sleep(SECOND).await;
        drop(guard);
    });
    assert_eq!(
        lines,
        [
            "INFO session opened",
            "INFO the campaign has ended",
            "INFO session closed",
            "WARN the lock is no longer held"
        ]
    );
}

#[test]
fn a_selector_that_cannot_go_on_says_so_once() {
    let lines = lines(async || {
        let heard = Arc::new(Heard::default());
        let (_, builder) = builder();
        let keeper = builder.retry(RetryPolicy::none()).observer(heard.clone()).build();
        keeper.testing().unwrap().cut(SafeUntil::ProcessEnd);
        let work = |_| std::future::pending();
        let selector = LeaderSelector::start(&keeper.election("hall").unwrap(), Requeue::Always, work);
        assert!(selector.over().await.is_some());
        drop(selector);
        let has_failed = |event: &Event| matches!(event, Event::CampaignEnded { error: Some(_), .. });
        assert_eq!(heard.count(has_failed), 1);
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("ERROR the campaign has failed: hall: "), "{line}");
}

#[test]
fn the_line_about_a_campaign_that_failed_tells_the_cause() {
    let lines = lines(async || {
        let cause = std::io::Error::other("not allowed here");
        let error = Error::permanent(ErrorKind::Refused, Operation::Join, "the service refuses").caused_by(cause);
        trace(&Event::CampaignEnded { lock: QueueName::new("hall").unwrap(), error: Some(error) }, false);
    });
    assert_eq!(lines, ["ERROR the campaign has failed: join: the service refuses: not allowed here"]);
}

#[test]
fn a_latch_that_is_closed_has_not_failed_though_its_lead_was_lost() {
    let lines = lines(async || {
        let heard = Arc::new(Heard::default());
        let (_, builder) = builder();
        let keeper = builder.observer(heard.clone()).build();
        let latch = LeaderLatch::start(&keeper.election("hall").unwrap());
        latch.until_leader().await.unwrap();
        keeper.testing().unwrap().expire_session();
        let error = latch.close(CloseMode::NotifyLeader).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Expired), "the caller is told");
        assert_eq!(heard.count(|event| matches!(event, Event::CampaignEnded { error: None, .. })), 1);
    });
    assert!(lines.contains(&"INFO the campaign has ended".to_owned()), "{lines:?}");
}
