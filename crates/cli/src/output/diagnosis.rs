//! What an examination of a service has found, for `doctor`.

use lockkeeper::Finding;
use serde::Serialize;

use super::text::one_line;

/// The findings, those that weigh most first.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    service: String,
    findings: Vec<Found>,
}

#[derive(Debug, Serialize)]
struct Found {
    severity: String,
    what: String,
    cure: String,
    #[serde(skip)]
    line: String,
}

impl Diagnosis {
    pub(crate) fn new(service: String, findings: &[Finding]) -> Self {
        let found = |finding: &Finding| Found {
            severity: finding.severity.to_string(),
            what: finding.what.clone(),
            cure: finding.cure.clone(),
            line: one_line(&finding.to_string()),
        };
        Self { service, findings: findings.iter().map(found).collect() }
    }

    /// Returns them as text, a line each.
    pub(crate) fn text(&self) -> String {
        if self.findings.is_empty() {
            return format!("{}: nothing to mend\n", one_line(&self.service));
        }
        let lines = self.findings.iter().map(|found| format!("{}\n", found.line));
        std::iter::once(format!("{}\n", one_line(&self.service))).chain(lines).collect()
    }
}
