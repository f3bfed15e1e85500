//! The frame of all pages: head, freshness, links; and the rules that a browser is told with them.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use lockkeeper_monitor::{CollectionMode, MonitorState, ServiceFreshness, TimePoint};

use super::escaped::{Escaped, aged};
use crate::output::known::age_max;
use crate::output::{brief, millis};

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
