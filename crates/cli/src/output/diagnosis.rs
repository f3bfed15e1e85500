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
pub(super) struct Found {
    severity: String,
    what: String,
    cure: String,
    #[serde(skip)]
    line: String,
}

impl Found {
    pub(super) fn new(finding: &Finding) -> Self {
        Self {
            severity: finding.severity.to_string(),
            what: finding.what.clone(),
            cure: finding.cure.clone(),
            line: one_line(&finding.to_string()),
        }
    }

    pub(super) fn line(&self) -> &str {
        &self.line
    }
}

impl Diagnosis {
    pub(crate) fn new(service: String, findings: &[Finding]) -> Self {
        Self { service, findings: findings.iter().map(Found::new).collect() }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", one_line(&self.service));
        for found in &self.findings {
            text.push_str(&found.line);
            text.push('\n');
        }
        if self.findings.is_empty() {
            text.push_str("nothing to mend\n");
        }
        text
    }
}
