//! Orders that are being carried out: how many may be, what comes of each, and their end with that of the monitor.

use std::sync::Arc;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;

use super::request::Refused;
use crate::ordering::Undone;
use crate::output::OrderReport;
use crate::output::say;

/// How many freezes may be under way: each may wait in its queue for an hour.
const FREEZES_MAX: usize = 16;

/// How many other orders may be under way, which no freeze keeps out: each waits for an answer of the service.
const OTHERS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct OrdersUnderWay {
    freezes: Arc<Semaphore>,
    others: Arc<Semaphore>,
    /// Bounded by the places; none once the monitor ends.
    tasks: Mutex<Option<JoinSet<()>>>,
}

impl Default for OrdersUnderWay {
    fn default() -> Self {
        Self {
            freezes: Arc::new(Semaphore::new(FREEZES_MAX)),
            others: Arc::new(Semaphore::new(OTHERS_MAX)),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }
}

impl OrdersUnderWay {
    /// Begins an order, which goes on when nothing waits for its end. Its begin and its end are logged under `name`.
    /// Fails if there is no place for it, or the monitor ends.
    pub(super) fn begin(
        &self,
        name: String,
        is_freeze: bool,
        order: impl Future<Output = Result<OrderReport, Undone>> + Send + 'static,
    ) -> Result<UnderWay, Refused> {
        let refuse = |text: String| Refused::new(StatusCode::SERVICE_UNAVAILABLE, text);
        let (places, most, what) = match is_freeze {
            true => (&self.freezes, FREEZES_MAX, "freezes"),
            false => (&self.others, OTHERS_MAX, "orders"),
        };
        let place = Arc::clone(places).try_acquire_owned();
        let place =
            place.map_err(|_| refuse(format!("{most} {what} are under way, and no more may be: try again later.")))?;
        let mut tasks = self.tasks.lock();
        let Some(tasks) = tasks.as_mut() else {
            return Err(refuse("The monitor ends.".to_owned()));
        };
        while tasks.try_join_next().is_some() {}
        say(&format!("operating: {name}: begins"));
        let (tell, told) = oneshot::channel();
        let unfinished = Unfinished { name, _place: place };
        tasks.spawn(async move {
            // The caller may have left.
            let _ = tell.send(unfinished.carry_out(order).await);
        });
        Ok(UnderWay(told))
    }

    /// Gives up what is under way, and takes nothing more. What waits leaves its queue when the keeper is closed.
    pub(super) async fn stop(&self) {
        let tasks = self.tasks.lock().take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }
}

/// What comes of an order, in the end.
#[derive(Debug)]
pub(super) struct UnderWay(oneshot::Receiver<Result<OrderReport, Refused>>);

impl UnderWay {
    pub(super) async fn end(&mut self) -> Result<OrderReport, Refused> {
        (&mut self.0).await.unwrap_or_else(|_| Err(Refused::unknown("The order has broken off in the monitor.")))
    }
}

/// An order that has begun and not ended: dropped before, it is logged as broken off.
#[derive(Debug)]
struct Unfinished {
    name: String,
    _place: OwnedSemaphorePermit,
}

impl Unfinished {
    async fn carry_out(
        mut self,
        order: impl Future<Output = Result<OrderReport, Undone>>,
    ) -> Result<OrderReport, Refused> {
        let ended = order.await;
        let name = std::mem::take(&mut self.name);
        match &ended {
            Ok(done) => say(&format!("operating: {name}: {}", done.text().trim_end())),
            Err(undone @ Undone::Failed(_)) => say(&format!("operating: {name}: failed: {}", undone.text())),
            Err(undone) => say(&format!("operating: {name}: not done: {}", undone.text())),
        }
        ended.map_err(Refused::from)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.name.is_empty() {
            return;
        }
        let why = match std::thread::panicking() {
            true => "failed: this part of the monitor has panicked",
            false => "given up, since the monitor ends",
        };
        say(&format!("operating: {}: {why}; whether it was done, `lockkeeper show` tells", self.name));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn name() -> String {
        "an order".to_owned()
    }

    #[tokio::test]
    async fn freezes_that_wait_leave_places_for_other_orders_and_all_are_dropped_at_the_end() {
        let orders = OrdersUnderWay::default();
        let held = Arc::new(());
        let waits = |held: &Arc<()>| {
            let held = Arc::clone(held);
            async move {
                let _held = held;
                pending().await
            }
        };
        let mut freezes = Vec::new();
        for _ in 0..FREEZES_MAX {
            freezes.push(orders.begin(name(), true, waits(&held)).expect("there is a place"));
        }
        let refused = orders.begin(name(), true, waits(&held)).expect_err("there is none");
        assert!(
            refused.status == StatusCode::SERVICE_UNAVAILABLE && refused.text.contains("16 freezes"),
            "{refused:?}"
        );
        let mut other = orders.begin(name(), false, async { Err(Undone::Stale("gone".to_owned())) }).expect("a place");
        assert_eq!(other.end().await.expect_err("it is gone").text, "gone");
        orders.stop().await;
        assert_eq!(Arc::strong_count(&held), 1, "nothing of them is left");
        let ended = freezes[0].end().await.expect_err("it was given up");
        assert!(ended.is_unknown, "{ended:?}");
        let refused = orders.begin(name(), false, waits(&held)).expect_err("it ends");
        assert_eq!(refused.text, "The monitor ends.");
    }

    #[tokio::test]
    async fn an_order_that_panics_is_told_as_unknown_and_gives_its_place_back() {
        let orders = OrdersUnderWay::default();
        for _ in 0..=OTHERS_MAX {
            let mut order = orders.begin(name(), false, async { panic!("in a test") }).expect("there is a place");
            let ended = order.end().await.expect_err("it has panicked");
            assert!(ended.is_unknown && ended.status == StatusCode::INTERNAL_SERVER_ERROR, "{ended:?}");
        }
    }
}
