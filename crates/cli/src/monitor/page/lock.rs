//! One lock: who holds it and who waits, in order, as a table and as a picture; and what has happened to it.

use std::fmt::Write as _;

use lockkeeper::{ContenderInfo, QueueName};
use lockkeeper_monitor::{KnownContender, KnownLock, Moment, Picture, SeenEvent, State};

use super::contender::{Other, held, named, others};
use super::escaped::{Escaped, QueryValue, lasting, remaining, thousands};
use super::picture::drawn;
use super::problems::of_one;
use super::row::{holding, shown_kind};
use crate::monitor::operate::{freezing, of_contender};
use crate::output::{Orders, date, kind};

/// How many contenders are shown; the paths for programs have all.
const SHOWN_MAX: usize = 200;

/// How many events are shown, the newest ones.
const EVENTS_SHOWN_MAX: usize = 100;

/// Returns the main part of a lock's page; one without contenders is free.
pub(super) fn lock(state: &State, name: &QueueName, orders: &Orders, now: Moment) -> String {
    let mut main = format!("<h1>{}</h1><div id=\"lock\">", Escaped(name.as_str()));
    main += &changing(state, name, orders, now);
    main + "</div>"
}

/// Returns the part of it that changes.
pub(super) fn changing(state: &State, name: &QueueName, orders: &Orders, now: Moment) -> String {
    let mut text = String::new();
    let Some(lock) = state.model.locks().get(name) else {
        text += "<p>Nothing holds it, and nothing waits for it.</p>";
        if orders.are_on_page() {
            text += &freezing(name);
        }
        return text + &history(state, name);
    };
    text += &numbers(lock, now);
    let _ = write!(
        text,
        "<section id=\"queue\"><h2>Queue</h2>{}{}</section>",
        queue(state, name, lock, orders, now),
        freezable(name, lock, orders)
    );
    let deadlocks = of_one(state, name, orders, now);
    let drawing = if deadlocks.is_empty() {
        let kind_of = |_: &QueueName| shown_kind(lock);
        let words = format!("The first who hold {} and who wait for it.", name.as_str());
        format!("<div class=\"card drawing\">{}</div>", drawn(&Picture::of_lock(name, lock), 0, &words, &kind_of))
    } else {
        deadlocks
    };
    let _ = write!(text, "<section><h2>Who waits for whom</h2>{drawing}</section>");
    text + &history(state, name)
}

fn numbers(lock: &KnownLock, now: Moment) -> String {
    let oldest = lock.waiters().map(|waiter| waiter.age(now)).max();
    let oldest = oldest.map_or_else(|| "–".to_owned(), |age| lasting(now.unix.saturating_sub(age), now.unix));
    let mut text = String::from("<dl class=\"sum four\">");
    for (what, number) in [
        ("Kind", shown_kind(lock)),
        ("Held for", holding(lock, now)),
        ("Waiting", thousands(lock.waiters().count())),
        ("Oldest wait", oldest),
    ] {
        let _ = write!(text, "<div><dt>{what}</dt><dd>{number}</dd></div>");
    }
    text + "</dl>"
}

fn queue(state: &State, name: &QueueName, lock: &KnownLock, orders: &Orders, now: Moment) -> String {
    let shown = &lock.contenders[..lock.contenders.len().min(SHOWN_MAX)];
    let others = others(&state.model, name, shown);
    let mut text = format!(
        "<div class=\"card\"><table><caption class=\"vh\">Who holds {} and who waits, in order</caption><thead><tr>\
         <th scope=\"col\">#</th><th scope=\"col\">State</th><th scope=\"col\">Mode</th><th scope=\"col\">Who</th>\
         <th scope=\"col\" class=\"num\">Since</th><th scope=\"col\" class=\"num\">Token</th>\
         <th scope=\"col\">Also</th></tr></thead><tbody>",
        Escaped(name.as_str())
    );
    for ((position, one), others) in (1..).zip(shown).zip(others) {
        let orders = match orders.are_on_page() {
            true => of_contender(name, &one.info, one.hold.is_some()),
            false => String::new(),
        };
        text += &contender(position, one, &others, &orders, now);
    }
    text += "</tbody></table></div>";
    let more = lock.contenders.len() - shown.len();
    if more > 0 {
        let link = QueryValue(name.as_str());
        let _ = write!(text, "<p class=\"key\">{} more: <a href=\"api/locks/{link}\">JSON</a></p>", thousands(more));
    }
    text
}

/// The order that keeps all out, of a lock that is not frozen and can be.
fn freezable(name: &QueueName, lock: &KnownLock, orders: &Orders) -> String {
    let is_frozen = lock.contenders.iter().any(|one| one.info.frozen.is_some());
    let is_barrier = kind(lock.contenders.iter().map(|one| &one.info)) == Some("barrier");
    if orders.are_on_page() && !is_frozen && !is_barrier { freezing(name) } else { String::new() }
}

fn contender(position: usize, one: &KnownContender, others: &[Other], orders: &str, now: Moment) -> String {
    let info = &one.info;
    let (tag, state) = match (one.hold.is_some(), &info.frozen) {
        (_, Some(_)) => ('i', "freezes"),
        (true, _) => ('h', "holds"),
        (false, _) => ('w', "waits"),
    };
    let since = held(one, now).unwrap_or_else(|| lasting(now.unix.saturating_sub(one.age(now)), now.unix));
    let token = info.token.map_or_else(|| "–".to_owned(), |token| token.to_string());
    let (who, rest) = named(info);
    let mut also: Vec<String> = others.iter().map(also).collect();
    also.extend(asked(info));
    format!(
        "<tr><td data-l=\"#\">{position}</td><td><span class=\"tag {tag}\">{state}</span></td>\
         <td data-l=\"mode\">{}</td><td class=\"wide\"><span class=\"who\">{}</span> <span class=\"sub\">{}</span></td>\
         <td class=\"num\" data-l=\"since\">{since}</td><td class=\"num\" data-l=\"token\">{}</td>\
         <td class=\"wide\">{}{orders}</td></tr>",
        info.mode.as_str(),
        Escaped(&who),
        [Some(Escaped(&rest).to_string()), left(one, now)].into_iter().flatten().collect::<Vec<_>>().join(", "),
        Escaped(&token),
        also.join(", "),
    )
}

fn also(other: &Other) -> String {
    let (verb, name) = (if other.holds { "holds" } else { "waits for" }, other.lock.as_str());
    format!("{verb} <a href=\"lock?name={}\">{}</a>", QueryValue(name), Escaped(name))
}

/// Says that it was asked to give up, or why it freezes the lock.
fn asked(info: &ContenderInfo) -> Option<String> {
    if let Some(reason) = &info.frozen {
        return Some(Escaped(reason).to_string());
    }
    let why = info.revocation.as_ref()?.why.as_deref().map(|why| format!(": {}", Escaped(why)));
    Some(format!("asked to give it up{}", why.unwrap_or_default()))
}

/// Says when it gives up waiting.
fn left(one: &KnownContender, now: Moment) -> Option<String> {
    let until = one.info.caller.until_unix.filter(|_| one.hold.is_none())?;
    Some(format!("gives up in {}", remaining(until, now.unix)))
}

fn history(state: &State, name: &QueueName) -> String {
    let of_lock = state.model.events_from(0).rev().filter(|event| event.lock == *name);
    let rows: String = of_lock.take(EVENTS_SHOWN_MAX).map(event).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<section id=\"history\"><h2>What happened</h2><div class=\"card\"><table>\
         <caption class=\"vh\">The last events, the newest first</caption><thead><tr>\
         <th scope=\"col\">Time (UTC)</th><th scope=\"col\">Event</th></tr></thead>\
         <tbody>{rows}</tbody></table></div></section>"
    )
}

fn event(event: &SeenEvent) -> String {
    let at = date(event.at_unix);
    // The hour, minute and second of a date of RFC 3339.
    let (who, rest) = (named(&event.contender), at.get(11..19).unwrap_or(&at));
    let (who, kind) = (format!("{} {}", who.0, who.1), event.kind.as_str());
    format!(
        "<tr><td><time datetime=\"{at}\">{rest}</time></td><td class=\"wide\">{} <b>{kind}</b></td></tr>",
        Escaped(&who)
    )
}
