//! Output of `doctor`: the findings of an examination.

use std::collections::BTreeMap;

use lockkeeper::Finding;
use serde::Serialize;

use super::one_line;

/// The findings, those that weigh most first.
#[derive(Debug, Serialize)]
pub(crate) struct Diagnosis {
    service: String,
    /// What the URL says, and what is so where it says nothing.
    settings: BTreeMap<&'static str, String>,
    findings: Vec<DiagnosisFinding>,
}

#[derive(Debug, Serialize)]
pub(super) struct DiagnosisFinding {
    severity: String,
    what: String,
    cure: String,
    #[serde(skip)]
    line: String,
}

impl DiagnosisFinding {
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
    pub(crate) fn new(service: String, settings: Vec<(&'static str, String)>, findings: &[Finding]) -> Self {
        Self {
            service,
            settings: settings.into_iter().collect(),
            findings: findings.iter().map(DiagnosisFinding::new).collect(),
        }
    }

    /// Returns them as text, a line each, behind the service and its settings.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{}\n", one_line(&self.service));
        let settings: Vec<_> = self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !settings.is_empty() {
            text.push_str(&format!("settings: {}\n", one_line(&settings.join(", "))));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_stand_behind_the_service() {
        let settings = vec![("tick", "2s".to_owned()), ("base", "/a\nb".to_owned())];
        let text = Diagnosis::new("zk://h1".to_owned(), settings, &[]).text();
        assert_eq!(text, "zk://h1\nsettings: base=/a\\nb, tick=2s\nnothing to mend\n");
    }
}
