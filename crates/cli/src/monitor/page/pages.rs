//! All pages of one monitor: what they show, and what they are told while they are open.

use std::sync::Arc;

use super::live::Live;
use crate::monitor::view::View;

/// What pages are made from.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(super) view: Arc<View>,
    pub(super) live: Live,
}

impl Pages {
    /// Shows what is known of a service. What pages are told is named by this number, which no other monitor at this
    /// place may have.
    pub(crate) fn new(view: Arc<View>, epoch: u64) -> Self {
        Self { view, live: Live::new(epoch) }
    }

    /// Tells open pages what changes, until the future is dropped.
    pub(crate) async fn run(&self) {
        self.live.run(&self.view).await;
    }
}
