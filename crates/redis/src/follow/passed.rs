//! The count of contenders that came and went between two looks. The server reports no more of them than keys: that of
//! a record, which names a ticket, and behind it those of the queues that have changed at the same time. Pure.
//!
//! A report says which keys have changed, not how, and one of a removal may come behind a look that has missed the
//! contender. So each ticket is counted once, and those that looks found gone are remembered for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::{ContenderInfo, QueueName, Ticket};

#[derive(Debug, Default)]
pub(super) struct PassedTickets {
    /// Tickets of which a record was reported that no look has shown.
    reported: BTreeMap<Ticket, ReportedRecord>,
    /// The followed locks whose queues were reported, by the number of the report.
    queues: BTreeMap<u64, BTreeSet<QueueName>>,
    /// Tickets that are gone, of which a report may still come: of the last seconds, and of those before.
    gone: BTreeSet<Ticket>,
    gone_before: BTreeSet<Ticket>,
}

#[derive(Debug, Default)]
struct ReportedRecord {
    reports: Vec<u64>,
    /// Whether its queue was waited for once.
    is_late: bool,
}

impl PassedTickets {
    /// Takes in which reports name a contender's record.
    pub(super) fn report(&mut self, ticket: Ticket, reports: &[u64]) {
        if !self.gone.contains(&ticket) && !self.gone_before.contains(&ticket) {
            self.reported.entry(ticket).or_default().reports.extend(reports);
        }
    }

    /// Takes in which reports name a queue; `None` is one that is not followed.
    pub(super) fn report_queue(&mut self, lock: Option<&QueueName>, reports: &[u64]) {
        for &report in reports {
            self.queues.entry(report).or_default().extend(lock.cloned());
        }
    }

    /// Takes in what a look shows of a lock, and what the look before has shown.
    pub(super) fn see(&mut self, before: &[Arc<ContenderInfo>], now: &[Arc<ContenderInfo>]) {
        let tickets =
            |infos: &[Arc<ContenderInfo>]| -> BTreeSet<_> { infos.iter().filter_map(|info| info.ticket).collect() };
        let now = tickets(now);
        self.gone.extend(tickets(before).difference(&now));
        self.reported.retain(|ticket, _| !now.contains(ticket));
    }

    /// Returns how many came and went in each lock, at most, once all locks that were reported are looked at.
    pub(super) fn settle(&mut self) -> BTreeMap<QueueName, u64> {
        let queues = std::mem::take(&mut self.queues);
        let mut counts = BTreeMap::new();
        for (ticket, mut record) in std::mem::take(&mut self.reported) {
            if self.gone.contains(&ticket) || self.gone_before.contains(&ticket) {
                continue;
            }
            // A change of a queue is reported right behind that of the record.
            let mut behind = record.reports.iter().filter_map(|report| queues.get(&(report + 1)));
            if let Some(first) = behind.next() {
                let locks = behind.fold(first.clone(), |locks, others| &locks & others);
                locks.into_iter().for_each(|lock| *counts.entry(lock).or_default() += 1);
                self.gone.insert(ticket);
            } else if !record.is_late {
                record.is_late = true;
                self.reported.insert(ticket, record);
            }
        }
        counts
    }

    /// Forgets what is gone for long; called each second or so.
    pub(super) fn forget_old(&mut self) {
        self.gone_before = std::mem::take(&mut self.gone);
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ContenderId, Mode};

    use super::*;

    fn name(text: &str) -> QueueName {
        QueueName::new(text).unwrap()
    }

    const fn ticket(bits: u128) -> Ticket {
        Ticket::from_bits(bits)
    }

    fn seen(tickets: &[u128]) -> Vec<Arc<ContenderInfo>> {
        let info = |&bits: &u128| {
            let mut info = ContenderInfo::new(ContenderId::new(bits.to_string()), Mode::Mutex);
            info.ticket = Some(ticket(bits));
            Arc::new(info)
        };
        tickets.iter().map(info).collect()
    }

    fn counts(passed: &mut PassedTickets) -> Vec<(String, u64)> {
        passed.settle().into_iter().map(|(lock, count)| (lock.to_string(), count)).collect()
    }

    #[test]
    fn who_is_reported_and_never_seen_is_counted_once_for_its_lock() {
        let mut passed = PassedTickets::default();
        for (bits, reports) in [(1, &[1, 5][..]), (2, &[3]), (3, &[7])] {
            passed.report(ticket(bits), reports);
        }
        passed.report_queue(Some(&name("a")), &[2, 4, 6, 8]);
        passed.see(&[], &seen(&[3]));
        assert_eq!(counts(&mut passed), [("a".to_owned(), 2)]);
        // The report of a removal that the look has seen.
        passed.see(&seen(&[3]), &[]);
        passed.report(ticket(2), &[9]);
        passed.report(ticket(3), &[9]);
        passed.report_queue(Some(&name("a")), &[10]);
        assert_eq!(counts(&mut passed), []);
        passed.forget_old();
        passed.forget_old();
        assert!(passed.gone.is_empty() && passed.gone_before.is_empty());
    }

    #[test]
    fn of_locks_that_change_at_the_same_time_it_is_the_one_of_both_reports() {
        let mut passed = PassedTickets::default();
        passed.report(ticket(1), &[1, 3]);
        passed.report(ticket(2), &[1]);
        passed.report_queue(Some(&name("a")), &[2, 4]);
        passed.report_queue(Some(&name("b")), &[2]);
        assert_eq!(counts(&mut passed), [("a".to_owned(), 2), ("b".to_owned(), 1)], "one may be of either");
    }

    #[test]
    fn a_queue_that_is_reported_late_is_waited_for_and_one_that_is_not_followed_counts_for_nothing() {
        let mut passed = PassedTickets::default();
        passed.report(ticket(1), &[1]);
        assert_eq!(counts(&mut passed), []);
        passed.report_queue(Some(&name("a")), &[2]);
        passed.report(ticket(2), &[3]);
        passed.report_queue(None, &[4]);
        assert_eq!(counts(&mut passed), [("a".to_owned(), 1)]);
        passed.report(ticket(3), &[5]);
        assert_eq!((counts(&mut passed), counts(&mut passed)), (vec![], vec![]));
        assert!(passed.reported.is_empty(), "a request changes a record alone");
    }
}
