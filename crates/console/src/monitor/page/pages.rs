//! All pages of one monitor, and the stream of events of each, as `text/event-stream`. All pages share the bytes of an
//! event, so that a hundred of them cost little more than one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::live::{LivePages, LockPage, PageEvents};
use crate::monitor::alerting::View;
use crate::monitor::operate::{Operating, Peer, door, told_of};

/// After which time without news a comment is sent, so that proxies keep the connection, and a page that is gone is
/// noticed.
const COMMENT_AFTER: Duration = Duration::from_secs(15);

/// Has a page load anew. A browser passes over an event without data.
const LOAD_ANEW: Bytes = Bytes::from_static(b"event: reset\ndata: too far behind\n\n");

const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// A page that is open somewhere.
struct PageStream {
    pages: Arc<Pages>,
    /// The lock that it shows; the list of all if it is none.
    lock: Option<LockPage>,
    /// What it is told first; within, `None` if it has to load anew.
    first: Option<Option<Arc<PageEvents>>>,
    receiver: Receiver<Arc<PageEvents>>,
}

impl Drop for PageStream {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            self.pages.live.close(lock);
        }
    }
}

/// Answers with what a page is to know that knows everything up to a position.
pub(super) fn stream(pages: Arc<Pages>, position: &str, lock: Option<LockPage>) -> Response {
    let (first, receiver) = pages.live.open(&pages.view, position, lock.as_ref());
    let page = PageStream { pages, lock, first: Some(first), receiver };
    let events = unfold(page, async |mut page| {
        let event = page.next().await?;
        Some((Ok::<_, Infallible>(event), page))
    });
    let (of_events, no_store) = ((CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store"));
    // Some proxies keep answers back until they are long.
    let at_once = ("x-accel-buffering", "no");
    ([of_events, no_store], [at_once], Body::from_stream(events)).into_response()
}

impl PageStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first.map_or(LOAD_ANEW, |telling| self.event(&telling)));
        }
        match timeout(COMMENT_AFTER, self.receiver.recv()).await {
            Err(_) => Some(COMMENT),
            Ok(Ok(telling)) => Some(self.event(&telling)),
            Ok(Err(RecvError::Lagged(_))) => Some(LOAD_ANEW),
            Ok(Err(RecvError::Closed)) => None,
        }
    }

    fn event(&self, telling: &PageEvents) -> Bytes {
        let news = match &self.lock {
            _ if telling.is_anew => None,
            None => telling.list.as_ref(),
            Some(lock) => Some(telling.locks.get(lock).unwrap_or(&telling.head)),
        };
        news.cloned().unwrap_or(LOAD_ANEW)
    }
}

#[derive(Debug)]
pub(crate) struct Pages {
    pub(super) view: Arc<View>,
    pub(super) live: LivePages,
    /// What carries out orders, if it was started to.
    operating: Option<Arc<Operating>>,
}

impl Pages {
    /// Shows what is known of a service. What pages are told is named by this number, which no other monitor at this
    /// place may have.
    pub(crate) fn new(view: Arc<View>, epoch: u64, operating: Option<Arc<Operating>>) -> Self {
        Self { view, live: LivePages::new(epoch), operating }
    }

    /// The way to log in or out; nothing where no orders are carried out.
    pub(super) fn door(&self, peer: Peer, headers: &HeaderMap) -> String {
        self.operating.as_ref().map(|operating| door(operating, peer, headers)).unwrap_or_default()
    }

    /// What came of an order of the session that asks; nothing if it has none of this number.
    pub(super) fn told(&self, peer: Peer, headers: &HeaderMap, number: Option<u64>) -> String {
        let told = self.operating.as_ref().zip(number);
        told.and_then(|(operating, number)| told_of(operating, peer, headers, number)).unwrap_or_default()
    }

    pub(crate) async fn run(&self) {
        self.live.run(&self.view).await;
    }
}
