//! One process with very many waiters for one lock, and a holder before them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_conformance::Joins;
use lockkeeper_core::{FencingToken, Liveness};
use lockkeeper_recipes::{Hold, Keeper};
use lockkeeper_zookeeper::ZooKeeperBackend;

use crate::{ALLOCATOR, LEFT_BYTES_MAX};

/// How long a crowd may take to join, or to drain, before the test gives up.
const STAGE_MAX: Duration = Duration::from_secs(240);

/// How often the holder is asked what it may believe.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

const LOCK: &str = "crowd";

/// A keeper, and the account of its joins.
#[derive(Debug)]
pub(crate) struct Crowd {
    keeper: Keeper,
    joins: Arc<Joins>,
    /// What was in use before the first of them came.
    before_bytes: usize,
}

impl Crowd {
    /// Opens a keeper, and takes the lock once, so that the session and all that belongs to it is there.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failed> {
        let url = format!("zk://{address}").parse().expect("a URL");
        let backend = ZooKeeperBackend::open(&url).expect("a good URL");
        let joins = Arc::new(Joins::default());
        let keeper = Keeper::builder(Arc::new(backend)).observer(joins.clone()).build();
        keeper.mutex(LOCK)?.lock().await?.release().await?;
        Ok(Self { keeper, joins, before_bytes: ALLOCATOR.current_usage() })
    }

    pub(crate) async fn close(self) -> Result<(), Failed> {
        Ok(self.keeper.close().await?)
    }

    /// Lets this many waiters queue up behind a holder, and then be granted the lock one after the other.
    #[expect(clippy::disallowed_methods, reason = "a test measures how long the crowd takes")]
    pub(crate) async fn queue_up(&self, count: usize) -> Result<Figures, Failed> {
        let mutex = self.keeper.mutex(LOCK)?;
        let holder = mutex.lock().await?;
        let doubt = Doubt::watch(holder.hold().clone());
        let grants = Arc::new(Mutex::new(Vec::with_capacity(count)));
        self.joins.begin();
        let begun_bytes = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let begun = Instant::now();
        let waiter = |_| {
            let (mutex, grants) = (mutex.clone(), grants.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await?;
                grants.lock().expect("no holder of this lock panics").push(guard.fencing_token());
                guard.release().await
            })
        };
        let waiters: Vec<_> = (0..count).map(waiter).collect();
        tokio::time::timeout(STAGE_MAX, self.joins.reached(count))
            .await
            .map_err(|_| format!("{} of {count} joined within {STAGE_MAX:?}", self.joins.count()))?;
        let joined = begun.elapsed();
        let doubts = doubt.end();
        holder.release().await?;
        let drained = async {
            for waiter in waiters {
                waiter.await??;
            }
            Ok::<_, Failed>(())
        };
        tokio::time::timeout(STAGE_MAX, drained).await.map_err(|_| {
            format!("{} of {count} were granted the lock within {STAGE_MAX:?}", grants.lock().expect("whole").len())
        })??;
        let drained = begun.elapsed() - joined;
        let peak_bytes = ALLOCATOR.peak_usage().saturating_sub(begun_bytes);
        let is_in_order = is_in_order(&grants.lock().expect("no holder of this lock panics"));
        drop(grants);
        let left_bytes = ALLOCATOR.current_usage().saturating_sub(self.before_bytes);
        let retries = self.joins.retries();
        Ok(Figures { count, joined, drained, peak_bytes, left_bytes, is_in_order, doubts, retries })
    }
}

fn is_in_order(grants: &[FencingToken]) -> bool {
    grants.is_sorted_by(|one, next| one < next)
}

/// Looks until when a holder may believe itself, while it holds.
struct Doubt {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Vec<Liveness>>,
}

impl Doubt {
    fn watch(hold: Hold) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let mut doubts = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let liveness = hold.liveness();
                if !matches!(liveness, Liveness::Held { .. }) && doubts.last() != Some(&liveness) {
                    doubts.push(liveness);
                }
                // No event tells of doubt: it must be looked for.
                thread::park_timeout(LOOK_INTERVAL);
            }
            doubts
        });
        Self { is_over, thread }
    }

    fn end(self) -> Vec<Liveness> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("it only looks")
    }
}

/// What a crowd took.
#[derive(Debug)]
pub(crate) struct Figures {
    count: usize,
    joined: Duration,
    drained: Duration,
    peak_bytes: usize,
    left_bytes: usize,
    is_in_order: bool,
    doubts: Vec<Liveness>,
    retries: usize,
}

impl Figures {
    pub(crate) fn whole(&self) -> Duration {
        self.joined + self.drained
    }

    /// What was in use at the peak. It depends on how many lists of the queue happen to be under way at once.
    pub(crate) fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// Returns it if all was as it must be, in each round.
    pub(crate) fn checked(self) -> Result<Self, Failed> {
        if !self.is_in_order {
            return Err("the lock was not granted in the order of the queue".into());
        }
        if !self.doubts.is_empty() {
            return Err(format!("the holder was in doubt: {:?}", self.doubts).into());
        }
        if self.retries > 0 {
            return Err(format!("{} joins or waits had to begin anew", self.retries).into());
        }
        if self.left_bytes > LEFT_BYTES_MAX {
            return Err(format!("{} bytes are still in use", self.left_bytes).into());
        }
        Ok(self)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} waiters joined in {:.2?} and drained in {:.2?}; {} bytes each at the peak, {} bytes left in all",
            self.count,
            self.joined,
            self.drained,
            self.peak_bytes / self.count,
            self.left_bytes,
        )
    }
}
