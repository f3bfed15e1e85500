//! Routes of the page's paths.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use lockkeeper::QueueName;
use serde::Deserialize;

use super::frame::{Escaped, QueryValue};
use super::frame::{Frame, answer, file, freshness};
use super::listing::ListFilter;
use super::listing::overview;
use super::lock;
use super::pages::Pages;
use super::pages::stream;
use super::past::HistorySpan;
use crate::monitor::answers::PlainQuery;
use crate::monitor::operate::Peer;

type PagesState = State<Arc<Pages>>;

/// The paths of the page, all of one depth: its links are relative, so that it works behind any prefix of a proxy.
pub(crate) fn routes(pages: Arc<Pages>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/lock", get(one))
        .route("/live", get(live))
        .route("/page.css", get(|| async { file("text/css; charset=utf-8", include_str!("page.css")) }))
        .route("/page.js", get(|| async { file("text/javascript; charset=utf-8", include_str!("page.js")) }))
        .with_state(pages)
}

#[derive(Debug, Deserialize)]
struct LockQuery {
    name: String,
    #[serde(default)]
    span: HistorySpan,
    /// Which outcome of an order is to be told with it.
    told: Option<u64>,
}

/// From where on a page is told, and of which lock.
#[derive(Debug, Deserialize)]
struct StreamQuery {
    from: String,
    name: Option<String>,
    #[serde(default)]
    span: HistorySpan,
}

async fn list(
    State(pages): PagesState,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    PlainQuery(asked): PlainQuery<ListFilter>,
) -> Response {
    let (now, service) = (pages.view.collector.now(), pages.view.collector.service());
    let (firing, door) = (pages.view.alerting.firing(), pages.door(peer, &headers));
    let page = pages.view.collector.read(|state| {
        let main = overview(state, &firing, &pages.view.orders, &asked, now);
        let live = Some(format!("live?from={}", pages.live.position(state, &firing)));
        Frame { title: "Locks", service: &service, freshness: freshness(state, now), live, now, door }.around(&main)
    });
    answer(StatusCode::OK, page)
}

async fn one(
    State(pages): PagesState,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    PlainQuery(LockQuery { name, span, told }): PlainQuery<LockQuery>,
) -> Response {
    let (now, service) = (pages.view.collector.now(), pages.view.collector.service());
    let (lock, firing) = (QueueName::new(&name), pages.view.alerting.firing());
    let (door, told) = (pages.door(peer, &headers), pages.told(peer, &headers, told));
    let (status, page) = pages.view.collector.read(|state| {
        let freshness = freshness(state, now);
        let frame = |live| Frame { title: &name, service: &service, freshness, live, now, door };
        match &lock {
            Ok(lock) => {
                let position = pages.live.position(state, &firing);
                let live = Some(format!("live?from={position}&name={}&span={}", QueryValue(&name), span.as_str()));
                let main = told + &lock::lock(state, lock, span, &pages.view.orders, now);
                (StatusCode::OK, frame(live).around(&main))
            }
            Err(error) => {
                let main = format!("<h1>No lock has this name</h1><p>{}</p>", Escaped(&error.to_string()));
                (StatusCode::BAD_REQUEST, frame(None).around(&main))
            }
        }
    });
    answer(status, page)
}

async fn live(State(pages): PagesState, headers: HeaderMap, PlainQuery(asked): PlainQuery<StreamQuery>) -> Response {
    let StreamQuery { from, name, span } = asked;
    let lock = match name.map(|name| QueueName::new(&name)).transpose() {
        Ok(lock) => lock.map(|lock| (lock, span)),
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    // A browser that connects again says what it was told last.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map_or(from, str::to_owned);
    stream(pages, &last, lock)
}
