//! Links from other pages to orders and to the login.
//!
//! Links are the same for all pages, logged in or not, since a lock's page is told its changes in parts that are
//! rendered once for all. A user who follows one without being logged in is asked for the token first.

use axum::http::HeaderMap;
use lockkeeper::{ContenderInfo, QueueName};
use lockkeeper_monitor::WayOut;

use super::operating::Operating;
use super::origin::{Peer, RequestOrigin};
use crate::monitor::page::{Escaped, QueryValue, named};

/// What the head of every page has: the way to log in, or out.
pub(in crate::monitor) fn door(operating: &Operating, peer: Peer, headers: &HeaderMap) -> String {
    door_of(operating, &RequestOrigin::new(peer, headers))
}

/// What came of an order, for the session that gave it.
pub(in crate::monitor) fn told_of(
    operating: &Operating,
    peer: Peer,
    headers: &HeaderMap,
    number: u64,
) -> Option<String> {
    let session = operating.session(&RequestOrigin::new(peer, headers))?;
    let text = operating.told(&session, number)?;
    Some(format!("<p class=\"told\" role=\"status\">{}</p>", Escaped(text.trim_end())))
}

/// The way to log in, or out, for this caller.
pub(super) fn door_of(operating: &Operating, caller: &RequestOrigin) -> String {
    let session = operating.session(caller);
    match session.and_then(|session| operating.secret(&session)) {
        Some(secret) => format!(
            "<form class=\"door\" method=\"post\" action=\"logout\"><input type=\"hidden\" name=\"secret\" \
             value=\"{}\"><button>Log out</button></form>",
            Escaped(&secret)
        ),
        None if operating.require_way(caller).is_ok() => "<a class=\"door\" href=\"login\">Log in</a>".to_owned(),
        None => String::new(),
    }
}

/// The orders that a contender can be given: a holder may be asked, or lose the lock; what freezes it may be removed.
pub(in crate::monitor) fn of_contender(lock: &QueueName, info: &ContenderInfo, holds: bool) -> String {
    let token = info.token.map(|token| token.to_string());
    let link = |order: &str, word: &str| {
        let (who, rest) = named(info);
        format!(
            "<a href=\"{}\">{word}<span class=\"vh\"> {}</span></a>",
            href(lock, order, Some((info.id.as_str(), token.as_deref()))),
            Escaped(&format!("{who} {rest}"))
        )
    };
    let links = match (info.frozen.is_some(), holds, token.is_some()) {
        (true, _, true) => vec![link("thaw", "Thaw")],
        (false, true, true) => vec![link("revoke", "Revoke"), link("break", "Break")],
        (false, true, false) => vec![link("revoke", "Revoke")],
        _ => return String::new(),
    };
    format!(" <span class=\"orders\">{}</span>", links.join(" · "))
}

/// The order that keeps all contenders out of a lock.
pub(in crate::monitor) fn freezing(lock: &QueueName) -> String {
    format!("<p class=\"orders\"><a href=\"{}\">Freeze this lock</a></p>", href(lock, "freeze", None))
}

/// The order that ends a deadlock, if there is one.
pub(in crate::monitor) fn of_way_out(way_out: &WayOut) -> String {
    let (order, word, lock, holder) = match way_out {
        WayOut::Revoke { lock, holder } => ("revoke", "Ask the holder here", lock, holder),
        WayOut::Break { lock, holder, .. } => ("break", "Take it away here", lock, holder),
        _ => return String::new(),
    };
    let token = holder.token.map(|token| token.to_string());
    let href = href(lock, order, Some((holder.id.as_str(), token.as_deref())));
    format!("<p class=\"orders\"><a href=\"{href}\">{word}</a></p>")
}

/// Where an order is asked for: with what was seen, in a query that is ASCII without markup.
fn href(lock: &QueueName, order: &str, seen: Option<(&str, Option<&str>)>) -> String {
    let mut href = format!("order?name={}&amp;order={order}", QueryValue(lock.as_str()));
    if let Some((contender, token)) = seen {
        href += &format!("&amp;contender={}", QueryValue(contender));
        href += &token.map(|token| format!("&amp;token={}", QueryValue(token))).unwrap_or_default();
    }
    href
}
