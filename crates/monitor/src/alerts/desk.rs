//! The alerts that one monitor tells its receivers: all while it is the one that sends, and else only that it cannot
//! ask the service, which no other monitor can know of it.
//!
//! News are first written down, and then told: a monitor that goes on after a restart, or in another one's place, knows
//! from the [notes](AlertNotes) what was told, and tells each alert's beginning and end once. What was under way when
//! the former one ended may be told again, with the same beginning.
//!
//! Pure: who sends, an election decides; where the notes are kept and how is told, the command knows.

use std::collections::BTreeMap;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper::clock::BootInstant;

use super::episode::{Alert, AlertNews, Alerts, Outage};
use super::findings::{About, Rule, Thresholds};
use super::notes::{AlertNotes, NotedAlert};
use super::outbox::AlertOutbox;
use crate::collect::{MonitorState, ServiceFreshness};
use crate::moment::TimePoint;

/// Which alerts a monitor tells its receivers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Role {
    /// All.
    Sender,
    /// That it cannot ask the service.
    Candidate,
}

/// The alerts of a service, and what this monitor's receivers are told of them.
#[derive(Clone, Debug)]
pub struct Desk {
    alerts: Alerts,
    role: Role,
    /// The alerts that receivers were told of and that are not over, also by a sender before this one.
    told: BTreeMap<About, AlertRecord>,
    /// The news that go out once they are written down.
    unnoted: Vec<AlertNews>,
    outboxes: BTreeMap<String, AlertOutbox>,
    /// The number of the last note that all monitors may know, if one was heard of, and how many outages came since.
    note: Option<u64>,
    outages: u64,
    /// Whether those are all since that note. A note that was there before this monitor is one whose outages it has not
    /// counted: it may have told of some of them before a restart.
    is_counted: bool,
    changes: u64,
}

/// What was told of an alert, and is said at its end again.
#[derive(Clone, Copy, Debug)]
struct AlertRecord {
    began_unix: Duration,
    outage: Option<Outage>,
}

impl AlertRecord {
    /// It, as an alert of this beginning.
    fn of(self, alert: Alert) -> Alert {
        Alert { began_unix: self.began_unix, outage: self.outage, ..alert }
    }
}

impl Desk {
    /// Tells these receivers of all alerts.
    pub fn new(receivers: impl IntoIterator<Item = String>) -> Self {
        Self {
            alerts: Alerts::default(),
            role: Role::Sender,
            told: BTreeMap::new(),
            unnoted: Vec::new(),
            outboxes: receivers.into_iter().map(|receiver| (receiver, AlertOutbox::default())).collect(),
            note: None,
            outages: 0,
            is_counted: false,
            changes: 0,
        }
    }

    /// Judges what is known now, as [`Alerts::judge`] does; returns what has begun and ended in this monitor's view.
    pub fn judge(
        &mut self,
        state: &MonitorState,
        now: TimePoint,
        thresholds: impl Fn(&QueueName) -> Thresholds,
    ) -> Vec<AlertNews> {
        let news = self.alerts.judge(state, now, thresholds);
        self.changes += news.len() as u64;
        for news in &news {
            if let AlertNews::Ended(alert) = news {
                self.end(alert);
            }
        }
        let is_fresh = matches!(state.freshness, ServiceFreshness::Fresh(_));
        let is_ours = |about: &About| *about == About::Unreachable || (is_fresh && self.role == Role::Sender);
        let is_untold = self.alerts.firing_about().any(|about| is_ours(about) && !self.told.contains_key(about));
        if is_untold {
            let firing = self.alerts.firing();
            let begun = firing.filter(|alert| is_ours(&alert.about) && !self.told.contains_key(&alert.about));
            begun.collect::<Vec<_>>().into_iter().for_each(|alert| self.begin(alert));
        }
        news
    }

    fn begin(&mut self, alert: Alert) {
        let note = self.note.filter(|_| alert.about == About::Unreachable && self.is_counted);
        let outage = note.map(|note| {
            self.outages += 1;
            Outage { note, number: self.outages }
        });
        let told = AlertRecord { began_unix: alert.began_unix, outage };
        self.told.insert(alert.about.clone(), told);
        self.unnoted.push(AlertNews::Raised(told.of(alert)));
        self.changes += 1;
    }

    fn end(&mut self, alert: &Alert) {
        let told = self.told.remove(&alert.about);
        let is_ours = alert.about == About::Unreachable || self.role == Role::Sender;
        self.unnoted.extend(told.filter(|_| is_ours).map(|told| AlertNews::Ended(told.of(alert.clone()))));
    }

    /// Sends all alerts from now on, and goes on where the sender before has ended by its notes, if it has left any.
    pub fn lead(&mut self, left: Option<AlertNotes>, now: TimePoint) {
        self.role = Role::Sender;
        self.changes += 1;
        let Some(left) = left else {
            // Its own note will be the first.
            self.note.get_or_insert(0);
            return;
        };
        left.note.into_iter().for_each(|note| self.hear(note));
        self.told.retain(|about, _| *about == About::Unreachable);
        self.forget_locks();
        self.take_in(left, now);
    }

    /// Leaves all alerts of locks to another monitor. Those that are still to be told wait, until [a note](Self::hear)
    /// of that monitor is heard of, or this one sends again without any.
    pub fn follow(&mut self) {
        self.role = Role::Candidate;
        self.changes += 1;
    }

    fn forget_locks(&mut self) {
        self.unnoted.retain(is_of_service);
        self.outboxes.values_mut().for_each(|outbox| outbox.retain(is_of_service));
    }

    /// Takes in that all monitors may know of a note. One that another monitor has written has what is to be told of
    /// locks.
    pub fn hear(&mut self, note: u64) {
        if self.note != Some(note) {
            self.is_counted = self.note.is_some();
            (self.note, self.outages) = (Some(note), 0);
            self.changes += 1;
            if self.role == Role::Candidate {
                self.forget_locks();
            }
        }
    }

    /// Goes on after a restart.
    pub fn restore(&mut self, notes: AlertNotes, now: TimePoint) {
        (self.note, self.outages, self.is_counted) = (notes.note, notes.outages, notes.is_counted);
        self.take_in(notes, now);
    }

    fn take_in(&mut self, notes: AlertNotes, now: TimePoint) {
        for NotedAlert { alert, is_told } in notes.firing {
            if is_told {
                let told = AlertRecord { began_unix: alert.began_unix, outage: alert.outage };
                self.told.insert(alert.about.clone(), told);
            }
            self.alerts.adopt(alert);
        }
        for (receiver, untold) in notes.untold {
            // One that is not told any more by this monitor has had its time.
            let Some(outbox) = self.outboxes.get_mut(&receiver) else { continue };
            for (since_unix, news) in untold {
                outbox.put(news, now.boot.saturating_sub(now.unix.saturating_sub(since_unix)));
            }
        }
    }

    /// Returns what is to be written down for this monitor's next start.
    pub fn notes(&self, now: TimePoint) -> AlertNotes {
        let firing = self.alerts.firing().map(|alert| match self.told.get(&alert.about) {
            Some(told) => NotedAlert { alert: told.of(alert), is_told: true },
            None => NotedAlert { alert, is_told: false },
        });
        let untold = self.outboxes.iter().map(|(receiver, outbox)| {
            let waiting = outbox.untold().map(|(since, news)| (unix_of(since, now), news));
            let all = waiting.chain(self.unnoted.iter().map(|news| (now.unix, news)));
            (receiver.clone(), all.map(|(since, news)| (since, news.clone())).collect())
        });
        AlertNotes {
            note: self.note,
            outages: self.outages,
            is_counted: self.is_counted,
            firing: firing.collect(),
            untold: untold.collect(),
        }
    }

    /// Returns what is to be written down for the next sender, as a new note, which is [heard](Self::hear) of once it
    /// is written.
    pub fn notes_for_others(&self, now: TimePoint) -> AlertNotes {
        let mut notes = self.notes(now);
        (notes.note, notes.outages) = (Some(self.note.unwrap_or_default().wrapping_add(1)), 0);
        notes.firing.retain(|noted| noted.is_told && noted.alert.about != About::Unreachable);
        notes.untold.values_mut().for_each(|untold| untold.retain(|(_, news)| !is_of_service(news)));
        notes
    }

    /// Takes in that the notes are written: what they say of is to be told from now on.
    pub fn written(&mut self, now: BootInstant) {
        for news in std::mem::take(&mut self.unnoted) {
            self.outboxes.values_mut().for_each(|outbox| outbox.put(news.clone(), now));
        }
    }

    /// Takes in that the notes for others are not written yet: only what no other monitor tells is to be told.
    pub fn written_here(&mut self, now: BootInstant) {
        let (told, kept) = std::mem::take(&mut self.unnoted).into_iter().partition(is_of_service);
        self.unnoted = told;
        self.written(now);
        self.unnoted = kept;
    }

    /// Tells whether news of locks are sent.
    pub fn sends(&self) -> bool {
        self.role == Role::Sender
    }

    /// Returns the alerts that receivers were told of and that are not over, as far as they are this monitor's to tell.
    pub fn told(&self) -> Vec<Alert> {
        let is_ours = |about: &About| self.role == Role::Sender || *about == About::Unreachable;
        let firing = self.alerts.firing().filter(|alert| is_ours(&alert.about));
        firing.filter_map(|alert| Some(self.told.get(&alert.about)?.of(alert))).collect()
    }

    /// Returns the alerts that are not over in this monitor's view.
    pub fn firing(&self) -> impl Iterator<Item = Alert> {
        self.alerts.firing()
    }

    /// Returns how many alerts of a rule were raised so far.
    pub fn raised(&self, rule: Rule) -> u64 {
        self.alerts.raised(rule)
    }

    /// Returns the outbox of a receiver.
    pub fn outbox(&mut self, receiver: &str) -> Option<&mut AlertOutbox> {
        self.outboxes.get_mut(receiver)
    }

    /// Returns how many news were dropped untold.
    pub fn dropped(&self) -> u64 {
        self.outboxes.values().map(AlertOutbox::dropped).sum()
    }

    /// Counts how often the notes have changed.
    pub fn changes(&self) -> u64 {
        self.changes + self.outboxes.values().map(AlertOutbox::changes).sum::<u64>()
    }
}

/// Whether it is of the service itself, which each monitor tells for itself.
pub fn is_of_service(news: &AlertNews) -> bool {
    match news {
        AlertNews::Raised(alert) | AlertNews::Ended(alert) => alert.about == About::Unreachable,
    }
}

fn unix_of(then: BootInstant, now: TimePoint) -> Duration {
    now.unix.saturating_sub(now.boot.saturating_duration_since(then))
}
