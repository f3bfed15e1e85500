//! Judgements of what an examination has seen. Pure.

use std::time::Duration;

use lockkeeper_core::{Advice, Error, Exclusion, Finding, Result, Severity};

use crate::proto::StatusResponse;
use crate::session::TokenEpoch;

/// The first versions without the lease fault, by their minor number: 3.6 and later never had it.
const WITHOUT_LEASE_FAULT: [(u32, u32); 2] = [(4, 31), (5, 13)];

/// The first minor number of which no version has the fault.
const NEVER_FAULTY_MINOR: u32 = 6;

/// The versions of 3.5 before this one can crash when a transaction that only reads is cancelled, as it is when its
/// connection ends (etcd-io/etcd#14110 up to 3.5.4, #14891 after it); 3.4 and 3.6 do not.
const READS_CRASH_BEFORE: (u32, u32) = (5, 7);

/// Judges a member's status.
pub(super) fn judge_status(status: &StatusResponse) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (alarm, what, cure) in [
        (
            "NOSPACE",
            "the database is full: no contender can join",
            "compact and defragment it, then run `etcdctl alarm disarm`",
        ),
        ("CORRUPT", "a member's data differs from the others'", "replace that member, then run `etcdctl alarm disarm`"),
    ] {
        if status.errors.iter().any(|error| error.contains(alarm)) {
            findings.push(Finding::new(Severity::Error, what, cure));
        }
    }
    findings.extend(judge_version(&status.version));
    findings
}

/// Judges a member that gives no status: it serves no requests without the others, or it is not there.
pub(super) fn judge_silence(is_there: bool, why: &Error) -> Finding {
    let (what, cure) = match is_there {
        true => ("serves no requests", "see that it reaches the others, and that more than half of them run"),
        false => ("gives no answer", "start it, or take it out of the URL"),
    };
    Finding::new(Severity::Warning, format!("a member {what}: {why:#}"), cure)
}

/// Judges a cluster that serves no requests though members of it run; other errors are returned.
pub(super) fn judge_standstill(is_any_member_there: bool, why: Error) -> Result<Finding> {
    if !is_any_member_there || why.advice() != Advice::Transient {
        return Err(why);
    }
    let what = format!("no lock can be had now: {why:#}");
    let cure = "see that more than half of the members run and reach one another";
    // What the others run is not known.
    Ok(Finding::new(Severity::Error, what, cure).leaving(Exclusion::BestEffort))
}

fn judge_version(version: &str) -> Vec<Finding> {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(Some(patch))) = (numbers.next(), numbers.next(), numbers.next())
    else {
        let what = format!("the server says that its version is `{version}`");
        return vec![Finding::new(Severity::Note, what, "use a release of etcd")];
    };
    if major > 3 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let has_fix = |&(sound, from): &(u32, u32)| minor == sound && patch >= from;
    if minor < NEVER_FAULTY_MINOR && !WITHOUT_LEASE_FAULT.iter().any(has_fix) {
        let what = format!(
            "etcd {version} can revoke a lease that was renewed, when a leader goes on that stood still; two may then \
             hold one lock"
        );
        let cure = "upgrade to 3.4.31, 3.5.13 or later";
        findings.push(Finding::new(Severity::Warning, what, cure).leaving(Exclusion::BestEffort));
    }
    if (minor, patch) < READS_CRASH_BEFORE && minor == READS_CRASH_BEFORE.0 {
        let what = format!("a member with etcd {version} can crash when the connection of a client that reads ends");
        findings.push(Finding::new(Severity::Warning, what, "upgrade to 3.5.7 or later"));
    }
    findings
}

pub(super) fn judge_members(count: usize) -> Option<Finding> {
    match count {
        1 => {
            let what = "the cluster has one member; while it is down, no lock can be had";
            Some(Finding::new(Severity::Note, what, "use three members, or five"))
        }
        2 => {
            let what = "the cluster has two members; while either is down, no lock can be had";
            Some(Finding::new(Severity::Warning, what, "use three members"))
        }
        _ => None,
    }
}

pub(super) fn judge_url(named: usize, count: usize) -> Option<Finding> {
    (named == 1 && count > 2).then(|| {
        let what = format!("the URL names one of {count} members: without it no lock can be had");
        Finding::new(Severity::Warning, what, "name all members in the URL")
    })
}

/// Members of several clusters grant one lock several times.
pub(super) fn judge_unity(clusters: &[u64]) -> Option<Finding> {
    let is_one = clusters.iter().all(|cluster| Some(cluster) == clusters.first());
    (!is_one).then(|| {
        let what = "the URL names members of several clusters: they grant one lock several times";
        let cure = "name the members of one cluster, as `etcdctl member list` shows them";
        Finding::new(Severity::Error, what, cure).leaving(Exclusion::BestEffort)
    })
}

pub(super) fn judge_least(asked: Duration, least: Duration) -> Option<Finding> {
    (asked < least).then(|| {
        let what = format!("the cluster grants a session timeout of {least:?} instead of {asked:?}");
        let cure = format!("set session_timeout={least:?}, or a shorter --election-timeout of the members");
        Finding::new(Severity::Warning, what, cure)
    })
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Offset {
    /// No session was opened below the base yet.
    Absent,
    Unreadable,
    Present(TokenEpoch),
}

/// Judges the offset of tokens; `now` is the one that would be written now.
pub(super) fn judge_offset(key: &str, offset: Offset, now: u64) -> Option<Finding> {
    match offset {
        Offset::Absent => None,
        Offset::Unreadable => {
            let what = format!("`{key}` is no number, so no session can be opened: tokens begin at it");
            let cure = "delete the key while no lock is held, and the next session writes it anew";
            Some(Finding::new(Severity::Error, what, cure))
        }
        Offset::Present(TokenEpoch { offset, .. }) => (offset > now).then(|| {
            let what = "tokens were begun by a clock that was ahead of this machine's: after a loss of the service's \
                        data they may come twice";
            Finding::new(Severity::Warning, what, "set the clocks of all machines by one time server")
        }),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::{ErrorKind, Operation};

    use super::*;

    #[test]
    fn versions_with_the_lease_fault_are_found() {
        let is_faulty = |version| {
            let findings = judge_version(version);
            let fault = findings.iter().find(|finding| finding.leaves == Some(Exclusion::BestEffort));
            assert!(fault.is_none_or(|fault| fault.severity == Severity::Warning), "{findings:?}");
            fault.is_some()
        };
        for faulty in ["3.4.23", "3.4.30", "3.5.1", "3.5.12", "3.3.10"] {
            assert!(is_faulty(faulty), "{faulty}");
        }
        for sound in ["3.4.31", "3.5.13", "3.5.18", "3.6.0", "3.6.0-rc.1", "4.0.0"] {
            assert!(!is_faulty(sound), "{sound}");
        }
        let of_no_release: Vec<_> = judge_version("main").iter().map(|finding| finding.severity).collect();
        assert_eq!(of_no_release, [Severity::Note]);
    }

    #[test]
    fn versions_that_crash_when_a_read_is_cancelled_are_found() {
        let crashes = |version| judge_version(version).iter().any(|finding| finding.what.contains("can crash"));
        for faulty in ["3.5.0", "3.5.4", "3.5.6"] {
            assert!(crashes(faulty), "{faulty}");
        }
        for sound in ["3.3.10", "3.4.23", "3.5.7", "3.5.18", "3.6.0", "4.5.0"] {
            assert!(!crashes(sound), "{sound}");
        }
    }

    #[test]
    fn alarms_are_errors() {
        let status = |errors: &[&str]| StatusResponse {
            version: "3.5.18".to_owned(),
            errors: errors.iter().map(|&error| error.to_owned()).collect(),
            ..StatusResponse::default()
        };
        assert_eq!(judge_status(&status(&[])), []);
        for (status, word) in
            [(status(&["memberID:7 alarm:NOSPACE "]), "full"), (status(&["memberID:7 alarm:CORRUPT "]), "differs")]
        {
            let found = judge_status(&status);
            assert!(found.len() == 1 && found[0].severity == Severity::Error, "{found:?}");
            assert!(found[0].what.contains(word), "{found:?}");
        }
    }

    #[test]
    fn a_cluster_that_serves_no_requests_is_an_error_while_members_run() {
        let connecting = |error: fn(_, _, &'static str) -> Error| error(ErrorKind::Backend, Operation::Connect, "why");
        let (transient, permanent) = (connecting(Error::transient), connecting(Error::permanent));
        let standstill = judge_standstill(true, transient.clone()).unwrap();
        assert!(standstill.severity == Severity::Error && standstill.what.contains("why"), "{standstill}");
        judge_standstill(false, transient).unwrap_err();
        judge_standstill(true, permanent).unwrap_err();
    }

    #[test]
    fn a_cluster_that_a_single_failure_stops_is_found() {
        assert_eq!(judge_members(3), None);
        assert_eq!(judge_members(1).map(|finding| finding.severity), Some(Severity::Note));
        assert_eq!(judge_members(2).map(|finding| finding.severity), Some(Severity::Warning));
        assert_eq!((judge_url(1, 1), judge_url(3, 3)), (None, None));
        assert_eq!(judge_url(1, 3).map(|finding| finding.severity), Some(Severity::Warning));
    }

    #[test]
    fn members_of_several_clusters_take_the_exclusion() {
        assert_eq!((judge_unity(&[]), judge_unity(&[7, 7])), (None, None));
        assert_eq!(judge_unity(&[7, 8]).and_then(|finding| finding.leaves), Some(Exclusion::BestEffort));
    }

    #[test]
    fn a_session_timeout_that_the_cluster_cannot_keep_is_found() {
        let [second, ten] = [1, 10].map(Duration::from_secs);
        assert_eq!(judge_least(ten, ten), None);
        assert!(judge_least(second, ten).unwrap().what.contains("10s instead of 1s"));
    }

    #[test]
    fn where_tokens_begin_must_be_a_number_that_the_clock_has_passed() {
        let at = |offset| Offset::Present(TokenEpoch { offset, written: 1 });
        assert_eq!((judge_offset("/x/e", Offset::Absent, 7), judge_offset("/x/e", at(7), 7)), (None, None));
        let severity = |offset| judge_offset("/x/e", offset, 7).unwrap().severity;
        assert_eq!((severity(Offset::Unreadable), severity(at(8))), (Severity::Error, Severity::Warning));
    }
}
