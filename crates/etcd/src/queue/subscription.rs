//! A watch as a future: whether it is made, and whether it has told of a change.

use std::time::Duration;

use tokio::sync::watch;

use crate::rpc::{Watch, WatchEvent, Watched};
use crate::session::Link;

/// How long after the server has ended a watch another one is made on the same connection.
pub(super) const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What was told so far.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_created: bool,
    changes: u64,
    /// The revision of the last one.
    revision: i64,
    is_over: bool,
}

/// What a subscription reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Notification {
    /// All changes from now on are told.
    Created,
    /// There was a change.
    Changed,
    /// Nothing more is told.
    Over,
}

/// A watch under way. Dropping it ends it.
pub(super) struct Subscription {
    _watch: Watch,
    state: watch::Receiver<State>,
    /// How many changes were reported.
    reported: u64,
}

impl Subscription {
    pub(super) fn begin(link: &Link, watched: Watched) -> Self {
        let (tell, state) = watch::channel(State::default());
        let subscriber = move |event: WatchEvent<'_>| {
            tell.send_modify(|state| match event {
                WatchEvent::Created => state.is_created = true,
                WatchEvent::Put(kv) | WatchEvent::Deleted(kv) => {
                    state.changes += 1;
                    state.revision = kv.mod_revision;
                }
                WatchEvent::Over => state.is_over = true,
            });
        };
        Self { _watch: link.watches.watch(watched, Box::new(subscriber)), state, reported: 0 }
    }

    /// Returns the revision of the last change that was told.
    pub(super) fn revision(&self) -> i64 {
        self.state.borrow().revision
    }

    /// Waits until the watch is made.
    pub(super) async fn created(&mut self) -> Notification {
        self.until(true).await
    }

    /// Waits until there is a change that was not reported yet.
    pub(super) async fn changed(&mut self) -> Notification {
        self.until(false).await
    }

    async fn until(&mut self, creation_counts: bool) -> Notification {
        let reported = self.reported;
        let is_new = |state: &State| state.changes > reported || state.is_over || (creation_counts && state.is_created);
        let Ok(state) = self.state.wait_for(is_new).await.map(|state| *state) else {
            return Notification::Over;
        };
        if state.changes > reported {
            self.reported = state.changes;
            return Notification::Changed;
        }
        if state.is_over { Notification::Over } else { Notification::Created }
    }
}
