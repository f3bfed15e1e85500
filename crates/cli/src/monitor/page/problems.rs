//! What is wrong, first of all: who waits for each other, what is held for long, what is frozen.

use std::fmt::Write as _;

use lockkeeper::QueueName;
use lockkeeper::backend::Part;
use lockkeeper_monitor::alerts::{About, Alert, Finding};
use lockkeeper_monitor::{Judged, KnownLock, Moment, Picture, State, Verdict};

use super::contender::named;
use super::escaped::{Escaped, QueryValue, lasting, thousands};
use super::picture::drawn;
use super::row::shown_kind;
use crate::monitor::operate::of_way_out;
use crate::output::{Deadlock, Orders, brief};

/// How many are shown; the paths for programs have all.
const SHOWN_MAX: usize = 20;

/// What is wrong, and how much of it there is.
#[derive(Debug, Default)]
pub(super) struct Problems {
    cards: Vec<String>,
}

impl Problems {
    /// Collects what is wrong, the worst first.
    pub(super) fn new(state: &State, firing: &[Alert], orders: &Orders, now: Moment) -> Self {
        let mut problems = Self::default();
        let (sure, unsure): (Vec<_>, Vec<_>) = state
            .deadlocks
            .iter()
            .filter(|judged| judged.verdict != Verdict::Unconfirmed)
            .partition(|judged| is_sure(judged));
        let of_deadlocks = |judged: &Judged, problems: &mut Self| {
            let number = problems.cards.len();
            problems.cards.push(deadlock(state, judged, orders, number, now));
        };
        problems.cards.extend(firing.iter().filter_map(|alert| of_service(alert, now)));
        sure.into_iter().for_each(|judged| of_deadlocks(judged, &mut problems));
        problems.cards.extend(firing.iter().filter_map(|alert| of_lock(alert, now)));
        problems.cards.extend(state.model.locks().iter().filter_map(|(name, lock)| frozen(name, lock, now)));
        unsure.into_iter().for_each(|judged| of_deadlocks(judged, &mut problems));
        problems
    }

    pub(super) fn count(&self) -> usize {
        self.cards.len()
    }

    /// Returns the section, empty if nothing is wrong.
    pub(super) fn section(&self) -> String {
        let mut text = String::from("<section id=\"problems\" aria-label=\"Problems\">");
        if !self.cards.is_empty() {
            text += "<h2>Problems</h2>";
            self.cards.iter().take(SHOWN_MAX).for_each(|card| text += card);
        }
        let more = self.cards.len().saturating_sub(SHOWN_MAX);
        if more > 0 {
            let _ = write!(text, "<p class=\"key\">{} more are in the answers for programs.</p>", thousands(more));
        }
        text + "</section>"
    }
}

fn is_sure(judged: &Judged) -> bool {
    matches!(judged.verdict, Verdict::Known | Verdict::EndsSoon(_))
}

/// Returns the deadlocks that a lock is part of, as cards.
pub(super) fn of_one(state: &State, lock: &QueueName, orders: &Orders, now: Moment) -> String {
    let has_part = |judged: &&Judged| {
        judged.verdict != Verdict::Unconfirmed
            && judged.deadlock.core.iter().any(|(queue, _)| queue.with_part(Part::Line) == *lock)
    };
    let found = state.deadlocks.iter().filter(has_part).take(SHOWN_MAX).enumerate();
    found.map(|(number, judged)| deadlock(state, judged, orders, number, now)).collect()
}

/// A deadlock: its picture, its chain in words, how sure it is, and the way out.
fn deadlock(state: &State, judged: &Judged, orders: &Orders, number: usize, now: Moment) -> String {
    let told = Deadlock::new(judged, orders, now.boot, now.unix);
    let (mild, tag, word) = match judged.verdict {
        Verdict::Known => ("", 'b', "deadlock".to_owned()),
        Verdict::EndsSoon(left) => (" mild", 'w', format!("deadlock, ends in {}", brief(left))),
        _ => (" mild", 'w', "possible deadlock".to_owned()),
    };
    let mut names: Vec<&str> = Vec::new();
    for link in &judged.deadlock.chain {
        if !names.contains(&link.lock.as_str()) {
            names.push(link.lock.as_str());
        }
    }
    let since = lasting(now.unix.saturating_sub(now.boot.saturating_duration_since(judged.since)), now.unix);
    let title = Escaped(&names.join(", ")).to_string();
    let mut card = format!(
        "<article class=\"card problem{mild}\"><h3><span class=\"tag {tag}\">{word}</span> {title}, for {since}</h3>"
    );
    let known = |name: &QueueName| state.model.locks().get(name);
    let waiters = |name: &QueueName| known(name).map_or(0, |lock| lock.waiters().count());
    let chain: Vec<String> = told.chain().collect();
    if let Some(picture) = Picture::of_deadlock(&judged.deadlock, waiters) {
        let kind_of = |name: &QueueName| known(name).map(shown_kind).unwrap_or_default();
        card += &drawn(&picture, number, &chain.join(" "), &kind_of);
    }
    card += "<div class=\"two\"><ol>";
    for (sentence, link) in chain.iter().zip(&judged.deadlock.chain) {
        let (shown, name) = (Escaped(sentence), link.lock.as_str());
        let _ = write!(card, "<li>{shown} <a href=\"lock?name={}\">{}</a></li>", QueryValue(name), Escaped(name));
    }
    let _ = write!(card, "</ol><div><p><b>How sure.</b> {}.</p>", Escaped(&capital(told.headline())));
    let mut way_out = told.way_out().into_iter();
    if let Some(what) = way_out.next() {
        let _ = write!(card, "<p><b>Way out.</b> {}.</p>", Escaped(&capital(&what)));
    }
    way_out.for_each(|order| _ = write!(card, "<p><code>{}</code></p>", Escaped(&order)));
    if orders.are_on_page() {
        card += &of_way_out(&judged.deadlock.way_out);
    }
    card + "</div></div></article>"
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn waiting(count: usize) -> String {
    format!("{} {}", thousands(count), if count == 1 { "waits" } else { "wait" })
}

fn of_service(alert: &Alert, now: Moment) -> Option<String> {
    let Finding::Unreachable(trouble) = &alert.finding else { return None };
    let since = lasting(alert.began_unix, now.unix);
    Some(format!(
        "<article class=\"card problem\"><h3><span class=\"tag b\">unreachable</span> The service cannot be asked, \
         for {since}</h3><p>{}</p></article>",
        Escaped(trouble)
    ))
}

fn of_lock(alert: &Alert, now: Moment) -> Option<String> {
    let (tag, words) = match (&alert.finding, &alert.about) {
        (Finding::Held { holder, at_least, waiters }, About::Held(..)) => {
            let (who, rest) = named(holder);
            let since = lasting(now.unix.saturating_sub(*at_least), now.unix);
            let held = format!("held by {} for {since} or longer", Escaped(&format!("{who} {rest}")));
            ("held long", format!("{held}; {}", waiting(*waiters)))
        }
        (Finding::Waiters { waiters, .. }, _) => ("long queue", format!("{} for it", waiting(*waiters))),
        _ => return None,
    };
    let lock = alert.about.lock()?.as_str();
    Some(format!(
        "<article class=\"card problem mild\"><h3><span class=\"tag w\">{tag}</span> \
         <a class=\"name\" href=\"lock?name={}\">{}</a></h3><p>{words}.</p></article>",
        QueryValue(lock),
        Escaped(lock),
    ))
}

/// A lock that is frozen while contenders wait for it.
fn frozen(name: &QueueName, lock: &KnownLock, now: Moment) -> Option<String> {
    let freezing = lock.contenders.iter().find(|one| one.info.frozen.is_some())?;
    let waiters = lock.waiters().count();
    if waiters == 0 {
        return None;
    }
    let (reason, name) = (freezing.info.frozen.as_deref()?, name.as_str());
    let since = lasting(now.unix.saturating_sub(freezing.age(now)), now.unix);
    Some(format!(
        "<article class=\"card problem mild\"><h3><span class=\"tag i\">frozen</span> \
         <a class=\"name\" href=\"lock?name={}\">{}</a>, for {since}</h3><p>{} until it is thawed: {}</p></article>",
        QueryValue(name),
        Escaped(name),
        waiting(waiters),
        Escaped(reason),
    ))
}
