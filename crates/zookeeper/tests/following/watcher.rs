//! A follower on its own thread that notes how late each change is told.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Picture, Scope, Told};
use lockkeeper_zookeeper::ZooKeeperBackend;
use tokio::sync::oneshot;

use crate::effort::Worker;
use crate::locks::Untold;

/// The name of the thread.
const THREAD: &str = "follower";

/// A follower that runs.
pub(crate) struct Watcher {
    thread: JoinHandle<Picture>,
    end: oneshot::Sender<()>,
    delays: Arc<Mutex<Vec<Duration>>>,
    pub(crate) first_look: Duration,
}

impl Watcher {
    /// Starts it, and waits until it has told of all locks.
    #[expect(clippy::disallowed_methods, reason = "a test measures how soon a change is told")]
    pub(crate) async fn start(url: &str, untold: Untold) -> Result<Self, Failed> {
        let backend = ZooKeeperBackend::open(&url.parse()?)?;
        let (end, ended) = oneshot::channel();
        let (whole, is_whole) = oneshot::channel();
        let delays = Arc::<Mutex<Vec<Duration>>>::default();
        let noted = delays.clone();
        let begun = Instant::now();
        let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(watch(backend, untold, noted, whole, ended))
        })?;
        soon("the first look at all locks", is_whole).await?;
        Ok(Self { thread, end, delays, first_look: begun.elapsed() })
    }

    pub(crate) fn worker() -> Worker {
        Worker::Thread(THREAD)
    }

    /// Takes how late each change was told since this was last asked.
    pub(crate) fn delays(&self) -> Vec<Duration> {
        std::mem::take(&mut self.delays.lock().expect("no panic"))
    }

    /// Ends it, and returns what it has told.
    pub(crate) async fn end(self) -> Result<Picture, Failed> {
        drop(self.end);
        let thread = self.thread;
        tokio::task::spawn_blocking(move || thread.join()).await?.map_err(|_| Failed::from("the follower panicked"))
    }
}

#[expect(clippy::disallowed_methods, reason = "a test measures how soon a change is told")]
async fn watch(
    backend: ZooKeeperBackend,
    untold: Untold,
    delays: Arc<Mutex<Vec<Duration>>>,
    whole: oneshot::Sender<()>,
    mut ended: oneshot::Receiver<()>,
) -> Picture {
    let mut follower = backend.follow(&Scope::default()).expect("it can be followed");
    let (mut picture, mut whole) = (Picture::default(), Some(whole));
    loop {
        let told = tokio::select! {
            told = follower.next() => told.expect("it goes on"),
            _ = &mut ended => return picture,
        };
        let now = Instant::now();
        if let Told::Changed(locks) = &told {
            let mut untold = untold.lock().expect("no panic");
            let changed = locks.iter().filter_map(|changed| untold.remove(changed.lock.as_str()));
            delays.lock().expect("no panic").extend(changed.map(|made| now.saturating_duration_since(made)));
        }
        picture.take(told);
        if let Some(whole) = whole.take_if(|_| picture.is_whole()) {
            let _ = whole.send(());
        }
    }
}
