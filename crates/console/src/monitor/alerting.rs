//! Alerts as a monitor raises them: it judges each second, prints them on stderr, and writes them down before receivers
//! are told. `View` has all that answers are made from.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::{Keeper, NamePattern, QueueName};
use lockkeeper_monitor::alerts::{Alert, AlertNews, AlertNotes, Desk, Rule};
use lockkeeper_monitor::{Collector, TimePoint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::receiver::{Receiver, Sink};
use super::sender::{AlertSender, NoteOutcome, SharedDesk, said, warn_of_refusal};
use crate::config::MonitorSettings;
use crate::exit::CommandFailure;
use crate::output::{OrderCommands, brief, say};

/// How often is judged, since an alert may begin or end by the time alone; and how often at most, since a service may
/// be full of changes.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Alerting {
    collector: Arc<Collector>,
    settings: MonitorSettings,
    desk: SharedDesk,
    receivers: Vec<Receiver>,
    /// Who sends; `None` without a receiver.
    sender: Option<AlertSender>,
    /// Why it stands for no election, if it has a receiver.
    refusal: Option<lockkeeper::Error>,
    file: Option<StateFile>,
    is_file_failing: AtomicBool,
    /// Something was told, and is to be written down.
    told: Notify,
}

impl Alerting {
    /// Goes on where the file has ended, if one is named.
    /// Fails if the file is of no use, or a receiver cannot be told anything.
    pub(crate) fn new(
        keeper: &Keeper,
        collector: Arc<Collector>,
        settings: MonitorSettings,
        state: Option<&Path>,
    ) -> Result<Self, CommandFailure> {
        let webhook = settings.webhook.clone().map(Sink::webhook).transpose()?;
        let command = Some(settings.command.clone()).filter(|words| !words.is_empty()).map(Sink::Command);
        let sinks = webhook.into_iter().chain(command);
        let receivers: Vec<_> = sinks.map(|sink| Receiver::new(sink, collector.service())).collect();
        let mut desk = Desk::new(receivers.iter().map(|receiver| receiver.key().to_owned()));
        let file = state.map(|path| StateFile::open(path, &collector.service())).transpose()?;
        let file = file.map(|(file, notes)| {
            notes.into_iter().for_each(|notes| desk.restore(notes, collector.now()));
            file
        });
        let is_sending = settings.is_enabled() && !receivers.is_empty();
        let (sender, refusal) = match is_sending.then(|| AlertSender::new(keeper)) {
            Some(Ok(sender)) => (Some(sender), None),
            // A layout of other clients may carry no elections.
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        if sender.is_some() {
            desk.follow();
        }
        let desk = SharedDesk::new(desk);
        let (is_file_failing, told) = (AtomicBool::new(false), Notify::new());
        let alerting = Self { collector, settings, desk, receivers, sender, refusal, file, is_file_failing, told };
        // One that cannot be written at all is of no use.
        if let (Some(file), text) = (&alerting.file, alerting.state(alerting.collector.now())) {
            file.save(&text)
                .map_err(|error| CommandFailure::ours(format!("--state: cannot write {}: {error}", file.name())))?;
        }
        Ok(alerting)
    }

    pub(super) fn firing(&self) -> Vec<Alert> {
        self.desk.lock().firing().collect()
    }

    pub(super) fn raised(&self) -> BTreeMap<&'static str, u64> {
        let desk = self.desk.lock();
        Rule::ALL.into_iter().map(|rule| (rule.as_str(), desk.raised(rule))).collect()
    }

    /// Returns how many alerts a receiver was never told of.
    pub(super) fn dropped(&self) -> u64 {
        self.desk.lock().dropped()
    }

    /// Tells of alerts until the future is dropped.
    pub(crate) async fn run(&self) {
        if !self.settings.is_enabled() {
            return std::future::pending().await;
        }
        self.refusal.iter().for_each(warn_of_refusal);
        let told = async |at: usize| match self.receivers.get(at) {
            Some(receiver) => receiver.run(&self.desk, self.sender.as_ref(), &self.told).await,
            None => std::future::pending().await,
        };
        let sending = async {
            match &self.sender {
                Some(sender) => sender.run(&self.desk).await,
                None => std::future::pending().await,
            }
        };
        // A webhook and a command, at most.
        tokio::join!(self.judge(), sending, told(0), told(1));
    }

    async fn judge(&self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What was noted before this monitor's start is written down.
        let mut written = self.desk.lock().changes();
        loop {
            tokio::select! {
                _ = ticks.tick() => self.judge_once(),
                () = self.told.notified() => {}
            }
            if self.desk.lock().changes() != written
                && let Some(changes) = self.write_down().await
            {
                written = changes;
            }
        }
    }

    fn judge_once(&self) {
        let now = self.collector.now();
        let thresholds = |lock: &QueueName| self.settings.thresholds(lock.as_str());
        let news = self.collector.read(|state| self.desk.lock().judge(state, now, thresholds));
        for news in news {
            self.collector.with_history(|history, now| history.note_alert(&news, now));
            match news {
                AlertNews::Raised(alert) => say(&format!("alert: {}", said(&alert, now))),
                AlertNews::Ended(alert) => {
                    let lasted = alert.ended_unix.map(|ended| brief(ended.saturating_sub(alert.began_unix)));
                    let lasted = lasted.unwrap_or_default();
                    say(&format!("alert over after {lasted}: {}", said(&alert, now)));
                }
                _ => {}
            }
        }
    }

    /// Writes down what is to be told, and has it told; returns how often it had changed by then, unless it is to be
    /// written again.
    async fn write_down(&self) -> Option<u64> {
        let now = self.collector.now();
        let noted = match &self.sender {
            Some(sender) => sender.note(&self.desk, now).await,
            None => NoteOutcome::Written,
        };
        if let Some(file) = &self.file {
            let (file, text) = (file.clone(), self.state(now));
            let saving = tokio::task::spawn_blocking(move || file.save(&text).map_err(|error| (file, error)));
            match saving.await.map_err(tokio::task::JoinError::try_into_panic) {
                Ok(saved) => self.note_saved(saved),
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                // The runtime is ending, and the file is written a last time.
                Err(Err(_)) => {}
            }
        }
        let changes = {
            let mut desk = self.desk.lock();
            match noted {
                NoteOutcome::Written => desk.written(now.boot),
                NoteOutcome::NotNow => desk.written_here(now.boot),
            }
            desk.changes()
        };
        self.receivers.iter().for_each(Receiver::wake);
        (noted == NoteOutcome::Written).then_some(changes)
    }

    fn note_saved(&self, saved: Result<(), (StateFile, io::Error)>) {
        let was_failing = self.is_file_failing.swap(saved.is_err(), Ordering::Relaxed);
        match saved {
            Err((file, error)) if !was_failing => say(&format!(
                "warning: cannot write {}: {error}; alerts go on, and may be told again after a restart",
                file.name()
            )),
            Ok(()) if was_failing => say("the state of the alerts is written again"),
            _ => {}
        }
    }

    /// Returns what is written down, and how often it has changed.
    fn state(&self, now: TimePoint) -> (u64, Vec<u8>) {
        let (changes, notes) = {
            let desk = self.desk.lock();
            (desk.changes(), desk.notes(now))
        };
        (changes, notes.encode(&self.collector.service(), STATE_BYTES_MAX, |alert| said(alert, now)))
    }

    /// Writes the file a last time.
    pub(crate) fn finish(&self) {
        if let Some(file) = &self.file {
            self.note_saved(file.save(&self.state(self.collector.now())).map_err(|error| (file.clone(), error)));
        }
    }
}

/// The longest file that is read and written, in bytes: the notes of some ten thousand alerts.
pub(super) const STATE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Who may read and write it: alerts name locks and their owners.
const MODE: u32 = 0o600;

/// A file that is replaced as a whole, so that it is never half written.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Where the next state is written, beside it.
    next: PathBuf,
    /// The number of the state that was written last.
    saved: Arc<Mutex<u64>>,
}

impl StateFile {
    /// Reads the file, if it is there.
    /// Fails if nothing can be made of it: it stays as it is.
    pub(crate) fn open(path: &Path, service: &str) -> Result<(Self, Option<AlertNotes>), CommandFailure> {
        let refuse = |what: String| CommandFailure::ours(format!("--state: {}: {what}", path.display()));
        let Some(name) = path.file_name() else { return Err(refuse("it names no file".to_owned())) };
        let mut next = std::ffi::OsString::from(".");
        next.push(name);
        next.push(".next");
        let file = Self { path: path.to_owned(), next: path.with_file_name(next), saved: Arc::default() };
        let Some(bytes) = read(path).map_err(|error| refuse(format!("cannot be read: {error}")))? else {
            return Ok((file, None));
        };
        let notes = AlertNotes::decode(&bytes, service).map_err(|error| {
            refuse(format!(
                "it {error}; it is left as it is: name another file, or move it away, and what is wrong now is told \
                 again"
            ))
        })?;
        Ok((file, Some(notes)))
    }

    /// Replaces the file, unless a state of a greater number was written meanwhile. What was there before is there
    /// until the new one is on the disk.
    pub(crate) fn save(&self, (number, bytes): &(u64, Vec<u8>)) -> io::Result<()> {
        let mut saved = self.saved.lock();
        if *number < *saved {
            return Ok(());
        }
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let options =
            OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).custom_flags(flags).to_owned();
        let mut next = options.open(&self.next)?;
        // It may be left over, from a monitor that was killed.
        next.set_permissions(PermissionsExt::from_mode(MODE))?;
        next.write_all(bytes)?;
        next.sync_all()?;
        std::fs::rename(&self.next, &self.path)?;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
        *saved = *number;
        Ok(())
    }

    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no regular file")),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(STATE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() {
        0..=STATE_BYTES_MAX => Ok(Some(bytes)),
        _ => Err(io::Error::other(format!("it is longer than {STATE_BYTES_MAX} bytes"))),
    }
}

#[derive(Debug)]
pub(crate) struct View {
    pub(crate) collector: Arc<Collector>,
    pub(crate) alerting: Arc<Alerting>,
    /// The locks that have series with their names.
    pub(crate) lock_metrics: Vec<NamePattern>,
    pub(crate) orders: OrderCommands,
    /// Whose clock the times of its history are of.
    pub(crate) machine: String,
}
