//! One contender, as the commands name it, and what an operator's orders did to it.

use std::time::Duration;

use lockkeeper::{Answers, ContenderInfo};
use serde::Serialize;

use super::text::{brief, one_line};

/// Its owner, and what is known of it.
#[derive(Debug, Serialize)]
pub struct ContenderView {
    pub(super) mode: &'static str,
    id: String,
    pub(super) token: Option<String>,
    session: Option<String>,
    owner: Option<OwnerRow>,
    /// What a client that tells no owner has written.
    label: Option<String>,
    ticket: Option<String>,
    pub(super) process: Option<String>,
    /// Its flow of control within the process.
    pub(super) flow: Option<String>,
    /// The first half of the ticket of the contender that it is nested in.
    within: Option<String>,
    until: Option<String>,
    /// How long that is from now.
    #[serde(skip)]
    left: Option<Duration>,
    age_ms: Option<u64>,
    /// How long it has held what it asks for, if that is known.
    held_ms: Option<u64>,
    /// Why the lock is frozen, if this contender is what freezes it.
    frozen: Option<String>,
    /// Whether its process may keep its place while no task holds the lock.
    kept: bool,
    revocation: Option<RevocationRow>,
    answers: &'static str,
}

#[derive(Debug, Serialize)]
struct RevocationRow {
    why: Option<String>,
    within_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct OwnerRow {
    host: String,
    pid: u32,
    command: String,
    since: Option<String>,
}

impl ContenderView {
    /// Describes a contender as it was seen at `now_unix`.
    pub fn new(info: &ContenderInfo, now_unix: Duration) -> Self {
        Self {
            mode: info.mode.as_str(),
            id: info.id.to_string(),
            token: info.token.map(|token| token.to_string()),
            session: info.session.clone(),
            owner: info.owner.as_ref().map(|owner| OwnerRow {
                host: owner.host.clone(),
                pid: owner.pid,
                command: owner.command.clone(),
                since: info.since_unix.map(date),
            }),
            label: info.label.clone(),
            ticket: info.ticket.map(|ticket| ticket.to_string()),
            process: info.caller.process.map(|process| process.to_string()),
            flow: info.caller.flow.map(|flow| flow.to_string()),
            within: info.caller.within.map(|within| within.to_string()),
            until: info.caller.until_unix.map(date),
            left: info.caller.until_unix.map(|until| until.saturating_sub(now_unix)),
            age_ms: info.since_unix.map(|since| millis(now_unix.saturating_sub(since))),
            held_ms: info.granted_unix.map(|granted| millis(now_unix.saturating_sub(granted))),
            frozen: info.frozen.clone(),
            kept: info.is_kept(),
            revocation: info.revocation.as_ref().map(|revocation| RevocationRow {
                why: revocation.why.clone(),
                within_ms: revocation.within.map(millis),
            }),
            answers: match info.answers {
                Answers::Yes => "yes",
                Answers::No => "no",
                _ => "unknown",
            },
        }
    }

    /// Leaves out when its caller would have given up: it holds what it has waited for.
    #[must_use]
    pub(super) fn granted(self) -> Self {
        Self { until: None, left: None, ..self }
    }

    /// Says in few words whose it is, as far as it is known: the flow of control, if it is to be named, the contender
    /// around it, and how long it still waits.
    pub(super) fn caller(&self, flow: Option<&str>) -> Option<String> {
        let within = self.within.as_ref().map(|within| format!("in {within}"));
        let left = self.left.map(|left| format!("{} left", brief(left)));
        let words: Vec<_> = [flow.map(str::to_owned), within, left].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Names its owner, or else itself.
    pub fn name(&self) -> String {
        match &self.owner {
            Some(OwnerRow { host, pid, command, .. }) => format!("{host} pid {pid} {command}"),
            None => self.id.clone(),
        }
    }

    /// Says that it may not hear of a request to give up, if it is so.
    pub(super) fn unheard(&self) -> &'static str {
        match self.answers {
            "yes" => "",
            "no" => " (whose client knows no such request)",
            _ => " (which may not listen)",
        }
    }

    /// Names it, and one without an owner by its session and what it says of itself too.
    #[cfg(any(feature = "monitor", feature = "top"))]
    pub(super) fn at_length(&self) -> String {
        let Self { id, owner: None, session, label, .. } = self else { return self.name() };
        let session = session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default();
        let label = label.as_ref().map(|label| format!(", which says {label},")).unwrap_or_default();
        format!("{id}{session}{label}")
    }

    /// Returns for how long it has been in the queue, if that is known.
    #[cfg(any(feature = "monitor", feature = "top"))]
    pub(super) fn since(&self) -> Option<String> {
        self.age_ms.map(|age_ms| brief(Duration::from_millis(age_ms)))
    }

    /// Names it with how long it has held the lock, or been here if that is all that is known, and its token.
    pub fn in_full(&self) -> String {
        let token = self
            .token
            .as_ref()
            .map_or_else(|| ", whose token is not shown".to_owned(), |token| format!(" with token {token}"));
        format!("{}{}{token}", self.name(), self.span())
    }

    /// Says for how long it has held the lock, or else for how long it has been in the queue.
    fn span(&self) -> String {
        let brief = |ms| brief(Duration::from_millis(ms));
        match (self.held_ms, self.age_ms) {
            (Some(held_ms), _) => format!(" for {}", brief(held_ms)),
            (None, Some(age_ms)) => format!(", here for {}", brief(age_ms)),
            (None, None) => String::new(),
        }
    }

    /// Names it with what a client without an owner says of itself, and since when it holds or waits.
    pub fn since_when(&self) -> String {
        let says = self.label.as_ref().filter(|_| self.owner.is_none()).map(|label| format!(" (says {label})"));
        format!("{}{}{}", self.name(), says.unwrap_or_default(), self.span())
    }

    /// Returns its reason if it is what freezes a lock.
    pub fn frozen(&self) -> Option<&str> {
        self.frozen.as_deref()
    }

    pub(super) fn age(&self) -> String {
        self.age_ms.map_or_else(|| "-".to_owned(), |age_ms| brief(Duration::from_millis(age_ms)))
    }

    pub(super) fn held(&self) -> Option<String> {
        self.held_ms.map(|held_ms| brief(Duration::from_millis(held_ms)))
    }

    /// Returns a note on its state, if there is one.
    pub(super) fn note(&self) -> Option<String> {
        if let Some(reason) = &self.frozen {
            return Some(format!("frozen: {reason}"));
        }
        let label = || self.label.as_ref().map(|label| format!("says {label}"));
        let asked = self.revocation.as_ref().map(|RevocationRow { why, within_ms }| {
            let within = within_ms.map(|within_ms| format!(" within {:?}", Duration::from_millis(within_ms)));
            let why = why.as_ref().map(|why| format!(": {why}"));
            format!("asked to give up{}{}", within.unwrap_or_default(), why.unwrap_or_default())
        });
        let kept = || self.kept.then(|| "kept: in use or idle".to_owned());
        asked.or_else(label).or_else(kept)
    }

    pub(super) fn as_holder(&self) -> String {
        let frozen = self.frozen.as_ref().map(|reason| format!(" (frozen: {reason})"));
        self.name() + &frozen.unwrap_or_default()
    }
}

/// Returns a time since 1970 as a date of RFC 3339, in UTC.
pub(crate) fn date(since_unix: Duration) -> String {
    /// The last second of the year 9999, after which RFC 3339 has no dates.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since_unix.min(LAST)).to_string()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What an order has done to a lock.
#[derive(Debug, Serialize)]
pub struct OrderReport {
    name: String,
    service: String,
    #[serde(flatten)]
    deed: Deed,
}

/// What was done; in JSON, by its fields.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Deed {
    /// Holders were asked to give it up.
    Revoked {
        /// Those who were asked.
        asked: Vec<ContenderView>,
        /// Whether all of them have, by now.
        given_up: bool,
    },
    /// A holder has lost it.
    Broken {
        /// The former holder.
        broken: ContenderView,
    },
    /// All contenders are kept out.
    Frozen {
        /// The contender that freezes it.
        frozen: ContenderView,
    },
    /// Contenders may take it again.
    Thawed {
        /// What had frozen it or waited to.
        thawed: Vec<ContenderView>,
    },
}

impl OrderReport {
    /// Describes a deed at a lock of a service.
    pub fn new(name: &str, service: String, deed: Deed) -> Self {
        Self { name: name.to_owned(), service, deed }
    }

    /// Returns it as text.
    pub fn text(&self) -> String {
        let Self { name, service, deed } = self;
        let names = |list: &[ContenderView]| list.iter().map(ContenderView::name).collect::<Vec<_>>().join(", ");
        let done = match deed {
            Deed::Revoked { asked, .. } if asked.is_empty() => ": there is no holder to ask".to_owned(),
            Deed::Revoked { asked, given_up } => {
                let so_far = if *given_up { "; it was given up" } else { "" };
                let asked: Vec<_> = asked.iter().map(|who| who.name() + who.unheard()).collect();
                format!(": asked {} to give it up{so_far}", asked.join(", "))
            }
            Deed::Broken { broken } => format!(" is broken; it was held by {}", broken.in_full()),
            Deed::Frozen { frozen } => {
                format!(" is frozen until `lockkeeper thaw`: {}", frozen.frozen().unwrap_or_default())
            }
            Deed::Thawed { thawed } if thawed.is_empty() => " is not frozen".to_owned(),
            Deed::Thawed { thawed } => {
                let reasons: Vec<_> = thawed.iter().filter_map(ContenderView::frozen).collect();
                format!(" is thawed; it was frozen by {}: {}", names(thawed), reasons.join("; "))
            }
        };
        one_line(&format!("{name} ({service}){done}")) + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strangest_dates_do_not_panic() {
        for seconds in [253_402_300_799, 253_402_300_800, u64::MAX] {
            assert_eq!(date(Duration::from_secs(seconds)), "9999-12-31T23:59:59.000Z");
        }
    }
}
