//! The frame of all pages: head, freshness, links; and the rules that a browser is told with them.

use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use lockkeeper::QueueName;
use lockkeeper_monitor::{CollectionMode, LockEventKind, MonitorState, ServiceFreshness, TimePoint};

use crate::output::marks::{age_max, all_waits};
use crate::output::{brief, millis, one_line};

/// Nothing from elsewhere, no script or style but the two files that are served, no page around this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[derive(Debug)]
pub(in crate::monitor) struct Frame<'a> {
    pub(in crate::monitor) title: &'a str,
    pub(in crate::monitor) service: &'a str,
    /// What says how fresh it is, by [`freshness`].
    pub(in crate::monitor) freshness: String,
    /// Where its changes are told from; none for a page that does not change.
    pub(in crate::monitor) live: Option<String>,
    pub(in crate::monitor) now: TimePoint,
    /// The way to log in or out, as HTML; empty where there are no orders.
    pub(in crate::monitor) door: String,
}

impl Frame<'_> {
    pub(in crate::monitor) fn around(self, main: &str) -> String {
        let Self { title, service, freshness, live, now, door } = self;
        let mut page = String::with_capacity(main.len() + 2_048);
        // A browser names no origin in the forms of a page that names no referrer; others are still told nothing.
        let referrer = if door.is_empty() { "" } else { "<meta name=\"referrer\" content=\"same-origin\">" };
        let live = live.map(|from| format!(" data-live=\"{}\"", Escaped(&from))).unwrap_or_default();
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">{referrer}\
             <title>{} - Lockkeeper</title><link rel=\"stylesheet\" href=\"page.css\">\
             <script src=\"page.js\" defer></script></head>\n<body data-now=\"{}\"{live}>\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <header><a class=\"mark\" href=\"./\">Lockkeeper</a><code>{}</code>{freshness}{door}</header>\n\
             <main id=\"main\">{main}</main>\n\
             <footer><p>Ages are by the clock of this monitor; “≥” counts from when it saw the hold first.</p>\
             <nav aria-label=\"For programs\"><a href=\"api/locks\">JSON</a> · <a href=\"metrics\">Metrics</a> · \
             <a href=\"api/events\">Events</a> · <a href=\"api/deadlocks\">Deadlocks</a> · \
             <a href=\"api/alerts\">Alerts</a></nav></footer></body></html>\n",
            Escaped(title),
            millis(now.unix),
            Escaped(service),
        );
        page
    }
}

pub(in crate::monitor) fn freshness(state: &MonitorState, now: TimePoint) -> String {
    let age = state.freshness.age(now.boot);
    let trouble = state.freshness.trouble().map(|error| format!(": {}", Escaped(&format!("{error:#}"))));
    let trouble = trouble.unwrap_or_default();
    let (class, words) = match (&state.freshness, age) {
        (ServiceFreshness::Fresh(_), Some(age)) if age <= age_max(state.way) => match state.way {
            CollectionMode::Looks(period) => {
                ("live", format!("seen {} ago, looked at each {}", aged(age, now), brief(period)))
            }
            _ => ("live", "live".to_owned()),
        },
        (_, Some(age)) => ("live stale", format!("not true since {}{trouble}", aged(age, now))),
        (_, None) => ("live stale", format!("nothing seen yet{trouble}")),
    };
    format!("<span class=\"{class}\" role=\"status\" id=\"live\">{words}</span>")
}

pub(in crate::monitor) fn answer(status: StatusCode, page: String) -> Response {
    with_rules(status, "text/html; charset=utf-8", page)
}

/// Answers with one of the two files that pages need.
pub(super) fn file(content_type: &'static str, text: &'static str) -> Response {
    with_rules(StatusCode::OK, content_type, text.to_owned())
}

fn with_rules(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, text).into_response()
}

#[derive(Clone, Copy, Debug)]
pub(in crate::monitor) struct Escaped<'a>(pub(in crate::monitor) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in one_line(self.0).chars() {
            match letter {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                _ => formatter.write_char(letter)?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(in crate::monitor) struct QueryValue<'a>(pub(in crate::monitor) &'a str);

impl Display for QueryValue<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    formatter.write_char(char::from(byte))?;
                }
                _ => write!(formatter, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

/// The identity of a lock's row: another one for each name.
pub(super) fn row_id(lock: &QueueName) -> String {
    let mut id = String::from("l-");
    lock.as_str().bytes().for_each(|byte| _ = write!(id, "{byte:02x}"));
    id
}

/// How long something goes on since a moment: a page with script counts on from there.
pub(super) fn lasting(since_unix: Duration, now_unix: Duration) -> String {
    let lasts = brief(now_unix.saturating_sub(since_unix));
    format!("<time data-at=\"{}\">{lasts}</time>", millis(since_unix))
}

/// The same of what has gone on for so long by now.
pub(super) fn aged(age: Duration, now: TimePoint) -> String {
    lasting(now.unix.saturating_sub(age), now.unix)
}

/// How long something goes on until a moment: a page with script counts down from there.
pub(super) fn remaining(until_unix: Duration, now_unix: Duration) -> String {
    let left = brief(until_unix.saturating_sub(now_unix));
    format!("<time data-at=\"{}\" data-left>{left}</time>", millis(until_unix))
}

/// Tells whether two texts differ in nothing but the words of ages, which a page counts on by itself.
pub(super) fn differ_in_ages_alone(one: &str, other: &str) -> bool {
    without_ages(one).eq(without_ages(other))
}

/// The pieces of a text between its ages, each with the moment since which the next age counts.
fn without_ages(html: &str) -> impl Iterator<Item = &str> {
    html.split("</time>").map(|piece| match piece.rsplit_once("<time data-at=") {
        Some((_, age)) => &piece[..piece.len() - age.len() + age.find('>').unwrap_or(age.len())],
        None => piece,
    })
}

pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Over how long grants are counted.
const GRANTS_OVER: Duration = Duration::from_secs(10);

/// Returns them; something is wrong in `problems` places.
pub(super) fn numbers(state: &MonitorState, problems: usize, now: TimePoint) -> String {
    let (waiting, longest) = all_waits(state, now);
    let longest = longest.map_or_else(
        || "–".to_owned(),
        |(age, name)| format!("{} <small>{}</small>", aged(age, now), Escaped(name.as_str())),
    );
    let held = state.model.locks().len();
    let mut text = String::from("<dl class=\"sum\" id=\"sum\">");
    for (what, number) in [
        ("Problems", thousands(problems)),
        ("Locks in use", thousands(held)),
        ("Waiting", thousands(waiting)),
        ("Longest wait", longest),
        ("Grants", format!("{} <small>a second</small>", grants_a_second(state, now))),
    ] {
        text += &format!("<div><dt>{what}</dt><dd>{number}</dd></div>");
    }
    text + "</dl>"
}

fn grants_a_second(state: &MonitorState, now: TimePoint) -> String {
    let begin = now.unix.saturating_sub(GRANTS_OVER);
    let recent = || state.model.events_from(0).rev().take_while(|event| event.at_unix >= begin);
    let grants = recent().filter(|event| event.kind == LockEventKind::Granted).count();
    // Of a service that is full of changes fewer seconds are kept.
    let over = match recent().last() {
        Some(oldest) if recent().count() == lockkeeper_monitor::EVENTS_MAX => now.unix.saturating_sub(oldest.at_unix),
        _ => GRANTS_OVER,
    };
    let grants = f64::from(u32::try_from(grants).unwrap_or(u32::MAX)) / over.as_secs_f64().max(0.1);
    if grants < 10.0 { format!("{grants:.1}") } else { format!("{grants:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup_or_turns_it_around() {
        let hostile = "<img src=x onerror='alert(1)'>&\"\u{202e}\u{7f}\n";
        assert_eq!(
            Escaped(hostile).to_string(),
            "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;\\u{202e}\\u{7f}\\n"
        );
    }

    #[test]
    fn ages_that_count_since_the_same_moment_are_the_same() {
        let text = |since_s, now_s| {
            let age = lasting(Duration::from_secs(since_s), Duration::from_secs(now_s));
            format!("held for {age} by <time datetime=\"1\">{}</time>", "x")
        };
        assert_ne!(text(1, 2), text(1, 70));
        assert!(differ_in_ages_alone(&text(1, 2), &text(1, 70)));
        assert!(!differ_in_ages_alone(&text(1, 2), &text(2, 3)), "another moment");
        assert!(!differ_in_ages_alone(&text(1, 2), &text(1, 2).replace('x', "y")));
        assert!(!differ_in_ages_alone("", &text(1, 2)));
        let left = |until_s, now_s| remaining(Duration::from_secs(until_s), Duration::from_secs(now_s));
        assert_eq!(left(70, 9), "<time data-at=\"70000\" data-left>1m01s</time>");
        assert!(differ_in_ages_alone(&left(70, 9), &left(70, 80)) && !differ_in_ages_alone(&left(70, 9), &left(71, 9)));
    }

    #[test]
    fn a_name_is_one_value_of_a_query() {
        assert_eq!(QueryValue("a/b c&d=ä%").to_string(), "a%2Fb%20c%26d%3D%C3%A4%25");
    }

    #[test]
    fn long_numbers_are_read_by_their_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
