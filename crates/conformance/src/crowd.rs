//! One of several processes whose waiters stand in one queue: it has them queue up, says so, and writes down each grant
//! in a file that all share.
//!
//! A test binary starts itself again as these processes; what it checks of them is its own matter.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_core::{Backend, Result, ServiceUrl};
use lockkeeper_recipes::Keeper;

use crate::journal::Joins;

/// The environment variable that tells a binary that it is one of the processes: the service's URL, the number of its
/// waiters and the path of the file, with spaces between them.
pub const ASKED: &str = "LOCKKEEPER_TEST_CROWD_MEMBER";

/// The lock that all wait for.
pub const LOCK: &str = "crowd";

/// What is asked of a process.
#[derive(Debug)]
pub struct Asked {
    url: String,
    waiters: usize,
    grants: String,
}

/// Returns what is asked of this process, if it is one of them.
pub fn asked() -> Option<Asked> {
    let asked = std::env::var(ASKED).ok()?;
    let mut words = asked.split(' ').map(str::to_owned);
    let (url, waiters, grants) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some(Asked { url, waiters, grants })
}

impl Asked {
    /// Says `joined BYTES` once all wait, BYTES being what each takes by the process's own count, and `done RETRIES`
    /// once all were granted the lock.
    ///
    /// # Panics
    ///
    /// If a waiter is not granted the lock.
    pub fn take_part(
        &self,
        open: impl FnOnce(&ServiceUrl) -> Result<Arc<dyn Backend>>,
        used_bytes: impl Fn() -> usize,
    ) -> ExitCode {
        // A single thread, as in most programs that wait for locks.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let backend = open(&self.url.parse().expect("a URL")).expect("a good URL");
        runtime.block_on(wait_in_line(self, backend, used_bytes));
        ExitCode::SUCCESS
    }
}

async fn wait_in_line(asked: &Asked, backend: Arc<dyn Backend>, used_bytes: impl Fn() -> usize) {
    let joins = Arc::new(Joins::default());
    let keeper = Keeper::builder(backend).observer(joins.clone()).build();
    // The session and all that belongs to it is there before memory is counted.
    let other = keeper.mutex("other").expect("a name").lock().await.expect("it is free");
    other.release().await.expect("it is given back");
    joins.begin();
    let before = used_bytes();
    let grants = Arc::new(File::options().append(true).open(&asked.grants).expect("the file is there"));
    let waiter = |_| {
        let (mutex, grants) = (keeper.mutex(LOCK).expect("a name"), grants.clone());
        tokio::spawn(async move {
            let guard = mutex.lock().await.expect("it is granted");
            writeln!(&*grants, "{}", guard.fencing_token()).expect("the file can be written");
            guard.release().await.expect("it is given back");
        })
    };
    let waiters: Vec<_> = (0..asked.waiters).map(waiter).collect();
    joins.reached(asked.waiters).await;
    let bytes = used_bytes().saturating_sub(before) / asked.waiters;
    println!("joined {bytes}");
    for waiter in waiters {
        waiter.await.expect("no waiter panics");
    }
    println!("done {}", joins.retries());
    keeper.close().await.expect("it is closed");
}
