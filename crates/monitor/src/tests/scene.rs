//! Queues for tests.

use std::time::Duration;

use lockkeeper::backend::{Flow, ProcessId, Ticket};
use lockkeeper::clock::BootInstant;
use lockkeeper::{Answers, ContenderId, ContenderInfo, Error, ErrorKind, FencingToken, Mode, Operation, QueueName};

use crate::alerts::{Alert, AlertNews};
use crate::collect::ServiceFreshness;
use crate::moment::TimePoint;
use crate::snapshot::{ObservedLock, ServiceSnapshot};

/// So many milliseconds after the machine was started.
pub(crate) const fn at(millis: u64) -> BootInstant {
    BootInstant::from_nanos(millis * 1_000_000)
}

/// So many seconds after it, and a million more since 1970.
pub(crate) fn moment(seconds: u64) -> TimePoint {
    TimePoint { boot: at(seconds * 1_000), unix: Duration::from_secs(1_000_000 + seconds) }
}

pub(crate) fn name(lock: &str) -> QueueName {
    QueueName::new(lock).unwrap()
}

/// A holder of this name, and so many waiters.
pub(super) fn line(holder: &str, mode: Mode, waiters: usize) -> Vec<ContenderInfo> {
    let ids = std::iter::once(holder.to_owned()).chain((0..waiters).map(|number| format!("w{number}")));
    ids.map(|id| ContenderInfo::new(ContenderId::new(id), mode)).collect()
}

/// That a service cannot be asked any more.
pub(super) fn cut_off(since: TimePoint) -> ServiceFreshness {
    ServiceFreshness::Stale(since.boot, Error::transient(ErrorKind::Backend, Operation::Inspect, "cut off"))
}

/// What a piece of news says of its alert.
pub(super) fn told(news: &AlertNews) -> (&'static str, &Alert) {
    match news {
        AlertNews::Raised(alert) => ("raised", alert),
        AlertNews::Ended(alert) => ("ended", alert),
    }
}

/// A look that lasted for this time, in milliseconds.
pub(super) fn seen(locks: Vec<ObservedLock>, began: u64, ended: u64) -> ServiceSnapshot {
    ServiceSnapshot::new(locks, at(began), at(ended), Duration::from_millis(ended))
}

pub(super) fn lock(name: &str, contenders: Vec<ContenderInfo>) -> ObservedLock {
    ObservedLock::new(self::name(name), contenders, None)
}

pub(super) fn semaphore(name: &str, permits: u32, contenders: Vec<ContenderInfo>) -> ObservedLock {
    ObservedLock::new(self::name(name), contenders, Some(permits))
}

/// A contender that was the `number`th of all to join, with this ticket.
pub(super) fn contender(number: u64, mode: Mode) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(number.to_string()), mode);
    info.ticket = Some(ticket(number));
    info.token = FencingToken::new(number, 0);
    info.since_unix = Some(Duration::from_secs(number));
    info.answers = Answers::Yes;
    info
}

pub(super) fn ticket(number: u64) -> Ticket {
    Ticket::from_bits(u128::from(number) << 64)
}

/// It, as a contender of this process and flow of control.
pub(super) fn of(mut info: ContenderInfo, process: u64, flow: &str) -> ContenderInfo {
    info.caller.process = ProcessId::parse(&format!("{process:016x}"));
    info.caller.flow = Flow::parse(flow);
    info
}

/// It, nested in the contender with this number.
pub(super) fn within(mut info: ContenderInfo, around: u64) -> ContenderInfo {
    info.caller.within = Some(ticket(around).head());
    info
}

/// It, of this session of another client.
pub(super) fn foreign(mut info: ContenderInfo, session: &str) -> ContenderInfo {
    (info.ticket, info.session) = (None, Some(session.to_owned()));
    info
}
