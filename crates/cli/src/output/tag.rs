//! The words that mark a lock with which something is wrong.

use lockkeeper_monitor::alerts::Rule;

/// Names a rule by a tag beside a lock, as pages and the terminal show it.
pub(crate) const fn tag(rule: Rule) -> &'static str {
    match rule {
        Rule::Held => "held long",
        Rule::Waiters => "long queue",
        Rule::Lost => "lost often",
        Rule::Jeopardy => "no sign of life",
        _ => rule.as_str(),
    }
}
