//! One lock: who holds it and who waits, in order, as a table and as a picture. What was is in `past`.

use std::fmt::Write as _;

use lockkeeper::{ContenderInfo, QueueName};
use lockkeeper_monitor::{KnownContender, KnownLock, MonitorState, TimePoint, WaitPicture};

use super::frame::{Escaped, QueryValue, aged, remaining, thousands};
use super::past::{HistorySpan, past};
use super::picture::drawn;
use super::problems::of_one;
use super::row::{Other, held_for, named, others};
use super::row::{holding, used_as, waiting};
use crate::monitor::operate::{freezing, of_contender};
use crate::output::OrderCommands;
use crate::output::marks::{freezer, held, kind_of};

/// How many contenders are shown; the paths for programs have all.
const SHOWN_MAX: usize = 200;

/// Returns the main part of a lock's page; one without contenders is free.
pub(super) fn lock(
    state: &MonitorState,
    name: &QueueName,
    span: HistorySpan,
    orders: &OrderCommands,
    now: TimePoint,
) -> String {
    let mut main = format!("<h1>{}</h1><div id=\"lock\">", Escaped(name.as_str()));
    main += &changing(state, name, orders, now);
    main + "</div>" + &past(state, name, span, now)
}

/// Returns the part of it that changes.
pub(super) fn changing(state: &MonitorState, name: &QueueName, orders: &OrderCommands, now: TimePoint) -> String {
    let mut text = String::new();
    let Some(lock) = state.model.locks().get(name) else {
        text += "<p>Nothing holds it, and nothing waits for it.</p>";
        if orders.are_on_page() {
            text += &freezing(name);
        }
        return text;
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
        let kind_of = |_: &QueueName| used_as(lock);
        let words = format!("The first who hold {} and who wait for it.", name.as_str());
        format!("<div class=\"card drawing\">{}</div>", drawn(&WaitPicture::of_lock(name, lock), 0, &words, &kind_of))
    } else {
        deadlocks
    };
    let _ = write!(text, "<section><h2>Who waits for whom</h2>{drawing}</section>");
    text
}

fn numbers(lock: &KnownLock, now: TimePoint) -> String {
    let mut text = String::from("<dl class=\"sum four\">");
    for (what, number) in [
        ("Kind", used_as(lock)),
        ("Held for", holding(lock, now)),
        ("Waiting", thousands(lock.waiters().count())),
        ("Oldest wait", waiting(lock, now)),
    ] {
        let _ = write!(text, "<div><dt>{what}</dt><dd>{number}</dd></div>");
    }
    text + "</dl>"
}

fn queue(state: &MonitorState, name: &QueueName, lock: &KnownLock, orders: &OrderCommands, now: TimePoint) -> String {
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
fn freezable(name: &QueueName, lock: &KnownLock, orders: &OrderCommands) -> String {
    let can_be = freezer(lock).is_none() && kind_of(lock) != Some("barrier");
    if orders.are_on_page() && can_be { freezing(name) } else { String::new() }
}

fn contender(position: usize, one: &KnownContender, others: &[Other], orders: &str, now: TimePoint) -> String {
    let info = &one.info;
    let (tag, state) = match (one.hold.is_some(), &info.frozen) {
        (_, Some(_)) => ('i', "freezes"),
        (true, _) => ('h', "holds"),
        (false, _) => ('w', "waits"),
    };
    let since = held(one, now).map_or_else(|| aged(one.age(now), now), |held| held_for(held, now));
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

fn left(one: &KnownContender, now: TimePoint) -> Option<String> {
    let until = one.info.caller.until_unix.filter(|_| one.hold.is_none())?;
    Some(format!("gives up in {}", remaining(until, now.unix)))
}
