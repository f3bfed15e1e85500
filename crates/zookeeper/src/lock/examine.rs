//! What a new session tells about the service: the timeout that it grants, and how long its answers take.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Extent, Finding, Freshness, QueueName, Result, Session, SessionTimeout, Severity};

/// How many round trips are measured: the slowest of a few shows whether the timeout is far too short.
const ROUND_TRIPS: usize = 8;

/// How many of the slowest round trips a session's timeout must last at least. A proof of the session is sent in time
/// if two of them are lost.
const ROUND_TRIPS_MIN: u32 = 4;

/// Examines the service with a session of this look alone.
pub(super) async fn examine(session: &dyn Session, clock: &Arc<dyn Clock>) -> Result<Vec<Finding>> {
    let absent = QueueName::new("lockkeeper-examine")?;
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        session.view(&absent, Freshness::Latest, Extent::Around(None)).await?;
        slowest = slowest.max(clock.now().saturating_duration_since(start));
    }
    Ok(session.timeout().map(|timeout| judge(timeout, slowest)).unwrap_or_default())
}

/// Judges what was measured.
fn judge(timeout: SessionTimeout, slowest: Duration) -> Vec<Finding> {
    let SessionTimeout { asked, granted } = timeout;
    let mut findings = Vec::new();
    if timeout.is_clipped() {
        findings.push(Finding::new(
            Severity::Warning,
            format!("the server grants a session timeout of {granted:?} instead of {asked:?}"),
            format!("set session_timeout={granted:?}, or the server's minSessionTimeout and maxSessionTimeout"),
        ));
    }
    if granted < slowest * ROUND_TRIPS_MIN {
        findings.push(Finding::new(
            Severity::Warning,
            format!("a round trip took {slowest:?}, and the session timeout is {granted:?}"),
            "set a longer session_timeout, or sessions end while nothing is wrong",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(asked_s: u64, granted_s: u64, slowest_ms: u64) -> Vec<String> {
        let [asked, granted] = [asked_s, granted_s].map(Duration::from_secs);
        let findings = judge(SessionTimeout { asked, granted }, Duration::from_millis(slowest_ms));
        assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_timeout_that_the_server_changed_or_that_is_too_short_for_its_answers_is_found() {
        assert!(what(20, 20, 5_000).is_empty());
        assert_eq!(what(2, 4, 1), ["the server grants a session timeout of 4s instead of 2s"]);
        assert_eq!(what(4, 4, 1_001), ["a round trip took 1.001s, and the session timeout is 4s"]);
        assert_eq!(what(2, 4, 1_001).len(), 2);
    }
}
