//! A page's stream of events: what `live` tells, in the form of `text/event-stream`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use lockkeeper::QueueName;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::live::Telling;
use super::pages::Pages;

/// After which time without news a comment is sent, so that proxies keep the connection, and a page that is gone is
/// noticed.
const COMMENT_AFTER: Duration = Duration::from_secs(15);

/// A page that is open somewhere.
struct Page {
    pages: Arc<Pages>,
    /// The lock that it shows; the list of all if it is none.
    lock: Option<QueueName>,
    /// What it is told first; within, `None` if it has to load anew.
    first: Option<Option<Arc<Telling>>>,
    receiver: Receiver<Arc<Telling>>,
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            self.pages.live.close(lock);
        }
    }
}

/// Answers with what a page is to know that knows everything up to a position.
pub(super) fn stream(pages: Arc<Pages>, position: &str, lock: Option<QueueName>) -> Response {
    let (first, receiver) = pages.live.open(&pages.view, position, lock.as_ref());
    let page = Page { pages, lock, first: Some(first), receiver };
    let events = unfold(page, async |mut page| {
        let event = page.next().await?;
        Some((Ok::<_, Infallible>(event), page))
    });
    // Some proxies keep answers back until they are long.
    ([("x-accel-buffering", "no")], Sse::new(events)).into_response()
}

impl Page {
    /// Waits for the next event; `None` if the monitor ends.
    async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(first.map_or_else(load_anew, |telling| self.event(&telling)));
        }
        match timeout(COMMENT_AFTER, self.receiver.recv()).await {
            Err(_) => Some(Event::default().comment("")),
            Ok(Ok(telling)) => Some(self.event(&telling)),
            Ok(Err(RecvError::Lagged(_))) => Some(load_anew()),
            Ok(Err(RecvError::Closed)) => None,
        }
    }

    fn event(&self, telling: &Telling) -> Event {
        let news = match &self.lock {
            _ if telling.is_anew => None,
            None => telling.list.as_ref(),
            Some(lock) => Some(telling.locks.get(lock).unwrap_or(&telling.head)),
        };
        news.map_or_else(load_anew, |news| Event::default().event("news").id(&telling.position).data(news))
    }
}

fn load_anew() -> Event {
    // A browser passes over an event without data.
    Event::default().event("reset").data("too far behind")
}
