//! The order of the calls: one lane for each lock, in which one job runs at a time.
//!
//! Requests of one connection are not executed in the order in which they were sent. So a call on a lock begins after
//! the calls before it on the same lock have ended. Calls on different locks do not wait for one another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use lockkeeper_core::{BoxFuture, QueueName};
use lockkeeper_session::Failure;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

struct Job {
    work: BoxFuture<()>,
    removal: Option<Arc<QueuedRemoval>>,
}

/// A removal of a contender, which the job before it may do too, if that is one as well.
pub(crate) struct QueuedRemoval {
    /// Names the contender once that is known: its key, and the revision at which it was created.
    names: Box<dyn Fn() -> Option<(Vec<u8>, i64)> + Send + Sync>,
    /// The outcome, if another job has done it.
    outcome: OnceLock<Result<(), Failure>>,
}

impl QueuedRemoval {
    pub(crate) fn new(names: impl Fn() -> Option<(Vec<u8>, i64)> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { names: Box::new(names), outcome: OnceLock::new() })
    }

    pub(crate) fn names(&self) -> Option<(Vec<u8>, i64)> {
        (self.names)()
    }

    pub(crate) fn outcome(&self) -> Option<Result<(), Failure>> {
        self.outcome.get().cloned()
    }

    pub(crate) fn end(&self, outcome: Result<(), Failure>) {
        // It is done once.
        let _ = self.outcome.set(outcome);
    }
}

/// The lanes of one session. Their jobs are bounded by the calls that the program makes.
pub(crate) struct Lanes {
    runtime: Handle,
    state: Mutex<LanesState>,
    idle: Notify,
}

#[derive(Default)]
struct LanesState {
    /// The lanes that have a runner, with the jobs that wait behind the running one.
    busy: BTreeMap<String, VecDeque<Job>>,
    /// Whether the runtime has ended, so that no job can run.
    is_dead: bool,
}

impl Lanes {
    pub(super) fn new(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, state: Mutex::default(), idle: Notify::new() })
    }

    /// Runs a look after all earlier jobs on the same lock. Looks do not wait for one another, and no job waits for it
    /// if there are none.
    pub(crate) fn run_look(self: &Arc<Self>, queue: &QueueName, look: impl Future<Output = ()> + Send + 'static) {
        let mut lanes = self.state.lock();
        match lanes.busy.get_mut(queue.as_str()) {
            Some(waiting) => waiting.push_back(Job { work: Box::pin(look), removal: None }),
            None => {
                drop(lanes);
                self.runtime.spawn(look);
            }
        }
    }

    pub(super) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.state.lock().busy.is_empty() {
                return;
            }
            idle.await;
        }
    }

    /// The next removals on a lock, at most so many: the running job may do them too.
    pub(crate) fn next_removals(&self, queue: &QueueName, most: usize) -> Vec<Arc<QueuedRemoval>> {
        let lanes = self.state.lock();
        let waiting = lanes.busy.get(queue.as_str()).into_iter().flatten();
        waiting.map_while(|job| job.removal.clone()).take(most).collect()
    }

    /// Runs a job after all earlier jobs on the same lock, whether or not its outcome is awaited. If the runtime has
    /// ended, the job is dropped.
    pub(crate) fn run(
        self: &Arc<Self>,
        queue: &QueueName,
        removal: Option<Arc<QueuedRemoval>>,
        job: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut lanes = self.state.lock();
        if lanes.is_dead {
            drop(lanes);
            drop(job);
            return;
        }
        let job = Job { work: Box::pin(job), removal };
        if let Some(waiting) = lanes.busy.get_mut(queue.as_str()) {
            waiting.push_back(job);
            return;
        }
        lanes.busy.insert(queue.as_str().to_owned(), VecDeque::new());
        drop(lanes);
        let runner = LaneRunner { lanes: self.clone(), lock: queue.as_str().to_owned(), is_done: false };
        // If the runtime has ended, the runner is dropped at once.
        self.runtime.spawn(runner.run(job));
    }
}

struct LaneRunner {
    lanes: Arc<Lanes>,
    lock: String,
    is_done: bool,
}

impl LaneRunner {
    async fn run(mut self, first: Job) {
        let mut job = first;
        loop {
            job.work.await;
            match self.next() {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    fn next(&mut self) -> Option<Job> {
        let mut lanes = self.lanes.state.lock();
        let next = lanes.busy.get_mut(&self.lock).and_then(VecDeque::pop_front);
        if next.is_none() {
            lanes.busy.remove(&self.lock);
            self.is_done = true;
            if lanes.busy.is_empty() {
                drop(lanes);
                self.lanes.idle.notify_waiters();
            }
        }
        next
    }
}

impl Drop for LaneRunner {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // The runtime has ended: no job runs any more, and their callers are told.
        let dropped = {
            let mut lanes = self.lanes.state.lock();
            lanes.is_dead = true;
            std::mem::take(&mut lanes.busy)
        };
        drop(dropped);
    }
}
