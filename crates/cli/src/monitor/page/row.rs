//! A lock as a row of the list: rendered once, for pages and for what they are told later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use lockkeeper::QueueName;
use lockkeeper::backend::Part;
use lockkeeper_monitor::alerts::{About, Alert};
use lockkeeper_monitor::{KnownLock, Moment, State, Verdict};

use super::contender::{held, named};
use super::escaped::{Escaped, QueryValue, lasting, row_id, thousands};
use crate::output::{kind, tag};

/// How many holders a row names.
const NAMED_MAX: usize = 3;

/// As many waiters have the longest bar; the bar of half as many is four fifths of it.
const BAR_WAITERS: f64 = 1_000.0;

/// How wide that is.
const BAR_WIDTH: f64 = 64.0;

/// What the columns behind the name are, for the style sheet: on a narrow page each says what it is.
const COLUMNS: [&str; 5] = [
    "class=\"kind\"",
    "class=\"wide\"",
    "class=\"num\" data-l=\"held\"",
    "class=\"num\" data-l=\"waiting\"",
    "class=\"num\" data-l=\"oldest wait\"",
];

/// The locks that something is wrong with.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Marks {
    deadlocked: BTreeSet<QueueName>,
    /// Of those that end by themselves soon; these are among the deadlocked ones too.
    ending: BTreeSet<QueueName>,
    /// Of deadlocks that may be none.
    doubtful: BTreeSet<QueueName>,
    /// By what they are marked otherwise.
    tagged: BTreeMap<QueueName, &'static str>,
}

impl Marks {
    pub(super) fn new(state: &State, firing: &[Alert]) -> Self {
        let locks_of = |is_so: fn(Verdict) -> bool| {
            let judged = state.deadlocks.iter().filter(move |judged| is_so(judged.verdict));
            judged.flat_map(|judged| &judged.deadlock.core).map(|(queue, _)| queue.with_part(Part::Line)).collect()
        };
        let deadlocked = locks_of(|verdict| matches!(verdict, Verdict::Known | Verdict::EndsSoon(_)));
        let doubtful = locks_of(|verdict| verdict == Verdict::Possible);
        let ending = locks_of(|verdict| matches!(verdict, Verdict::EndsSoon(_)));
        // Of several the last one counts: a holder that is silent now comes before what was.
        let mut tagged = BTreeMap::new();
        for alert in firing {
            match &alert.about {
                About::Held(lock, _) | About::Lost(lock) | About::Jeopardy(lock, _) => {
                    tagged.insert(lock.clone(), tag(alert.about.rule()));
                }
                // The length of a queue is in its row, and a deadlock has its own mark.
                _ => {}
            }
        }
        Self { deadlocked, ending, doubtful, tagged }
    }

    /// Tells whether something is wrong with a lock.
    pub(super) fn has(&self, lock: &QueueName) -> bool {
        self.deadlocked.contains(lock) || self.tagged.contains_key(lock)
    }

    /// Returns the locks that are marked in one of these alone, or otherwise.
    pub(super) fn differing(&self, other: &Self) -> BTreeSet<QueueName> {
        let deadlocked = self.deadlocked.symmetric_difference(&other.deadlocked);
        let ending = self.ending.symmetric_difference(&other.ending);
        let doubtful = self.doubtful.symmetric_difference(&other.doubtful);
        let tagged = self.tagged.keys().chain(other.tagged.keys());
        let tagged = tagged.filter(|&lock| self.tagged.get(lock) != other.tagged.get(lock));
        deadlocked.chain(ending).chain(doubtful).chain(tagged).cloned().collect()
    }
}

/// Returns the row of a lock; one without contenders is free.
pub(super) fn row(lock_name: &QueueName, lock: Option<&KnownLock>, marks: &Marks, now: Moment) -> String {
    let (id, link, shown) = (row_id(lock_name), QueryValue(lock_name.as_str()), Escaped(lock_name.as_str()));
    let is_deadlocked = marks.deadlocked.contains(lock_name);
    let hit = if is_deadlocked { " class=\"hit\"" } else { "" };
    let mut name = format!("<a class=\"name\" href=\"lock?name={link}\">{shown}</a>");
    let cells = match lock {
        None => ["", "<span class=\"sub\">free</span>", "–", "0", "–"].map(str::to_owned),
        Some(lock) => {
            name += &tags(is_deadlocked, marks.tagged.get(lock_name).copied(), is_frozen(lock));
            cells(lock, now)
        }
    };
    let mut row = format!("<tr id=\"{id}\" role=\"row\"{hit}><td role=\"cell\">{name}</td>");
    for (attributes, cell) in COLUMNS.into_iter().zip(cells) {
        let _ = write!(row, "<td role=\"cell\" {attributes}>{cell}</td>");
    }
    row + "</tr>"
}

/// What stands behind the name of a lock: its kind, its holders, how long it is held, how many wait, for how long.
fn cells(lock: &KnownLock, now: Moment) -> [String; 5] {
    let oldest = lock.waiters().map(|waiter| waiter.age(now)).max();
    let oldest = oldest.map_or_else(|| "–".to_owned(), |age| lasting(now.unix.saturating_sub(age), now.unix));
    let kind = format!("<span class=\"tag n\">{}</span>", shown_kind(lock));
    [kind, holders(lock), holding(lock, now), bar(lock.waiters().count()), oldest]
}

/// The kind of a lock, and how many permits it has, if that is known.
pub(super) fn shown_kind(lock: &KnownLock) -> String {
    let shown = match kind(lock.contenders.iter().map(|one| &one.info)) {
        Some("rwlock") => "read/write",
        Some(kind) => kind,
        None => "mutex",
    };
    lock.permits.map_or_else(|| shown.to_owned(), |permits| format!("{shown} {permits}"))
}

/// Tells whether no waiter is granted it until it is thawed.
fn is_frozen(lock: &KnownLock) -> bool {
    lock.contenders.iter().any(|one| one.info.frozen.is_some())
}

fn tags(is_deadlocked: bool, tagged: Option<&str>, is_frozen: bool) -> String {
    let (class, words) = match (is_deadlocked, is_frozen, tagged) {
        (true, ..) => ('b', "deadlock"),
        (_, true, _) => ('i', "frozen"),
        (.., Some(words)) => ('w', words),
        _ => return String::new(),
    };
    format!(" <span class=\"tag {class}\">{words}</span>")
}

/// For how long it is held by the one that holds it longest.
pub(super) fn holding(lock: &KnownLock, now: Moment) -> String {
    let longest = lock.holders().max_by_key(|holder| holder.held_at_least(now));
    longest.and_then(|holder| held(holder, now)).unwrap_or_else(|| "–".to_owned())
}

fn holders(lock: &KnownLock) -> String {
    if let Some(frozen) = lock.contenders.iter().find(|one| one.info.frozen.is_some()) {
        let (by, _) = named(&frozen.info);
        let why = frozen.info.frozen.as_deref().unwrap_or_default();
        let (by, why) = (Escaped(&by), Escaped(why));
        return format!("<span class=\"who\">frozen by {by}</span> <span class=\"sub\">{why}</span>");
    }
    let holders: Vec<_> = lock.holders().take(NAMED_MAX).map(|holder| named(&holder.info)).collect();
    let more = lock.holders().count().saturating_sub(NAMED_MAX);
    match holders.as_slice() {
        [] => String::new(),
        [(who, rest)] => {
            format!("<span class=\"who\">{}</span> <span class=\"sub\">{}</span>", Escaped(who), Escaped(rest))
        }
        several => {
            let names: Vec<_> = several.iter().map(|(who, _)| who.as_str()).collect();
            let more = if more > 0 { format!(" and {} more", thousands(more)) } else { String::new() };
            format!("<span class=\"who\">{}</span><span class=\"sub\">{more}</span>", Escaped(&names.join(", ")))
        }
    }
}

/// How many wait, as a number and as a bar: long queues are told apart too, so its length is a logarithm.
fn bar(waiters: usize) -> String {
    let shown = thousands(waiters);
    if waiters == 0 {
        return shown;
    }
    let count = f64::from(u32::try_from(waiters).unwrap_or(u32::MAX));
    let width = (BAR_WIDTH * (1.0 + count).ln() / (1.0 + BAR_WAITERS).ln()).clamp(3.0, BAR_WIDTH);
    format!(
        "<span class=\"q\"><svg aria-hidden=\"true\" viewBox=\"0 0 64 9\"><rect x=\"{:.0}\" width=\"{width:.0}\" \
         height=\"9\" rx=\"2\"/></svg>{shown}</span>",
        BAR_WIDTH - width
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper::ContenderId;
    use lockkeeper_monitor::alerts::Finding;

    use super::*;

    fn lock(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    fn marks(abouts: Vec<About>) -> Marks {
        let firing = |about| Alert::new(about, Finding::Said("wrong".to_owned()), Duration::ZERO);
        Marks::new(&State::default(), &abouts.into_iter().map(firing).collect::<Vec<_>>())
    }

    #[test]
    fn a_lock_is_marked_by_what_is_wrong_with_it_and_differs_when_that_does() {
        let id = ContenderId::new("c");
        let held = marks(vec![About::Held(lock("a"), id.clone()), About::Waiters(lock("b"))]);
        let lost = marks(vec![About::Lost(lock("a"))]);
        let silent = marks(vec![About::Held(lock("a"), id.clone()), About::Jeopardy(lock("a"), id)]);
        for (marks, words) in [(&held, "held long"), (&lost, "lost often"), (&silent, "no sign of life")] {
            assert_eq!(marks.tagged.get(&lock("a")), Some(&words));
            assert!(marks.has(&lock("a")) && !marks.has(&lock("b")));
        }
        assert_eq!(held.differing(&lost), BTreeSet::from([lock("a")]));
        assert_eq!(held.differing(&Marks::default()), BTreeSet::from([lock("a")]));
        assert!(held.differing(&held).is_empty());
        assert!(tags(false, Some("lost often"), false).contains(">lost often<"));
    }

    #[test]
    fn a_deadlock_that_ends_soon_is_marked_apart_from_one_that_does_not() {
        let (known, soon) = (Marks::default(), BTreeSet::from([lock("a")]));
        let known = Marks { deadlocked: soon.clone(), ..known };
        let ending = Marks { ending: soon.clone(), ..known.clone() };
        assert_eq!(known.differing(&ending), soon);
    }
}
