//! Which path for programs is answered with what. The pages for people are in `page`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lockkeeper::{NamePattern, QueueName};
use lockkeeper_monitor::Collector;
use serde::{Deserialize, Serialize};

use super::alerting::Alerting;
use super::metrics::{self, AlertCounts};
use super::page::{self, Live};
use crate::output::{
    Deadlocks, Events, FiringAlerts, MonitoredLocks, MonitoredQueue, Orders, Seen, age_max, json_line, one_line,
};

/// How many locks or events one answer has, if its request does not say.
const LISTED: usize = 1_000;

/// How many it has at most: some megabytes.
const LISTED_MAX: usize = 10_000;

/// What a monitor answers from.
#[derive(Debug)]
pub(crate) struct Monitor {
    pub(crate) collector: Arc<Collector>,
    pub(crate) alerting: Arc<Alerting>,
    /// What open pages are told.
    pub(crate) live: Live,
    /// The locks that have series with their names.
    pub(crate) lock_metrics: Vec<NamePattern>,
    /// How operators' commands are written.
    pub(crate) orders: Orders,
}

type Shared = State<Arc<Monitor>>;

impl Monitor {
    /// Returns what answers requests.
    pub(super) fn router(self: Arc<Self>) -> Router {
        page::routes()
            .route("/metrics", get(metrics))
            .route("/healthz", get(health))
            .route("/api/locks", get(locks))
            .route("/api/locks/{*name}", get(lock))
            .route("/api/events", get(events))
            .route("/api/deadlocks", get(deadlocks))
            .route("/api/alerts", get(alerts))
            .fallback(unknown)
            .with_state(self)
    }
}

/// What a list is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    prefix: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

/// Which events are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
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

async fn metrics(State(monitor): Shared) -> Response {
    let now = monitor.collector.now();
    let alerts = AlertCounts { raised: monitor.alerting.raised(), dropped: monitor.alerting.dropped() };
    let text = monitor.collector.read(|state| metrics::text(state, now, &monitor.lock_metrics, &alerts));
    with_type(StatusCode::OK, metrics::FORMAT, text)
}

/// Healthy is a monitor whose answers are true now.
async fn health(State(monitor): Shared) -> Response {
    let now = monitor.collector.now();
    let (is_healthy, seen) = monitor.collector.read(|state| {
        let age = state.freshness.age(now.boot);
        (age.is_some_and(|age| age <= age_max(state.way)), Seen::new(state, now))
    });
    json(if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &seen)
}

async fn locks(State(monitor): Shared, asked: Result<Query<Listing>, impl IntoResponse>) -> Response {
    let Query(Listing { prefix, after, limit: asked }) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    let prefix = prefix.unwrap_or_default();
    json(
        StatusCode::OK,
        &monitor
            .collector
            .read(|state| MonitoredLocks::new(service, state, now, &prefix, after.as_deref(), limit(asked))),
    )
}

async fn lock(State(monitor): Shared, Path(name): Path<String>) -> Response {
    let name = match QueueName::new(&name) {
        Ok(name) => name,
        Err(error) => return plain(StatusCode::BAD_REQUEST, one_line(&error.to_string()) + "\n"),
    };
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    json(
        StatusCode::OK,
        &monitor
            .collector
            .read(|state| MonitoredQueue::new(service, state, now, name.as_str(), state.model.locks().get(&name))),
    )
}

async fn events(State(monitor): Shared, asked: Result<Query<Since>, impl IntoResponse>) -> Response {
    let Query(Since { from, lock, limit: asked }) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    let is_asked_for = |name: &QueueName| lock.as_ref().is_none_or(|lock| lock == name.as_str());
    json(
        StatusCode::OK,
        &monitor.collector.read(|state| {
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
            Events::new(service, state, now, found.into_iter(), next)
        }),
    )
}

async fn deadlocks(State(monitor): Shared) -> Response {
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    json(
        StatusCode::OK,
        &monitor.collector.read(|state| {
            Deadlocks::new(service, &state.model.contended(now.boot, now), &state.deadlocks, &monitor.orders)
        }),
    )
}

async fn alerts(State(monitor): Shared) -> Response {
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    let firing = monitor.alerting.firing().into_iter();
    json(StatusCode::OK, &monitor.collector.read(|state| FiringAlerts::new(service, state, now, firing)))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match json_line(value) {
        Ok(text) => with_type(status, "application/json", text),
        Err(failure) => plain(StatusCode::INTERNAL_SERVER_ERROR, failure.message + "\n"),
    }
}

fn plain(status: StatusCode, text: String) -> Response {
    with_type(status, "text/plain; charset=utf-8", text)
}

/// What is answered is of this moment, and is what its type says.
fn with_type(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, text).into_response()
}
