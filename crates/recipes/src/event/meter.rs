//! A keeper's measurements of its locks and sessions, for the recorder of the program; nothing flows back.
//!
//! Handles are kept: for a lock and its kind they are asked of the recorder once, and a record costs what the recorder
//! makes of it. `names` has names, texts and buckets, `asked` one call and one hold. Without the feature `metrics` the
//! same types are empty, in `off`.

mod asked;
pub mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::metrics::{Counter, Histogram, Label, counter, histogram};
use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{LossReason, Mode, NamePattern, QueueName, SessionBond, SessionMeter};
use parking_lot::Mutex;

use crate::event::meter::asked::OfKind;
pub(crate) use crate::event::meter::asked::{MeteredCall, MeteredHold};
use crate::event::{Event, Observer};

/// How many values the label `lock` has at most, with the one of all other locks: each costs a recorder a hundred
/// series.
const LOCK_LABELS_MAX: usize = 1_000;

/// The label of the locks that are over that limit or of no pattern.
const OTHER: &str = "other";

/// The kinds of lock, as `lockkeeper ls` names them.
const KINDS: [&str; 5] = ["mutex", "rwlock", "semaphore", "election", "barrier"];

/// What one keeper measures.
pub(crate) struct Meters {
    backend: &'static str,
    clock: Arc<dyn Clock>,
    /// The locks that have a label of their own; where there is no pattern, no lock has one.
    labelled: Vec<NamePattern>,
    by_label: Mutex<BTreeMap<Option<Arc<str>>, Meter>>,
    of_sessions: Arc<OfSessions>,
    reconnections: Counter,
    sessions: Mutex<SessionCount>,
}

/// The handles of the locks that share a label.
#[derive(Clone)]
pub(crate) struct Meter(Arc<OfLabel>);

struct OfLabel {
    backend: &'static str,
    lock: Option<Arc<str>>,
    clock: Arc<dyn Clock>,
    kinds: [OnceLock<Arc<OfKind>>; KINDS.len()],
    timeouts: Counter,
    retries: Counter,
    /// By reason. A hold that was given back is not lost.
    lost: Vec<(LossReason, Counter)>,
}

struct OfSessions {
    proof: Histogram,
    margin: Histogram,
}

impl Meters {
    /// Asks the recorder for what is measured of sessions, and tells it what the names mean.
    pub(crate) fn new(backend: &'static str, clock: Arc<dyn Clock>, labelled: Vec<NamePattern>) -> Self {
        names::describe();
        let labels = || vec![Label::new("backend", backend)];
        let of_sessions = Arc::new(OfSessions {
            proof: histogram!(names::PROOF_SECONDS, labels()),
            margin: histogram!(names::MARGIN_SECONDS, labels()),
        });
        let (by_label, sessions) = (Mutex::default(), Mutex::default());
        let reconnections = counter!(names::RECONNECTIONS_TOTAL);
        Self { backend, clock, labelled, by_label, of_sessions, reconnections, sessions }
    }

    /// Returns the handles of this lock.
    pub(crate) fn of(&self, lock: &QueueName) -> Meter {
        let mut by_label = self.by_label.lock();
        let label = self.label(lock, &by_label);
        by_label.entry(label.clone()).or_insert_with(|| Meter::new(self, label)).clone()
    }

    /// Has this session measured.
    pub(crate) fn measure(&self, session: &SessionBond) {
        session.measure(self.of_sessions.clone());
    }

    fn note_session(&self, happened: Happened) {
        let more = self.sessions.lock().take(happened);
        self.reconnections.increment(more);
    }

    fn label(&self, lock: &QueueName, known: &BTreeMap<Option<Arc<str>>, Meter>) -> Option<Arc<str>> {
        if self.labelled.is_empty() {
            return None;
        }
        let own = Some(Arc::from(lock.as_str()));
        let named = known.len() - usize::from(known.contains_key(&Some(Arc::from(OTHER))));
        let has_room = known.contains_key(&own) || named < LOCK_LABELS_MAX - 1;
        let is_labelled = has_room && self.labelled.iter().any(|pattern| pattern.matches(lock.as_str()));
        if is_labelled { own } else { Some(Arc::from(OTHER)) }
    }
}

/// What is rare is heard as an event, and looked up then.
impl Observer for Meters {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Lost { lock, reason, .. } => self.of(lock).note_loss(*reason),
            Event::Retrying { lock, .. } => self.of(lock).0.retries.increment(1),
            Event::JeopardyOver { .. } => self.reconnections.increment(1),
            Event::SessionLost { reason: LossReason::Closed, .. } => self.note_session(Happened::Closed),
            Event::SessionLost { .. } => self.note_session(Happened::Lost),
            Event::SessionOpened { .. } => self.note_session(Happened::Opened),
            _ => {}
        }
    }
}

impl SessionMeter for OfSessions {
    fn proven(&self, took: Duration) {
        self.proof.record(took.as_secs_f64());
    }

    fn renewed(&self, left: Duration) {
        self.margin.record(left.as_secs_f64());
    }
}

impl Meter {
    fn new(meters: &Meters, lock: Option<Arc<str>>) -> Self {
        let labels: Vec<Label> = lock.iter().map(|lock| Label::new("lock", lock.clone())).collect();
        let lost = LossReason::ALL.into_iter().filter(|&reason| reason != LossReason::Released).map(|reason| {
            let label = Label::new("reason", reason.as_str());
            (reason, counter!(names::LOST_TOTAL, [vec![label], labels.clone()].concat()))
        });
        let lost = lost.collect();
        let (timeouts, retries) = (counter!(names::TIMEOUTS_TOTAL, labels.clone()), names::RETRIES_TOTAL);
        let retries = counter!(retries, labels);
        let (backend, clock, kinds) = (meters.backend, meters.clock.clone(), <[OnceLock<_>; KINDS.len()]>::default());
        Self(Arc::new(OfLabel { backend, lock, clock, kinds, timeouts, retries, lost }))
    }

    /// Measures a call that asks for a place of this mode from now on.
    pub(crate) fn ask(&self, mode: Mode, begun_at: BootInstant) -> MeteredCall {
        MeteredCall::begin(self.of_kind(mode).clone(), begun_at)
    }

    fn of_kind(&self, mode: Mode) -> &Arc<OfKind> {
        let kind = match mode {
            Mode::Mutex | Mode::Exclusive => 0,
            Mode::Read | Mode::Write => 1,
            Mode::Acquire | Mode::Permit => 2,
            Mode::Candidate => 3,
            Mode::Member => 4,
        };
        self.0.kinds[kind].get_or_init(|| Arc::new(self.0.handles(KINDS[kind])))
    }

    fn note_loss(&self, reason: LossReason) {
        self.0.lost.iter().filter(|(known, _)| *known == reason).for_each(|(_, counter)| counter.increment(1));
    }
}

impl OfLabel {
    fn handles(&self, kind: &'static str) -> OfKind {
        let mut labels = vec![Label::new("backend", self.backend), Label::new("kind", kind)];
        labels.extend(self.lock.iter().map(|lock| Label::new("lock", lock.clone())));
        OfKind::new(self.clock.clone(), labels, self.timeouts.clone())
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Meters").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// The sessions of a keeper so far. That one was lost may be told after the next one was opened.
#[derive(Clone, Copy, Debug, Default)]
struct SessionCount {
    opened: u64,
    lost: u64,
    closed: u64,
    /// How many reconnections were told of.
    counted: u64,
}

/// What has happened to a session.
#[derive(Clone, Copy, Debug)]
enum Happened {
    Opened,
    Lost,
    /// The program itself has ended it.
    Closed,
}

impl SessionCount {
    /// Takes in what has happened; returns how many reconnections that makes.
    fn take(&mut self, happened: Happened) -> u64 {
        match happened {
            Happened::Opened => self.opened += 1,
            Happened::Lost => self.lost += 1,
            Happened::Closed => self.closed += 1,
        }
        // The first one follows none, and one behind a closed session no lost one.
        let followed = self.opened.saturating_sub(1 + self.closed).min(self.lost);
        let more = followed.saturating_sub(self.counted);
        self.counted += more;
        more
    }
}

/// Makes the records of a lock and its release, as a keeper's mutex makes them and through handles that are kept as a
/// keeper keeps them. No lock is taken.
///
/// ```
/// use std::sync::Arc;
/// use lockkeeper_core::clock::{BootInstant, SystemClock};
/// use lockkeeper_recipes::meter::Records;
///
/// let records = Records::new(Arc::new(SystemClock));
/// let [asked, granted, released] = [0, 1_000, 2_000].map(BootInstant::from_nanos);
/// records.make(asked, granted, released);
/// ```
pub struct Records {
    meter: Meter,
}

impl Records {
    /// Asks the recorder of the program for the handles, if one is installed.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let lock = QueueName::new("records").expect("it is a name");
        Self { meter: Meters::new("memory", clock, Vec::new()).of(&lock) }
    }

    /// Makes the records of one lock and its release, at these moments.
    pub fn make(&self, asked_at: BootInstant, granted_at: BootInstant, released_at: BootInstant) {
        self.meter.ask(Mode::Mutex, asked_at).granted(granted_at).end(released_at);
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Records").finish_non_exhaustive()
    }
}
