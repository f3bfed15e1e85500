//! Which path of the page is answered with what.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lockkeeper::QueueName;
use serde::Deserialize;

use super::super::answers::Monitor;
use super::escaped::{Escaped, QueryValue};
use super::frame::{Frame, answer, file, freshness};
use super::listing::Listing;
use super::stream::stream;
use super::{lock, overview};

type Shared = State<Arc<Monitor>>;

/// The paths of the page, all of one depth: its links are relative, so that it works behind any prefix of a proxy.
pub(in crate::monitor) fn routes() -> Router<Arc<Monitor>> {
    Router::new()
        .route("/", get(list))
        .route("/lock", get(one))
        .route("/live", get(live))
        .route("/page.css", get(|| async { file("text/css; charset=utf-8", include_str!("page.css")) }))
        .route("/page.js", get(|| async { file("text/javascript; charset=utf-8", include_str!("page.js")) }))
}

/// Which lock is asked for.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

/// From where on a page is told, and of which lock.
#[derive(Debug, Deserialize)]
struct Watching {
    from: String,
    name: Option<String>,
}

async fn list(State(monitor): Shared, asked: Result<Query<Listing>, impl IntoResponse>) -> Response {
    let Query(asked) = match asked {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    let firing = monitor.alerting.firing();
    let page = monitor.collector.read(|state| {
        let main = overview::overview(state, &firing, &monitor.orders, &asked, now);
        let live = Some(format!("live?from={}", monitor.live.position(&state.model)));
        Frame { title: "Locks", service: &service, freshness: freshness(state, now), live, now }.around(&main)
    });
    answer(StatusCode::OK, page)
}

async fn one(State(monitor): Shared, asked: Result<Query<Named>, impl IntoResponse>) -> Response {
    let name = match asked {
        Ok(Query(Named { name })) => name,
        Err(refusal) => return refusal.into_response(),
    };
    let (now, service) = (monitor.collector.now(), monitor.collector.service());
    let lock = QueueName::new(&name);
    let (status, page) = monitor.collector.read(|state| {
        let freshness = freshness(state, now);
        let frame = |live| Frame { title: &name, service: &service, freshness, live, now };
        match &lock {
            Ok(lock) => {
                let position = monitor.live.position(&state.model);
                let live = Some(format!("live?from={position}&name={}", QueryValue(&name)));
                (StatusCode::OK, frame(live).around(&lock::lock(state, lock, &monitor.orders, now)))
            }
            Err(error) => {
                let main = format!("<h1>No lock has this name</h1><p>{}</p>", Escaped(&error.to_string()));
                (StatusCode::BAD_REQUEST, frame(None).around(&main))
            }
        }
    });
    answer(status, page)
}

async fn live(
    State(monitor): Shared,
    headers: HeaderMap,
    asked: Result<Query<Watching>, impl IntoResponse>,
) -> Response {
    let Watching { from, name } = match asked {
        Ok(Query(watching)) => watching,
        Err(refusal) => return refusal.into_response(),
    };
    let lock = match name.map(|name| QueueName::new(&name)).transpose() {
        Ok(lock) => lock,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    // A browser that connects again says what it was told last.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map_or(from, str::to_owned);
    stream(monitor, &last, lock)
}
