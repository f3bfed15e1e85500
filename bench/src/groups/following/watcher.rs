//! A follower on its own thread, so that those who change locks do not hold it up.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use lockkeeper::clock::{Clock as _, SystemClock};
use lockkeeper::follow::{FollowEvent, Scope};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::locks::Untold;
use crate::load::{Latency, one_thread};
use crate::{Failed, Outcome};

/// How long the first look at all locks may take, and the time from one look to the next.
const LOOK_WITHIN: Duration = Duration::from_secs(120);

/// How many looks are noted that were not asked for yet.
const LOOKS_MAX: usize = 1_000;

/// A follower that runs.
pub(super) struct Watcher {
    thread: JoinHandle<Outcome<()>>,
    end: oneshot::Sender<()>,
    delays: Arc<Mutex<Latency>>,
    /// Which part of the time looks took, one after the other.
    looks: mpsc::Receiver<f64>,
}

/// What the thread has of it.
struct Watching {
    untold: Untold,
    delays: Arc<Mutex<Latency>>,
    looks: mpsc::Sender<f64>,
    whole: Option<oneshot::Sender<()>>,
}

impl Watcher {
    /// Starts it, and waits until it was told of all locks.
    pub(super) async fn start(url: String, untold: Untold) -> Outcome<Self> {
        let (end, ended) = oneshot::channel();
        let (whole, is_whole) = oneshot::channel();
        let (noted, looks) = mpsc::channel(LOOKS_MAX);
        let delays = Arc::new(Mutex::new(Latency::new()));
        let watching = Watching { untold, delays: delays.clone(), looks: noted, whole: Some(whole) };
        let thread = spawn(move || one_thread()?.block_on(watching.watch(&url, ended)));
        let watcher = Self { thread, end, delays, looks };
        match timeout(LOOK_WITHIN, is_whole).await? {
            Ok(()) => Ok(watcher),
            // It says why it has ended.
            Err(_) => Err(watcher.end().await.err().unwrap_or_else(|| "the follower has ended".into())),
        }
    }

    /// Takes how late changes were told since this was asked last.
    pub(super) fn take_delays(&self) -> Latency {
        std::mem::replace(&mut *self.delays.lock().unwrap_or_else(PoisonError::into_inner), Latency::new())
    }

    /// Waits for a look; returns which part of the time it took, its pause included.
    pub(super) async fn next_look_share(&mut self) -> Outcome<f64> {
        let share = timeout(LOOK_WITHIN, self.looks.recv()).await?;
        share.ok_or_else(|| "the follower has ended".into())
    }

    pub(super) async fn end(self) -> Outcome<()> {
        drop(self.end);
        let thread = self.thread;
        spawn_blocking(move || thread.join()).await?.map_err(|_| Failed::from("the follower panicked"))?
    }
}

impl Watching {
    async fn watch(mut self, url: &str, mut ended: oneshot::Receiver<()>) -> Outcome<()> {
        let keeper = lockkeeper::connect(url)?;
        let mut follower = keeper.admin().follow(&Scope::default()).ok_or("it cannot be followed")?;
        loop {
            let told = tokio::select! {
                told = follower.next() => told.ok_or("nothing is told any more")?,
                _ = &mut ended => break,
            };
            self.take(told)?;
        }
        drop(follower);
        Ok(keeper.close().await?)
    }

    fn take(&mut self, event: FollowEvent) -> Outcome<()> {
        match event {
            FollowEvent::All(_) => {
                let _ = self.whole.take().map(|whole| whole.send(()));
            }
            FollowEvent::Changed(locks) => {
                let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = locks.iter().filter_map(|now| self.untold.take(now.lock.as_str()));
                changed.for_each(|delay| delays.note(delay));
            }
            FollowEvent::Looked { began, pause, .. } => {
                let look = SystemClock.now().saturating_duration_since(began);
                // Those of whom nothing is asked are not noted.
                let _ = self.looks.try_send(look.div_duration_f64(look + pause));
            }
            FollowEvent::Lost(error) => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }
}
