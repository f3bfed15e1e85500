//! One of the processes: it has its waiters queue up, says so, and writes down each grant in a file that all share.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use lockkeeper_conformance::Joins;
use lockkeeper_recipes::Keeper;
use lockkeeper_redis::RedisBackend;

use crate::ALLOCATOR;

/// Tells this binary that it is one of the processes: the service, the number of its waiters, and the file.
pub(crate) const ASKED: &str = "LOCKKEEPER_TEST_CROWD_MEMBER";

/// The lock.
pub(crate) const LOCK: &str = "crowd";

/// What is asked of a process.
#[derive(Debug)]
pub(crate) struct Asked {
    url: String,
    waiters: usize,
    grants: String,
}

/// What is asked of this process, if it is one of them.
pub(crate) fn asked() -> Option<Asked> {
    let asked = std::env::var(ASKED).ok()?;
    let mut words = asked.split(' ').map(str::to_owned);
    let (url, waiters, grants) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    Some(Asked { url, waiters, grants })
}

/// Says `joined BYTES` once all wait, BYTES being what each takes, and `done RETRIES` once all were granted the lock.
pub(crate) fn take_part(asked: &Asked) -> ExitCode {
    // A single thread, as in most programs that wait for locks.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(wait_in_line(asked));
    ExitCode::SUCCESS
}

async fn wait_in_line(asked: &Asked) {
    let backend = RedisBackend::open(&asked.url.parse().expect("a URL")).expect("a good URL");
    let joins = Arc::new(Joins::default());
    let keeper = Keeper::builder(Arc::new(backend)).observer(joins.clone()).build();
    // The session and all that belongs to it is there before memory is counted.
    let other = keeper.mutex("other").expect("a name").lock().await.expect("it is free");
    other.release().await.expect("it is given back");
    joins.begin();
    let before = ALLOCATOR.current_usage();
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
    let bytes = ALLOCATOR.current_usage().saturating_sub(before) / asked.waiters;
    println!("joined {bytes}");
    for waiter in waiters {
        waiter.await.expect("no waiter panics");
    }
    println!("done {}", joins.retries());
    keeper.close().await.expect("it is closed");
}
