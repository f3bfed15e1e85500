//! All pages of one monitor: what they show, and what they are told while they are open.

use std::sync::Arc;

use axum::http::HeaderMap;

use super::live::LivePages;
use crate::monitor::operate::{Operating, Peer, door, told_of};
use crate::monitor::view::View;

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
