//! What a look at a service finds that its users should know: each with its weight and its cure.

use std::fmt;

/// How much a [`Finding`] matters.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Severity {
    /// It is good to know.
    Note,
    /// Locks work, but worse than they could, or not after what is likely to happen.
    Warning,
    /// Locks do not work, or not as promised.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something about a service that its users should know, as [`Backend::examine`](crate::Backend::examine) finds it.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was found, in one sentence.
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

impl Finding {
    /// Describes a finding.
    pub fn new(severity: Severity, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { severity, what: what.into(), cure: cure.into() }
    }
}

/// `warning: the server grants a session timeout of 4s instead of 2s: set session_timeout=4s`
impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.severity, self.what, self.cure)
    }
}
