//! The one of several monitors that sends alerts: the leader of an election in the service that they watch. It notes
//! there what it tells, before it tells it, so that the next one goes on where it has ended.
//!
//! What is noted, and what a monitor tells that does not lead, `lockkeeper-monitor` decides.

use std::time::Duration;

use lockkeeper::clock::{BootInstant, Clock as _, SystemClock};
use lockkeeper::counter::{SharedValue, VALUE_BYTES_MAX, Value, ValueVersion};
use lockkeeper::election::{Election, Leadership};
use lockkeeper::{Advice, Error, Hold, Keeper, Result, Wait};
use lockkeeper_monitor::TimePoint;
use lockkeeper_monitor::alerts::{Alert, AlertNotes, Desk, SENDERS};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::output::{brief, say, summary};

/// How long the service is left alone when it does not let us stand for election now.
const PAUSE: Duration = Duration::from_secs(1);

/// The same when it refuses us: until an operator has mended that.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// How long a note may take to be written; after that it is tried again.
const NOTE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long notes, or the election, may fail for now before alerts are sent without: a service that is full lets
/// sessions live and refuses what they write, for hours.
const FAILING_MAX: Duration = Duration::from_secs(30);

/// The alerts to send, which the judge, the receivers and the election share.
#[derive(Debug)]
pub(super) struct SharedDesk(Mutex<Desk>);

impl SharedDesk {
    pub(super) const fn new(desk: Desk) -> Self {
        Self(Mutex::new(desk))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Desk> {
        self.0.lock()
    }
}

/// A monitor as a candidate, and what it notes while it leads.
#[derive(Debug)]
pub(super) struct AlertSender {
    election: Election,
    notes: SharedValue,
    lead: Mutex<Option<Lead>>,
    /// Another monitor has noted something while we led.
    overtaken: Notify,
}

#[derive(Clone, Debug)]
struct Lead {
    hold: Hold,
    noted: NoteState,
    /// Since when notes fail.
    failing_since: Option<BootInstant>,
    is_warned: bool,
}

/// What stands in the service's notes, as far as we know.
#[derive(Clone, Debug)]
enum NoteState {
    /// This.
    Known(Option<ValueVersion>),
    /// This was to be replaced by that, and it is not known whether it was.
    Unsure(Option<ValueVersion>, Vec<u8>),
    /// The service keeps none for us.
    Refused,
}

/// What became of a note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NoteOutcome {
    /// It is written; or no notes are kept, so that there is nothing to wait for.
    Written,
    /// It may be, later.
    NotNow,
}

impl AlertSender {
    /// Stands for election once it [runs](Self::run).
    pub(super) fn new(keeper: &Keeper) -> Result<Self> {
        let (election, notes) = (keeper.election(SENDERS)?, keeper.shared_value(SENDERS)?);
        Ok(Self { election, notes, lead: Mutex::default(), overtaken: Notify::new() })
    }

    /// Tells whether the lead is over by our clock, although we have not given it up yet.
    pub(super) fn is_over(&self) -> bool {
        let lead = self.lead.lock().clone();
        // A loss is told to observers, and no lock may be held meanwhile.
        lead.is_some_and(|lead| !lead.hold.is_held())
    }

    /// Stands for election and leads, again and again, until the future is dropped.
    pub(super) async fn run(&self, desk: &SharedDesk) {
        tokio::join!(self.campaign(desk), self.hear(desk));
    }

    async fn campaign(&self, desk: &SharedDesk) {
        let (mut is_refused, mut failing_since) = (false, None);
        loop {
            // Who was refused sends all alerts, until another one is known to.
            let wait = if is_refused { Wait::No } else { Wait::Forever };
            let pause = match self.election.campaign_within(wait).await {
                Ok(Some(lead)) => {
                    (is_refused, failing_since) = (false, None);
                    self.send(lead, desk).await
                }
                Ok(None) => {
                    (is_refused, failing_since) = (false, None);
                    desk.lock().follow();
                    continue;
                }
                Err(error) => {
                    let now = SystemClock.now();
                    let since = *failing_since.get_or_insert(now);
                    let is_late = now.saturating_duration_since(since) >= FAILING_MAX;
                    if error.advice() != Advice::Permanent && !is_late {
                        PAUSE
                    } else {
                        if !std::mem::replace(&mut is_refused, true) {
                            warn_of_refusal(&error);
                            desk.lock().lead(None, moment());
                        }
                        REFUSED_PAUSE
                    }
                }
            };
            SystemClock.sleep_until(SystemClock.now().saturating_add(pause)).await;
        }
    }

    /// Sends while it leads; returns for how long it should not stand again.
    async fn send(&self, lead: Leadership, desk: &SharedDesk) -> Duration {
        let (left, noted) = match self.notes.get().await {
            Ok(left) => (left.as_ref().and_then(read), NoteState::Known(left.map(|left| left.version))),
            Err(error) if error.advice() == Advice::Permanent => {
                self.warn(&error);
                (None, NoteState::Refused)
            }
            Err(_) => return PAUSE,
        };
        let hold = lead.hold().clone();
        *self.lead.lock() = Some(Lead { hold: hold.clone(), noted, failing_since: None, is_warned: false });
        desk.lock().lead(left, moment());
        tokio::select! {
            _ = hold.lost() => {}
            () = self.overtaken.notified() => {}
        }
        desk.lock().follow();
        *self.lead.lock() = None;
        // A lead that cannot be given up now is given up in the background.
        let _ = lead.resign().await;
        PAUSE
    }

    fn warn(&self, error: &Error) {
        say(&format!(
            "warning: cannot save the state of alerts at the service ({error:#}); another monitor may send them again"
        ));
    }

    /// Writes the news down, if this monitor leads.
    pub(super) async fn note(&self, desk: &SharedDesk, now: TimePoint) -> NoteOutcome {
        let Some(lead) = self.lead.lock().clone() else { return NoteOutcome::Written };
        let (outcome, noted) = self.noted(desk, lead.noted.clone(), now).await;
        let mut present = self.lead.lock();
        // It may have been lost meanwhile, and won again.
        let Some(present) =
            present.as_mut().filter(|present| present.hold.fencing_token() == lead.hold.fencing_token())
        else {
            return outcome;
        };
        present.noted = noted;
        if outcome == NoteOutcome::Written {
            (present.failing_since, present.is_warned) = (None, false);
            return outcome;
        }
        let since = *present.failing_since.get_or_insert(now.boot);
        if now.boot.saturating_duration_since(since) < FAILING_MAX {
            return outcome;
        }
        // Better told twice than never.
        if !std::mem::replace(&mut present.is_warned, true) {
            say(&format!(
                "warning: for {} the state of alerts could not be saved at the service; alerts are sent without, and \
                 another monitor may tell them again",
                brief(FAILING_MAX)
            ));
        }
        NoteOutcome::Written
    }

    /// Writes a note behind this one; returns what became of it, and what stands there then.
    async fn noted(&self, desk: &SharedDesk, noted: NoteState, now: TimePoint) -> (NoteOutcome, NoteState) {
        let version = match &noted {
            NoteState::Refused => return (NoteOutcome::Written, noted),
            NoteState::Known(version) => *version,
            NoteState::Unsure(version, bytes) => match self.settled(*version, bytes).await {
                Ok(version) => version,
                Err(()) => return (NoteOutcome::NotNow, noted),
            },
        };
        let notes = desk.lock().notes_for_others(now);
        let text = notes.encode(SENDERS, VALUE_BYTES_MAX, |alert| said(alert, now));
        match timeout(NOTE_TIME_MAX, self.notes.compare_and_set(version, &text)).await {
            Ok(Ok(Some(version))) => {
                notes.note.into_iter().for_each(|note| desk.lock().hear(note));
                (NoteOutcome::Written, NoteState::Known(Some(version)))
            }
            Ok(Ok(None)) => {
                self.overtaken.notify_one();
                (NoteOutcome::NotNow, NoteState::Known(version))
            }
            Ok(Err(error)) if error.advice() == Advice::Permanent => {
                self.warn(&error);
                (NoteOutcome::Written, NoteState::Refused)
            }
            Ok(Err(_)) | Err(_) => (NoteOutcome::NotNow, NoteState::Unsure(version, text)),
        }
    }

    /// Finds out whether a note was written; an error if that is not known, or another one was.
    async fn settled(
        &self,
        before: Option<ValueVersion>,
        bytes: &[u8],
    ) -> std::result::Result<Option<ValueVersion>, ()> {
        let Ok(Ok(found)) = timeout(NOTE_TIME_MAX, self.notes.get()).await else { return Err(()) };
        let version = found.as_ref().map(|found| found.version);
        let is_ours = version == before || found.is_some_and(|found| *found.bytes == *bytes);
        if !is_ours {
            self.overtaken.notify_one();
        }
        is_ours.then_some(version).ok_or(())
    }

    async fn hear(&self, desk: &SharedDesk) {
        let mut seen = None;
        loop {
            match self.notes.changed(seen).await {
                Ok(value) => {
                    seen = value.as_ref().map(|value| value.version);
                    let notes = value.as_ref().and_then(read);
                    if let (Some(notes), None) = (notes, &*self.lead.lock()) {
                        notes.note.into_iter().for_each(|note| desk.lock().hear(note));
                    }
                }
                Err(_) => SystemClock.sleep_until(SystemClock.now().saturating_add(REFUSED_PAUSE)).await,
            }
        }
    }
}

/// Says what follows where a monitor is not let into the election.
pub(super) fn warn_of_refusal(error: &Error) {
    say(&format!(
        "warning: this monitor cannot stand for election with others ({error:#}); it sends all alerts, and others may \
         send them too"
    ));
}

/// Reads a note; one of another version of this program is as good as none.
fn read(value: &Value) -> Option<AlertNotes> {
    AlertNotes::decode(&value.bytes, SENDERS).ok()
}

fn moment() -> TimePoint {
    TimePoint { boot: SystemClock.now(), unix: SystemClock.unix_time() }
}

pub(super) fn said(alert: &Alert, now: TimePoint) -> String {
    summary(alert, now.unix)
}
