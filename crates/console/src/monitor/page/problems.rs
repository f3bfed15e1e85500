//! The problems, first on the page: who waits for each other, what is held for long, what is frozen.

use std::fmt::Write as _;
use std::time::Duration;

use lockkeeper::QueueName;
use lockkeeper_monitor::alerts::{Alert, AlertFinding, Rule};
use lockkeeper_monitor::{DeadlockVerdict, Judged, KnownLock, MonitorState, TimePoint, WaitPicture};

use super::frame::{Escaped, QueryValue, aged, lasting, remaining, thousands};
use super::picture::drawn;
use super::row::named;
use super::row::used_as;
use crate::monitor::operate::of_way_out;
use crate::output::marks::{self, locks_of, told_deadlocks};
use crate::output::{DeadlockReport, Headline, OrderCommands, breach, brief, summary, tag};

/// How many are shown; the paths for programs have all.
const SHOWN_MAX: usize = 20;

/// What is wrong, and how much of it there is.
#[derive(Debug, Default)]
pub(super) struct Problems {
    cards: Vec<String>,
}

impl Problems {
    /// Collects what is wrong, the worst first.
    pub(super) fn new(state: &MonitorState, firing: &[Alert], orders: &OrderCommands, now: TimePoint) -> Self {
        let mut problems = Self::default();
        let (sure, unsure) = told_deadlocks(state);
        let of_deadlocks = |judged: &Judged, problems: &mut Self| {
            let number = problems.cards.len();
            problems.cards.push(deadlock(state, judged, orders, number, now));
        };
        problems.cards.extend(firing.iter().filter_map(|alert| of_service(alert, now)));
        let (broken, others): (Vec<_>, Vec<_>) = firing.iter().partition(|alert| alert.about.rule() == Rule::Breach);
        problems.cards.extend(broken.into_iter().filter_map(|alert| of_lock(alert, now)));
        sure.into_iter().for_each(|judged| of_deadlocks(judged, &mut problems));
        problems.cards.extend(others.into_iter().filter_map(|alert| of_lock(alert, now)));
        problems.cards.extend(state.model.locks().iter().filter_map(|(name, lock)| frozen(name, lock, now)));
        unsure.into_iter().for_each(|judged| of_deadlocks(judged, &mut problems));
        problems
    }

    pub(super) fn count(&self) -> usize {
        self.cards.len()
    }

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

pub(super) fn of_one(state: &MonitorState, lock: &QueueName, orders: &OrderCommands, now: TimePoint) -> String {
    let has_part =
        |judged: &&Judged| judged.verdict != DeadlockVerdict::Unconfirmed && locks_of(judged).any(|part| part == *lock);
    let found = state.deadlocks.iter().filter(has_part).take(SHOWN_MAX).enumerate();
    found.map(|(number, judged)| deadlock(state, judged, orders, number, now)).collect()
}

/// A deadlock: its picture, its chain in words, how sure it is, and the way out.
fn deadlock(state: &MonitorState, judged: &Judged, orders: &OrderCommands, number: usize, now: TimePoint) -> String {
    let told = DeadlockReport::new(judged, orders, now.boot, now.unix);
    let (mild, tag, word) = match judged.verdict {
        DeadlockVerdict::Known => ("", 'b', "deadlock".to_owned()),
        DeadlockVerdict::EndsSoon(left) => (" mild", 'w', format!("deadlock, ends in {}", ends(judged, left, now))),
        _ => (" mild", 'w', "possible deadlock".to_owned()),
    };
    let since = aged(now.boot.saturating_duration_since(judged.since), now);
    let title = Escaped(&judged.deadlock.locks().join(", ")).to_string();
    let mut card = format!(
        "<article class=\"card problem{mild}\"><h3><span class=\"tag {tag}\">{word}</span> {title}, for {since}</h3>"
    );
    let known = |name: &QueueName| state.model.locks().get(name);
    let waiters = |name: &QueueName| known(name).map_or(0, |lock| lock.waiters().count());
    let chain: Vec<String> = told.chain().collect();
    if let Some(picture) = WaitPicture::of_deadlock(&judged.deadlock, waiters) {
        let kind_of = |name: &QueueName| known(name).map(used_as).unwrap_or_default();
        card += &drawn(&picture, number, &chain.join(" "), &kind_of);
    }
    card += "<div class=\"two\"><ol>";
    for (sentence, link) in chain.iter().zip(&judged.deadlock.chain) {
        let (shown, name) = (Escaped(sentence), link.lock.as_str());
        let _ = write!(card, "<li>{shown} <a href=\"lock?name={}\">{}</a></li>", QueryValue(name), Escaped(name));
    }
    let Headline { begin, left, end } = told.headline();
    // The page counts down what is left.
    let left = left.map(|left| ends(judged, left, now)).unwrap_or_default();
    let sure = format!("{}{left}{}", Escaped(&capital(begin)), Escaped(end));
    let _ = write!(card, "</ol><div><p><b>How sure.</b> {sure}.</p>");
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

/// What is left until a deadlock ends by itself, as it counts down.
fn ends(judged: &Judged, left: Duration, now: TimePoint) -> String {
    remaining(judged.deadlock.ends_unix.unwrap_or(now.unix + left), now.unix)
}

pub(in crate::monitor) fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn waiting(count: usize) -> String {
    format!("{} {}", thousands(count), if count == 1 { "waits" } else { "wait" })
}

fn of_service(alert: &Alert, now: TimePoint) -> Option<String> {
    let AlertFinding::Unreachable(trouble) = &alert.finding else { return None };
    let since = lasting(alert.began_unix, now.unix);
    Some(format!(
        "<article class=\"card problem\"><h3><span class=\"tag b\">unreachable</span> The service cannot be asked, \
         for {since}</h3><p>{}</p></article>",
        Escaped(trouble)
    ))
}

fn of_lock(alert: &Alert, now: TimePoint) -> Option<String> {
    let who = |holder: &lockkeeper::ContenderInfo| {
        let (who, rest) = named(holder);
        Escaped(format!("{who} {rest}").trim_end()).to_string()
    };
    let words = match &alert.finding {
        // A separate card tells of these.
        AlertFinding::Deadlock(_) | AlertFinding::Unreachable(_) => return None,
        AlertFinding::Held { holder, since_unix, waiters, .. } => {
            let since = lasting(*since_unix, now.unix);
            format!("held by {} for {since} or longer; {}", who(holder), waiting(*waiters))
        }
        AlertFinding::Waiters { waiters, .. } => format!("{} for it", waiting(*waiters)),
        AlertFinding::Lost { losses } => {
            format!("{} holders have lost it in the last ten minutes: they died, or were cut off", thousands(*losses))
        }
        AlertFinding::Jeopardy { holder, since_unix, timeout, .. } => format!(
            "held by {}, which has given no sign of life for {}; after {} it loses the lock",
            who(holder),
            lasting(*since_unix, now.unix),
            brief(*timeout),
        ),
        AlertFinding::Breach(seen) => {
            let name = |info: &lockkeeper::ContenderInfo| {
                let (who, rest) = named(info);
                format!("{who} {rest}").trim_end().to_owned()
            };
            Escaped(&breach(seen, name)).to_string()
        }
        // What was said of it before a restart, or by another monitor.
        _ => Escaped(&summary(alert, now.unix)).to_string(),
    };
    let (rule, lock) = (alert.about.rule(), alert.about.lock()?.as_str());
    let (mild, colour) = if rule == Rule::Breach { ("", 'b') } else { (" mild", 'w') };
    let tag = tag(rule);
    Some(format!(
        "<article class=\"card problem{mild}\"><h3><span class=\"tag {colour}\">{tag}</span> \
         <a class=\"name\" href=\"lock?name={}\">{}</a></h3><p>{words}.</p></article>",
        QueryValue(lock),
        Escaped(lock),
    ))
}

/// A lock that is frozen while contenders wait for it.
fn frozen(name: &QueueName, lock: &KnownLock, now: TimePoint) -> Option<String> {
    let (freezer, reason, waiters) = marks::frozen(lock)?;
    let (since, name) = (aged(freezer.age(now), now), name.as_str());
    Some(format!(
        "<article class=\"card problem mild\"><h3><span class=\"tag i\">frozen</span> \
         <a class=\"name\" href=\"lock?name={}\">{}</a>, for {since}</h3><p>{} until it is thawed: {}</p></article>",
        QueryValue(name),
        Escaped(name),
        waiting(waiters),
        Escaped(reason),
    ))
}

#[cfg(test)]
mod tests {
    use lockkeeper::clock::BootInstant;
    use lockkeeper::{ContenderId, ContenderInfo, FencingToken, Mode};
    use lockkeeper_monitor::alerts::About;
    use lockkeeper_monitor::{Breach, SeenBreach};

    use super::*;

    const NOW: TimePoint = TimePoint { boot: BootInstant::from_nanos(0), unix: Duration::from_secs(1_000) };

    fn card(about: About, finding: AlertFinding) -> Option<String> {
        of_lock(&Alert::new(about, finding, Duration::from_secs(900)), NOW)
    }

    fn assert_told(card: Option<String>, tag: &str, words: &str) {
        let card = card.unwrap();
        assert!(card.contains(&format!(">{tag}</span>")) && card.contains("lock?name=a%2Fb"), "{card}");
        assert!(card.contains(&format!("<p>{words}.</p>")), "{card}");
    }

    #[test]
    fn each_alert_of_a_lock_has_a_card_that_stays_the_same_while_only_time_passes() {
        let (lock, id) = (QueueName::new("a/b").unwrap(), ContenderId::new("<7>"));
        let holder = || Box::new(ContenderInfo::new(id.clone(), Mode::Mutex));
        let since_unix = Duration::from_secs(640);
        let since = "<time data-at=\"640000\">6m00s</time>";
        // What was found at the last judgement may be a second old.
        let at_least = Duration::from_secs(359);
        let held = AlertFinding::Held { holder: holder(), at_least, since_unix, waiters: 2 };
        let words = format!("held by &lt;7&gt; for {since} or longer; 2 wait");
        assert_told(card(About::Held(lock.clone(), id.clone()), held), "held long", &words);
        let many = AlertFinding::Waiters { waiters: 1_200, holder: None };
        assert_told(card(About::Waiters(lock.clone()), many), "long queue", "1,200 wait for it");
        let lost = "3 holders have lost it in the last ten minutes: they died, or were cut off";
        assert_told(card(About::Lost(lock.clone()), AlertFinding::Lost { losses: 3 }), "lost often", lost);
        let timeout = Duration::from_secs(600);
        let silent = AlertFinding::Jeopardy { holder: holder(), silent: at_least, since_unix, timeout };
        let words =
            format!("held by &lt;7&gt;, which has given no sign of life for {since}; after 10m00s it loses the lock");
        assert_told(card(About::Jeopardy(lock.clone(), id.clone()), silent), "no sign of life", &words);
        let mut later = ContenderInfo::new(ContenderId::new("8"), Mode::Mutex);
        later.token = FencingToken::new(5, 0);
        let seen = SeenBreach::new(Breach::TokenFell, *holder(), later);
        let words = "&lt;7&gt; held it with token , and 8 after it with 5: fences refuse it";
        assert_told(card(About::Breach(lock.clone()), AlertFinding::Breach(Box::new(seen))), "broken promise", words);
        let said = AlertFinding::Said("a/b: <3> holders have lost it".to_owned());
        assert_told(card(About::Lost(lock), said), "lost often", "a/b: &lt;3&gt; holders have lost it");
        assert_eq!(card(About::Unreachable, AlertFinding::Unreachable("refused".to_owned())), None);
    }
}
