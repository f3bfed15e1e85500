//! `[retry]`: when to try again after a transient failure, in the names of the library's policies.

use lockkeeper::retry::{DEFAULT_BASE, DEFAULT_MAX_DELAY, RetryPolicy};
use serde::Deserialize;

use lockkeeper_console::config::Span;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryTable {
    policy: Option<PolicyName>,
    base_sleep: Option<Span>,
    max_sleep: Option<Span>,
    max_retries: Option<u32>,
    max_elapsed: Option<Span>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum PolicyName {
    /// Delays that double, for the given number of retries.
    Exponential,
    /// The same delay each time, for the given number of retries.
    NTimes,
    /// The same delay each time, until the given time has passed.
    UntilElapsed,
    /// Delays that double, without end.
    Forever,
}

impl PolicyName {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::NTimes => "n-times",
            Self::UntilElapsed => "until-elapsed",
            Self::Forever => "forever",
        }
    }
}

impl RetryTable {
    pub(super) fn policy(self) -> Result<RetryPolicy, String> {
        // A file without a policy means the doubling delays, without end if it does not say how often.
        let without_name = if self.max_retries.is_some() { PolicyName::Exponential } else { PolicyName::Forever };
        let policy = self.policy.unwrap_or(without_name);
        self.refuse_others(policy)?;
        let base = self.base_sleep.map_or(DEFAULT_BASE, |span| span.duration);
        let max = self.max_sleep.map_or_else(|| DEFAULT_MAX_DELAY.max(base), |span| span.duration);
        if base.is_zero() {
            return Err("retry.base_sleep is zero, which would try again without a pause".to_owned());
        }
        if max < base {
            return Err("retry.max_sleep is shorter than retry.base_sleep".to_owned());
        }
        let needs = |key: &str| format!("retry.policy = \"{}\" needs retry.{key}", policy.as_str());
        Ok(match policy {
            PolicyName::Exponential => {
                RetryPolicy::exponential_backoff(base, max, self.max_retries.ok_or_else(|| needs("max_retries"))?)
            }
            PolicyName::NTimes => RetryPolicy::n_times(self.max_retries.ok_or_else(|| needs("max_retries"))?, base),
            PolicyName::UntilElapsed => {
                let elapsed_max = self.max_elapsed.ok_or_else(|| needs("max_elapsed"))?;
                RetryPolicy::until_elapsed(elapsed_max.duration, base)
            }
            PolicyName::Forever => RetryPolicy::forever(base, max),
        })
    }

    /// Refuses the keys that a policy does not use.
    fn refuse_others(&self, policy: PolicyName) -> Result<(), String> {
        use PolicyName::{Exponential, Forever, NTimes, UntilElapsed};

        let refused = [
            ("max_sleep", self.max_sleep.is_some(), &[Exponential, Forever][..]),
            ("max_retries", self.max_retries.is_some(), &[Exponential, NTimes]),
            ("max_elapsed", self.max_elapsed.is_some(), &[UntilElapsed]),
        ];
        match refused.into_iter().find(|(_, is_given, policies)| *is_given && !policies.contains(&policy)) {
            None => Ok(()),
            Some((key, _, policies)) => {
                let policies: Vec<_> = policies.iter().map(|policy| format!("\"{}\"", policy.as_str())).collect();
                let (name, policies) = (policy.as_str(), policies.join(" and "));
                Err(format!("retry.policy \"{name}\" has no retry.{key}; it belongs to {policies}"))
            }
        }
    }
}
