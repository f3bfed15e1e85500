//! Contenders that wait for each other, as `deadlocks` prints them: how sure it is, who waits for whom, the way out.
//! `found` is all of them, in one service.

#[cfg(feature = "monitor")]
mod found;
#[cfg(all(test, feature = "monitor"))]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use lockkeeper::ContenderInfo;
use lockkeeper::clock::BootInstant;
use lockkeeper_monitor::{self as monitor, AheadRole, Certainty, DeadlockVerdict, Dependence, Judged};
use serde::Serialize;

use super::text::{brief, one_line};
use super::way_out::{OrderCommands, WayOutRow};
use super::who::{ContenderView, millis};
#[cfg(feature = "monitor")]
pub use found::Deadlocks;

/// One deadlock.
#[derive(Debug, Serialize)]
pub(crate) struct DeadlockReport {
    verdict: &'static str,
    certainty: String,
    /// For how long it was seen.
    stands_ms: u64,
    /// After which time it ends by itself, if that is soon.
    ends_ms: Option<u64>,
    chain: Vec<LinkRow>,
    core: Vec<MemberRow>,
    behind: usize,
    way_out: WayOutRow,
    #[serde(skip)]
    headline: Headline,
}

/// How sure a deadlock is, and by what it is known.
#[derive(Debug)]
pub(crate) struct Headline {
    pub begin: String,
    /// What is left until it ends by itself, if that is soon: said between the two texts.
    pub left: Option<Duration>,
    pub end: String,
}

/// A wait, and what joins it with the next one.
#[derive(Debug, Serialize)]
struct LinkRow {
    lock: String,
    waiter: ContenderView,
    /// How many others stand between it and the one ahead.
    between: usize,
    state: BlockerState,
    /// Of a semaphore, how many permits are held, each of which would do.
    permits: Option<usize>,
    ahead: ContenderView,
    joined: &'static str,
    #[serde(skip)]
    joined_by: Dependence,
}

/// What the contender ahead of a waiter does.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum BlockerState {
    Holds,
    HasPermit,
    Waits,
}

/// A contender that blocks another one.
#[derive(Debug, Serialize)]
struct MemberRow {
    lock: String,
    id: String,
}

impl DeadlockReport {
    pub(crate) fn new(judged: &Judged, orders: &OrderCommands, now: BootInstant, now_unix: Duration) -> Self {
        let Judged { deadlock, verdict, since, .. } = judged;
        let (word, ends) = match verdict {
            DeadlockVerdict::Known => ("known", None),
            DeadlockVerdict::EndsSoon(left) => ("ends-soon", Some(*left)),
            DeadlockVerdict::Unconfirmed => ("unconfirmed", None),
            _ => ("possible", None),
        };
        let member = |(lock, id): &(lockkeeper::QueueName, lockkeeper::ContenderId)| MemberRow {
            lock: lock.as_str().to_owned(),
            id: id.to_string(),
        };
        Self {
            verdict: word,
            certainty: deadlock.certainty.to_string(),
            stands_ms: millis(now.saturating_duration_since(*since)),
            ends_ms: ends.map(millis),
            chain: deadlock.chain.iter().map(|link| LinkRow::new(link, now_unix)).collect(),
            core: deadlock.core.iter().map(member).collect(),
            behind: deadlock.behind,
            way_out: WayOutRow::new(&deadlock.way_out, orders, now_unix),
            headline: Headline::new(deadlock, *verdict),
        }
    }

    /// Says how sure it is, and by what it is known.
    pub(crate) const fn headline(&self) -> &Headline {
        &self.headline
    }

    /// Says in a sentence for each link who waits for whom, and how that leads to the next one.
    pub(crate) fn chain(&self) -> impl Iterator<Item = String> {
        self.chain.iter().enumerate().map(|(at, link)| link.sentence(at, self.chain.len()))
    }

    /// Says what ends it, and then the order for that, if there is one.
    pub(crate) fn way_out(&self) -> Vec<String> {
        self.way_out.lines()
    }
}

impl LinkRow {
    fn new(link: &monitor::ChainLink, now_unix: Duration) -> Self {
        let (state, permits) = match link.state {
            AheadRole::HasPermit(permits) => (BlockerState::HasPermit, Some(permits)),
            AheadRole::Waits => (BlockerState::Waits, None),
            _ => (BlockerState::Holds, None),
        };
        let ahead = ContenderView::new(&link.ahead, now_unix);
        Self {
            lock: link.lock.as_str().to_owned(),
            waiter: ContenderView::new(&link.waiter, now_unix),
            between: link.between,
            state,
            permits,
            ahead: if state == BlockerState::Waits { ahead } else { ahead.granted() },
            joined: word(link.joined),
            joined_by: link.joined,
        }
    }

    /// Returns it as one line of a chain of this many, which leads to the next one and from the last to the first.
    fn sentence(&self, at: usize, links: usize) -> String {
        let next = (at + 1) % links + 1;
        let Self { lock, waiter, ahead, .. } = self;
        let since = waiter.since().map(|since| format!(" for {since}")).unwrap_or_default();
        let behind = match self.between {
            0 => String::new(),
            1 => " behind 1 other".to_owned(),
            others => format!(" behind {others} others"),
        };
        let who = ahead.at_length();
        let ahead = match (self.state, self.permits) {
            (BlockerState::Waits, _) => format!("{who} is ahead of it"),
            (BlockerState::HasPermit, Some(permits)) if permits > 1 => {
                format!("{who} has one of its {permits} permits, of which none comes back")
            }
            (BlockerState::HasPermit, _) => format!("{who} has its only permit"),
            (BlockerState::Holds, _) => format!("{who} holds it"),
        };
        let joined = match self.joined_by {
            Dependence::Itself => format!("and waits in {next}."),
            Dependence::Within => format!("and {next}. runs under it"),
            Dependence::OwnerKey => format!("and is of one owner key with {next}."),
            Dependence::Run => format!("and runs under the same lock as {next}."),
            _ => format!("and is of one {} with {next}.", self.joined),
        };
        one_line(&format!("{} waits for {lock}{since}{behind}; {ahead}, {joined}", waiter.at_length()))
    }
}

impl Headline {
    fn new(deadlock: &monitor::Deadlock, verdict: DeadlockVerdict) -> Self {
        let reason = reason(deadlock);
        let known = || format!("deadlock, known by {reason}");
        let (begin, left, end) = match verdict {
            DeadlockVerdict::Known => (known(), None, ""),
            DeadlockVerdict::EndsSoon(left) => {
                (known() + "; it ends by itself in ", Some(left), ", when a waiter gives up")
            }
            DeadlockVerdict::Unconfirmed => {
                (format!("deadlock by {reason}, not confirmed: it was seen once, so look again"), None, "")
            }
            _ => (format!("possible deadlock: no more is known than {reason}"), None, ""),
        };
        let mut end = end.to_owned();
        let more = deadlock.core.len().saturating_sub(in_chain(deadlock));
        if more > 0 {
            end += &format!("; {more} more {} in the same way", if more == 1 { "is blocked" } else { "are blocked" });
        }
        if deadlock.behind > 0 {
            end += &format!("; {} behind it", waiting(deadlock.behind));
        }
        Self { begin, left, end }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.left.map(brief).unwrap_or_default();
        write!(formatter, "{}{left}{}", self.begin, self.end)
    }
}

/// How many contenders its chain names.
fn in_chain(deadlock: &monitor::Deadlock) -> usize {
    // An identity is of one queue, and a semaphore has two.
    let key = |lock: &lockkeeper::QueueName, info: &ContenderInfo| (lock.clone(), info.mode, info.id.clone());
    let links = deadlock.chain.iter();
    let named = links.flat_map(|link| [key(&link.lock, &link.waiter), key(&link.lock, &link.ahead)]);
    named.collect::<BTreeSet<_>>().len()
}

/// Says what the weakest link of a deadlock is known by.
fn reason(deadlock: &monitor::Deadlock) -> &'static str {
    let weakest = deadlock.chain.iter().map(|link| link.joined).max().unwrap_or(Dependence::Itself);
    match deadlock.certainty {
        Certainty::SameOwner => match weakest {
            Dependence::Within => "the enclosing run",
            Dependence::OwnerKey => "the same owner key",
            Dependence::Thread => "the same thread",
            _ => "the same owner",
        },
        Certainty::SameTask => "the same task",
        Certainty::SameRun => "the same enclosing run",
        Certainty::SameProcess => "the same process",
        _ => "the same session",
    }
}

/// The word for what joins two waits, in JSON.
const fn word(joined: Dependence) -> &'static str {
    match joined {
        Dependence::Itself => "itself",
        Dependence::Within => "within",
        Dependence::OwnerKey => "owner-key",
        Dependence::Thread => "thread",
        Dependence::Task => "task",
        Dependence::Run => "run",
        Dependence::Process => "process",
        _ => "session",
    }
}

pub(crate) fn waiting(count: usize) -> String {
    if count == 1 { "1 waits".to_owned() } else { format!("{count} wait") }
}
