//! The follower of all locks of a scope, over a separate connection: it reads all keys, and watches them from the next
//! revision on. When the watch ends (with the connection, with the member, or since a compaction has overtaken it), it
//! reads all keys again. It does so after each compaction too, since a member may skip changes silently after one
//! (etcd-io/etcd#17529).
//!
//! `known` knows what the keys mean.

mod known;

use std::sync::Arc;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Backoff, EventSender, FollowEvent, Scope};
use lockkeeper_session::{Effect, Failure, FailureKind, Follow};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::follow::known::FollowedLocks;
use crate::layout::Layout;
use crate::look::{EtcdLook, KeySnapshot, keys_below, open_from, snapshot};
use crate::proto::{KeyValue, RangeRequest};
use crate::rpc::{Connection, KeyEvent, KeyWatch, KeyWatches, Subscriber, WatchRange, key_range};
use crate::url::EtcdSite;

/// How many changes wait to be noted. They are noted whether they are read or not, so that only a program that stands
/// still has as many; then all is read anew.
const CHANGES_WAITING_MAX: usize = 10_000;

/// How often within a session timeout the member is asked whether it still is one of a cluster with a leader, and what
/// is compacted. Its answer may take as long again: so a member that is cut off is given up after half of that timeout.
const CHECKS_PER_TIMEOUT: u32 = 4;

pub(crate) struct Following {
    site: EtcdSite,
    scope: Scope,
    server: usize,
}

impl Follow for Following {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.site.clock
    }

    async fn until_lost(&mut self, telling: &EventSender, backoff: &mut Backoff) -> Result<(), Failure> {
        let server = self.server;
        self.server = server.wrapping_add(1);
        self.until_over(server, telling, backoff).await
    }
}

impl Following {
    pub(crate) fn new(site: EtcdSite, scope: Scope) -> Self {
        Self { site, scope, server: std::process::id() as usize }
    }

    /// Follows over one connection until it ends, or there is no reader.
    async fn until_over(&self, server: usize, telling: &EventSender, backoff: &mut Backoff) -> Result<(), Failure> {
        let connection = open_from(server, &self.site).await?;
        let layout = &self.site.layout;
        let watches = KeyWatches::open(&connection, layout.offset(), self.deadline()).await?;
        let (mut known, mut since) = self.look(&connection, layout, &watches).await?;
        let mut compacted = std::pin::pin!(self.until_compacted(&connection, layout, since.revision));
        let mut is_whole = false;
        loop {
            tokio::select! {
                change = since.changes.recv() => match change {
                    Some(KeyChange::Put(kv)) => known.put(&kv),
                    Some(KeyChange::Deleted(key)) => known.delete(&key),
                    None => return Err(ended()),
                },
                is_read = telling.until_taken(), if !is_whole || known.has_changed() => {
                    let event = match is_whole {
                        true => FollowEvent::Changed(known.changes()),
                        false => FollowEvent::All(known.all()),
                    };
                    if !is_read || !telling.tell(event).await {
                        return Ok(());
                    }
                    (is_whole, *backoff) = (true, Backoff::CONNECTING);
                }
                answer = &mut compacted => {
                    answer?;
                    // The look shows the changes that come meanwhile.
                    drop(since);
                    let (newer, since_then) = self.look(&connection, layout, &watches).await?;
                    known.renew(newer);
                    since = since_then;
                    compacted.set(self.until_compacted(&connection, layout, since.revision));
                }
            }
        }
    }

    /// Reads all followed keys, and watches them from then on.
    async fn look(
        &self,
        connection: &Connection,
        layout: &Layout,
        watches: &KeyWatches,
    ) -> Result<(FollowedLocks, WatchedChanges), Failure> {
        let looking = EtcdLook { connection, layout, deadline: self.deadline() };
        let mut known = FollowedLocks::new(layout, &self.scope);
        let prefixes = FollowedLocks::prefixes(layout, &self.scope);
        // That of the first range.
        let mut of_all = 0;
        for prefix in &prefixes {
            let range = RangeRequest { revision: of_all, ..keys_below(prefix.clone()) };
            let KeySnapshot { revision, kvs, .. } = snapshot(looking, range).await?;
            kvs.iter().for_each(|kv| known.put(kv));
            of_all = revision;
        }
        Ok((known, watch(watches, prefixes, of_all)))
    }

    /// Waits until what followed a revision may be compacted, and so may be missing among the changes that are told.
    ///
    /// # Errors
    ///
    /// The member seems to have no leader any more. It is asked now and then.
    async fn until_compacted(&self, connection: &Connection, layout: &Layout, revision: i64) -> Result<(), Failure> {
        let period = self.site.config.session_timeout() / CHECKS_PER_TIMEOUT;
        loop {
            self.site.clock.sleep_until(self.site.clock.now().saturating_add(period)).await;
            let deadline = self.site.clock.now().saturating_add(period);
            let then = RangeRequest { revision, ..key_range(layout.offset()) };
            match connection.call(then, deadline).await {
                Ok(_) => {}
                Err(failure) if failure.kind == FailureKind::Compacted => return Ok(()),
                Err(failure) => return Err(failure),
            }
        }
    }

    fn deadline(&self) -> BootInstant {
        self.site.clock.now().saturating_add(self.site.config.operation_timeout)
    }
}

/// A key that was written, or deleted.
enum KeyChange {
    Put(KeyValue),
    Deleted(Vec<u8>),
}

/// The changes since a look.
struct WatchedChanges {
    /// The revision of the look.
    revision: i64,
    changes: mpsc::Receiver<KeyChange>,
    _watches: Vec<KeyWatch>,
}

/// Watches all keys with these prefixes, from behind this revision on. What comes of it ends with the first watch that
/// ends, or with a change for which there is no room.
fn watch(watches: &KeyWatches, prefixes: Vec<Vec<u8>>, revision: i64) -> WatchedChanges {
    let (sender, changes) = mpsc::channel(CHANGES_WAITING_MAX);
    let sender = Arc::new(Mutex::new(Some(sender)));
    let watch = |prefix: Vec<u8>| {
        let RangeRequest { key, range_end, .. } = keys_below(prefix);
        watches.watch(WatchRange::Since(key, range_end, revision + 1), subscriber(&sender))
    };
    WatchedChanges { revision, changes, _watches: prefixes.into_iter().map(watch).collect() }
}

fn subscriber(sender: &Arc<Mutex<Option<mpsc::Sender<KeyChange>>>>) -> Subscriber {
    let sender = sender.clone();
    Box::new(move |event| {
        let mut sender = sender.lock();
        let change = match event {
            KeyEvent::Created => return,
            KeyEvent::Put(kv) => Some(KeyChange::Put(kv.clone())),
            KeyEvent::Deleted(kv) => Some(KeyChange::Deleted(kv.key.clone())),
            KeyEvent::Over => None,
        };
        let is_sent =
            change.is_some_and(|change| sender.as_ref().is_some_and(|sender| sender.try_send(change).is_ok()));
        if !is_sent {
            *sender = None;
        }
    })
}

fn ended() -> Failure {
    let message = "the member tells of no more changes: it has ended the watch, or too many came at once";
    Failure::new(FailureKind::Unavailable, Effect::None, message)
}
