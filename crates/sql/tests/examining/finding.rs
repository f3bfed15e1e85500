//! What the tests share: an examination, and what is expected of it.

use std::sync::Arc;
use std::thread;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Error, Finding, Scrutiny, Session, Severity};
use lockkeeper_faults::Availability;
use lockkeeper_sql::SqlBackend;

/// What is found: how much it matters, and words of it.
pub(crate) type Expected = (Severity, &'static str);

/// Whether the test that asks may go on; if not, it is skipped by the name that the harness gave to its thread.
pub(crate) fn can_run(availability: Availability) -> bool {
    availability.or_skip(thread::current().name().expect("the harness names the thread of a test"))
}

/// Examines what a URL reaches.
pub(crate) async fn examine(url: &str) -> Result<Vec<Finding>, Error> {
    let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
    let found = soon("the examination", backend.examine(Scrutiny::Full)).await;
    assert_eq!(backend.examine(Scrutiny::Brief).await.expect("it asks nothing"), []);
    backend.close().await.expect("it ends");
    found
}

/// Asserts that these are found and nothing else, behind a note that says what there is.
pub(crate) async fn assert_found(url: &str, about: &str, expected: &[Expected]) {
    let found = examine(url).await.expect("it is examined");
    let (first, others) = found.split_first().expect("it says what there is");
    assert!(first.severity == Severity::Note && first.what.contains(about), "{first}");
    let is_one = |(finding, (severity, word)): (&Finding, &Expected)| {
        finding.severity == *severity && finding.to_string().contains(word)
    };
    assert!(others.len() == expected.len() && others.iter().zip(expected).all(is_one), "{expected:?}: {others:?}");
}

/// Opens so many sessions, each with a connection.
pub(crate) async fn sessions(url: &str, count: usize) -> Vec<(SqlBackend, Arc<dyn Session>)> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let backend = SqlBackend::open(&url.parse().expect("a URL")).expect("a good URL");
        let session = soon("a session", backend.session()).await.expect("a session");
        sessions.push((backend, session));
    }
    sessions
}
