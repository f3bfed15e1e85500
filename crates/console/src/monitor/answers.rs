//! The answers to paths for programs. The pages for people are in `page`.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lockkeeper::QueueName;
use lockkeeper_monitor::{MonitorState, TimePoint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::alerting::View;
use super::metrics::{self, AlertCounts};
use crate::output::marks::age_max;
use crate::output::{AnswerAge, Deadlocks, EventList, FiringAlerts, MonitoredLocks, json_line, one_line};

/// How many locks or events one answer has, if its request does not say.
const LISTED: usize = 1_000;

/// How many it has at most: some megabytes.
const LISTED_MAX: usize = 10_000;

pub(super) type ViewState = State<Arc<View>>;

/// Returns what answers requests: paths for programs, beside those of pages.
pub(crate) fn router(view: Arc<View>, pages: Router) -> Router {
    let for_programs = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/api/locks", get(locks))
        .route("/api/events", get(events))
        .route("/api/deadlocks", get(deadlocks))
        .route("/api/alerts", get(alerts))
        .fallback(unknown)
        .with_state(view);
    pages.merge(for_programs)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    prefix: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventQuery {
    from: Option<u64>,
    lock: Option<String>,
    limit: Option<usize>,
}

fn limit(asked: Option<usize>) -> usize {
    asked.unwrap_or(LISTED).min(LISTED_MAX)
}

async fn unknown(uri: Uri) -> Response {
    plain(StatusCode::NOT_FOUND, format!("{} is not served here; the page at / leads to what is\n", uri.path()))
}

async fn metrics(State(view): ViewState) -> Response {
    let now = view.collector.now();
    let alerts = AlertCounts { raised: view.alerting.raised(), dropped: view.alerting.dropped() };
    let text = view.collector.read(|state| metrics::text(state, now, &view.lock_metrics, &alerts));
    with_type(StatusCode::OK, metrics::FORMAT, text)
}

/// Healthy is a monitor whose answers are true now.
async fn health(State(view): ViewState) -> Response {
    let now = view.collector.now();
    let (is_healthy, seen) = view.collector.read(|state| {
        let age = state.freshness.age(now.boot);
        (age.is_some_and(|age| age <= age_max(state.way)), AnswerAge::new(state, now))
    });
    json(if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &seen)
}

async fn locks(State(view): ViewState, PlainQuery(asked): PlainQuery<ListQuery>) -> Response {
    let ListQuery { prefix, after, limit: asked } = asked;
    let prefix = prefix.unwrap_or_default();
    shown(&view, |service, state, now| {
        MonitoredLocks::new(service, state, now, &prefix, after.as_deref(), limit(asked))
    })
}

async fn events(State(view): ViewState, PlainQuery(asked): PlainQuery<EventQuery>) -> Response {
    let EventQuery { from, lock, limit: asked } = asked;
    let is_asked_for = |name: &QueueName| lock.as_ref().is_none_or(|lock| lock == name.as_str());
    shown(&view, |service, state, now| {
        let found = state.model.events_from(from.unwrap_or(0)).filter(|event| is_asked_for(&event.lock));
        // Without a beginning the newest are asked for.
        let found: Vec<_> = match from {
            Some(_) => found.take(limit(asked)).collect(),
            None => {
                let mut newest: Vec<_> = found.rev().take(limit(asked)).collect();
                newest.reverse();
                newest
            }
        };
        let is_cut = from.is_some() && found.len() == limit(asked);
        let next = found.last().filter(|_| is_cut).map_or_else(|| state.model.next_event(), |last| last.number + 1);
        EventList::new(service, state, now, found.into_iter(), next)
    })
}

async fn deadlocks(State(view): ViewState) -> Response {
    shown(&view, |service, state, now| {
        Deadlocks::new(service, &state.model.contended(now.boot, now), &state.deadlocks, &view.orders)
    })
}

async fn alerts(State(view): ViewState) -> Response {
    let firing = view.alerting.firing().into_iter();
    shown(&view, |service, state, now| FiringAlerts::new(service, state, now, firing))
}

/// Answers with a part of the present state.
pub(super) fn shown<Part: Serialize>(
    view: &View,
    part: impl FnOnce(String, &MonitorState, TimePoint) -> Part,
) -> Response {
    let (now, service) = (view.collector.now(), view.collector.service());
    json(StatusCode::OK, &view.collector.read(|state| part(service, state, now)))
}

/// What a query asks for. One that is none is refused; what it says may be in the answer.
pub(super) struct PlainQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for PlainQuery<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let asked = Query::from_request_parts(parts, state).await;
        asked
            .map(|Query(asked)| Self(asked))
            .map_err(|refusal: QueryRejection| plain(refusal.status(), one_line(&refusal.body_text()) + "\n"))
    }
}

pub(super) fn plain(status: StatusCode, text: String) -> Response {
    with_type(status, "text/plain; charset=utf-8", text)
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match json_line(value) {
        Ok(text) => with_type(status, "application/json", text),
        Err(failure) => plain(StatusCode::INTERNAL_SERVER_ERROR, failure.message + "\n"),
    }
}

/// What is answered is of this moment, and is what its type says.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, text).into_response()
}
