//! A session's word on the service: the timeout that it grants, and how long its answers take.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Finding, SessionTimeout, Severity};
use lockkeeper_zk_proto::message::Request;

use crate::error::ClientError;
use crate::link::Link;

/// How many round trips are measured: the slowest of a few shows whether the timeout is far too short.
const ROUND_TRIPS: usize = 8;

/// How many of the slowest round trips a session's timeout must last at least. A proof of the session is sent in time
/// if two of them are lost.
const ROUND_TRIPS_MIN: u32 = 4;

/// Measures the slowest of a few round trips to the leader.
pub(super) async fn slowest_round_trip(link: &Arc<Link>) -> Result<Duration, ClientError> {
    let clock = link.clock.clone();
    let mut slowest = Duration::ZERO;
    for _ in 0..ROUND_TRIPS {
        let start = clock.now();
        link.call(&Request::Sync { path: "/".to_owned() }, "/").response().await?;
        slowest = slowest.max(clock.now().saturating_duration_since(start));
    }
    Ok(slowest)
}

/// Judges the timeout that was granted.
pub(super) fn examine_timeout(timeout: SessionTimeout) -> Option<Finding> {
    let SessionTimeout { asked, granted } = timeout;
    timeout.is_clipped().then(|| {
        Finding::new(
            Severity::Warning,
            format!("the server grants a session timeout of {granted:?} instead of {asked:?}"),
            format!("set session_timeout={granted:?}, or the server's minSessionTimeout and maxSessionTimeout"),
        )
    })
}

/// Judges a session's timeout by how long answers take.
pub(super) fn examine_answers(granted: Duration, slowest: Duration) -> Option<Finding> {
    (granted < slowest * ROUND_TRIPS_MIN).then(|| {
        Finding::new(
            Severity::Warning,
            format!("a round trip took {slowest:?}, and the session timeout is {granted:?}"),
            "set a longer session_timeout, or sessions end while nothing is wrong",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(asked_s: u64, granted_s: u64, slowest_ms: u64) -> Vec<String> {
        let [asked, granted] = [asked_s, granted_s].map(Duration::from_secs);
        let clipped = examine_timeout(SessionTimeout { asked, granted });
        let findings: Vec<_> =
            clipped.into_iter().chain(examine_answers(granted, Duration::from_millis(slowest_ms))).collect();
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
