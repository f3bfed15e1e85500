//! The promises of a service and the facts about a hold, for `capabilities` and `check`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lockkeeper::{Capabilities, Exclusion, Fencing, Finding, Removal, Severity, StoppedHolder};
use serde::Serialize;

use super::{one_line, table};

/// What a service promises, as words and as sentences.
#[derive(Debug, Serialize)]
pub(crate) struct Promises {
    service: String,
    backend: &'static str,
    exclusion: String,
    fencing: String,
    stopped_holder: String,
    removal: String,
    /// The kinds of lock that it carries.
    kinds: Vec<&'static str>,
    /// What the exclusion rests on.
    conditions: &'static [&'static str],
    findings: Vec<DiagnosisFinding>,
    #[serde(skip)]
    sentences: [String; 5],
}

impl Promises {
    /// Puts into words what is left of a service's capabilities after what was found of it.
    pub(crate) fn new(service: String, capabilities: &Capabilities, findings: &[Finding]) -> Self {
        let left = capabilities.weakened_by(findings);
        let Capabilities { backend, exclusion, fencing, stopped_holder, removal, modes, conditions, .. } = left;
        let mut findings: Vec<_> = findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
        findings.sort_by_key(|finding| Reverse(finding.severity));
        // A promise that this list does not know yet is shown by its sentence.
        let exclusion_word = match exclusion {
            Exclusion::Process => "process".to_owned(),
            Exclusion::Machine => "machine".to_owned(),
            Exclusion::Timed => "timed".to_owned(),
            Exclusion::BestEffort => "best-effort".to_owned(),
            other => other.to_string(),
        };
        let fencing_word = match fencing {
            Fencing::Process => "process".to_owned(),
            Fencing::Service => "service".to_owned(),
            Fencing::Clock => "clock".to_owned(),
            other => other.to_string(),
        };
        let stopped_holder_word = match stopped_holder {
            StoppedHolder::Keeps => "keeps".to_owned(),
            StoppedHolder::Expires => "expires".to_owned(),
            other => other.to_string(),
        };
        let removal_word = match removal {
            Removal::Told => "told".to_owned(),
            Removal::Noticed => "noticed".to_owned(),
            other => other.to_string(),
        };
        Self {
            service,
            backend,
            exclusion: exclusion_word,
            fencing: fencing_word,
            stopped_holder: stopped_holder_word,
            removal: removal_word,
            kinds: modes.words().collect(),
            conditions,
            findings: findings.into_iter().map(DiagnosisFinding::new).collect(),
            sentences: [
                exclusion.to_string(),
                fencing.to_string(),
                stopped_holder.to_string(),
                removal.to_string(),
                modes.to_string(),
            ],
        }
    }

    pub(crate) fn text(&self) -> String {
        let [exclusion, fencing, stopped_holder, removal, kinds] = &self.sentences;
        let row = |word: &str, text: &str| vec![word.to_owned(), text.to_owned()];
        let mut rows = vec![
            row("service", &self.service),
            row("backend", self.backend),
            row("exclusion", exclusion),
            row("fencing", fencing),
            row("stopped", stopped_holder),
            row("removal", removal),
            row("kinds", kinds),
        ];
        rows.extend(self.conditions.iter().map(|condition| row("provided", condition)));
        rows.extend(self.findings.iter().map(|found| row("found", found.line())));
        table(&rows)
    }

    /// The words for exclusion, tokens and stopped holders.
    #[cfg(test)]
    pub(super) fn words(&self) -> [&str; 3] {
        [&self.exclusion, &self.fencing, &self.stopped_holder]
    }
}

/// Whether a lock is still held, as `check` answers.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    pub(crate) held: bool,
    pub(crate) safe_for_ms: Option<u64>,
    pub(crate) token: Option<String>,
}

/// The findings, the gravest first.
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
    use lockkeeper::Modes;

    use super::*;

    #[test]
    fn the_kinds_of_lock_that_a_service_carries_are_named() {
        let of_few = Capabilities::new("few", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
            .carrying(Modes::MUTEX.with(Modes::READ_WRITE));
        let promises = Promises::new("few://host".to_owned(), &of_few, &[]);
        assert_eq!(promises.kinds, ["mutex", "rwlock"]);
        let text = promises.text();
        assert!(text.lines().any(|line| line.ends_with(" mutexes and read/write locks")), "{text}");
    }

    #[test]
    fn what_was_found_lowers_the_grade_and_is_told() {
        let promised = Capabilities::new("x", Exclusion::Timed, Fencing::Clock, StoppedHolder::Expires, Removal::Told)
            .on_condition(&["it is new"]);
        let fault = Finding::new(Severity::Warning, "it is old", "upgrade").leaving(Exclusion::BestEffort);
        let promises = Promises::new("x://host".to_owned(), &promised, &[Finding::note("it runs"), fault]);
        assert_eq!(promises.words()[0], "best-effort");
        let text = promises.text();
        for line in ["exclusion  best effort", "provided   it is new", "found      warning: it is old: upgrade"] {
            assert!(text.lines().any(|told| told == line), "{text}");
        }
        assert!(!text.contains("it runs"), "{text}");
    }

    #[test]
    fn the_settings_stand_behind_the_service() {
        let settings = vec![("tick", "2s".to_owned()), ("base", "/a\nb".to_owned())];
        let text = Diagnosis::new("zk://h1".to_owned(), settings, &[]).text();
        assert_eq!(text, "zk://h1\nsettings: base=/a\\nb, tick=2s\nnothing to mend\n");
    }
}
