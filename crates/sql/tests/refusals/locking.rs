//! What the tests share: a program that locks, and what is expected of a refusal.

use std::sync::Arc;
use std::thread;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Error, ErrorKind};
use lockkeeper_faults::Availability;
use lockkeeper_recipes::retry::RetryPolicy;
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_sql::SqlBackend;

/// The settings of all URLs: long enough for any answer of a busy machine.
pub(crate) const SETTINGS: &str = "session_timeout=60s&connect_timeout=60s";

/// What a refusal is to a program: its kind, and whether trying again can help.
pub(crate) type Judged = (ErrorKind, Advice);

/// The settings or rights must change.
pub(crate) const REFUSED: Judged = (ErrorKind::Refused, Advice::Permanent);

/// The server, or its schema, must change.
pub(crate) const UNSUPPORTED: Judged = (ErrorKind::Unsupported, Advice::Permanent);

/// Another server may serve soon, or this one.
pub(crate) const READS_ONLY: Judged = (ErrorKind::ConnectionLost, Advice::Transient);

/// There may be room soon.
pub(crate) const FULL: Judged = (ErrorKind::LimitReached, Advice::Transient);

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run(availability: Availability) -> bool {
    availability.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// A program's keeper, which tries nothing again.
pub(crate) fn keeper(url: &str) -> Keeper {
    let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    Keeper::builder(Arc::new(backend)).retry(RetryPolicy::none()).build()
}

/// Locks once.
pub(crate) async fn lock(keeper: &Keeper, name: &str) -> Result<MutexGuard, Error> {
    soon("an answer", keeper.mutex(name).expect("a name").lock()).await
}

/// Locks, gives back and closes.
pub(crate) async fn assert_locks(url: &str) {
    let keeper = keeper(url);
    let guard = lock(&keeper, "door").await.unwrap_or_else(|error| panic!("{url}: {error:#}"));
    guard.release().await.expect("it is given back");
    keeper.close().await.expect("it is closed");
}

/// Makes sure that a program that locks there is told this, in one line that says all these words.
pub(crate) async fn assert_refused(url: &str, judged: Judged, says: &[&str]) {
    let keeper = keeper(url);
    let error = lock(&keeper, "door").await.expect_err(url);
    assert_told(&error, judged, says);
    // There may be no session to close.
    let _ = soon("an end", keeper.close()).await;
}

/// Makes sure that an error is one line that says all these words.
pub(crate) fn assert_told(error: &Error, judged: Judged, says: &[&str]) {
    let told = format!("{error:#}");
    assert_eq!((error.kind(), error.advice()), judged, "{told}");
    assert!(!told.contains('\n'), "{told}");
    for text in says {
        assert!(told.contains(text), "`{text}` is not in: {told}");
    }
}
