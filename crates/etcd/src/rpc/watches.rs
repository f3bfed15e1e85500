//! All watches of one connection, over one stream.
//!
//! Each watch has a unique id: a duplicate would be refused without a name. What a watch tells goes straight to its
//! subscriber, in the task that reads the stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Effect, Failure, FailureKind, Lookable as _, in_time};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::proto::{
    EventType, KeyValue, MvccEvent, WatchCancelRequest, WatchCreateRequest, WatchFilter, WatchRequest, WatchResponse,
    WatchUnion,
};
use crate::rpc::Connection;
use crate::rpc::failure::of_status;
use crate::rpc::request::prefix_end;

const PATH: &str = "/etcdserverpb.Watch/Watch";

/// The number of the first watch of a stream: no other has it.
const FIRST_WATCH: i64 = 1 << 32;

/// What is said of a proxy. It keeps leases alive by itself, and answers renewals by what it has heard before: so the
/// time of a renewal says nothing of when the lease ends.
const PROXY: &str = "this is `etcd grpc-proxy`, behind which no lease can be proven: the URL must name the members";

#[derive(Clone, Debug)]
pub(crate) enum WatchRange {
    Deletion(Vec<u8>),
    Key(Vec<u8>),
    Prefix(Vec<u8>),
    /// All changes of a range of keys, from a revision on: what it begins at, and what it is less than.
    Since(Vec<u8>, Vec<u8>, i64),
}

#[derive(Debug)]
pub(crate) enum KeyEvent<'a> {
    /// All changes from now on are told.
    Created,
    Put(&'a KeyValue),
    /// A key was deleted: this one, at this revision.
    Deleted(&'a KeyValue),
    /// Nothing more is told: the connection has ended, or the server has ended the watch.
    Over,
}

/// Hears what a watch tells. It is called by the task that reads the stream, and must not wait. It may still be called
/// while its watch is dropped, and may itself drop any watch.
pub(crate) type Subscriber = Box<dyn FnMut(KeyEvent<'_>) + Send>;

#[derive(Clone)]
pub(crate) struct KeyWatches {
    shared: Arc<WatchStream>,
}

struct WatchStream {
    /// Each watch sends two requests at most, so that their number is bounded by that of the waits.
    requests: mpsc::UnboundedSender<WatchRequest>,
    registry: Mutex<SubscriberTable>,
    is_first_deleted: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

#[derive(Default)]
struct SubscriberTable {
    last_id: i64,
    /// `None` while a subscriber is being called.
    subscribers: BTreeMap<i64, Option<Subscriber>>,
    /// Watches whose creation the server has not confirmed yet.
    unconfirmed: BTreeSet<i64>,
    is_over: bool,
}

impl KeyWatches {
    /// Opens the stream, and starts the task that reads it; it ends with the connection. The first watch is of a key
    /// that our user may read: [`Self::first_deleted`] tells of it.
    ///
    /// The stream is answered after its first request only. The answer to this one tells a member, which gives a watch
    /// the number that is asked for, from `etcd grpc-proxy`, which counts.
    pub(crate) async fn open(connection: &Connection, key: Vec<u8>, deadline: BootInstant) -> Result<Self, Failure> {
        let (requests, sent) = mpsc::unbounded_channel();
        let shared = Arc::new(WatchStream::new(requests));
        shared.send(WatchUnion::Create(WatchRange::Deletion(key).request(FIRST_WATCH)));
        let mut answers = connection.stream(PATH, UnboundedReceiverStream::new(sent), deadline).await?;
        let first = async { answers.message().await.map_err(of_status) };
        let first = in_time(&*connection.clock, deadline, first).await?;
        // A watch that is refused has no number.
        match first.ok_or_else(|| Failure::broken(Effect::None))? {
            WatchResponse { watch_id: FIRST_WATCH, .. } | WatchResponse { canceled: true, .. } => {}
            _ => return Err(Failure::new(FailureKind::Settings, Effect::None, PROXY).at(connection.server())),
        }
        let telling = Arc::downgrade(&shared);
        let first = move |event: KeyEvent<'_>| {
            if let (KeyEvent::Deleted(_), Some(shared)) = (event, telling.upgrade()) {
                shared.is_first_deleted.send_replace(true);
            }
        };
        shared.registry.lock().subscribers.insert(FIRST_WATCH, Some(Box::new(first)));
        tokio::spawn(read(answers, shared.clone()));
        Ok(Self { shared })
    }

    /// Starts a watch. All changes after [`KeyEvent::Created`] are told; what was changed before must be looked at
    /// then.
    pub(crate) fn watch(&self, watched: WatchRange, mut subscriber: Subscriber) -> KeyWatch {
        let mut registry = self.shared.registry.lock();
        registry.last_id += 1;
        let id = registry.last_id;
        if registry.is_over {
            drop(registry);
            subscriber(KeyEvent::Over);
        } else {
            registry.subscribers.insert(id, Some(subscriber));
            registry.unconfirmed.insert(id);
            drop(registry);
            self.shared.send(WatchUnion::Create(watched.request(id)));
        }
        KeyWatch { id, shared: self.shared.clone() }
    }

    /// Waits until the key of the first watch was deleted.
    pub(crate) async fn first_deleted(&self) {
        until(&self.shared.is_first_deleted).await;
    }

    pub(crate) async fn over(&self) {
        until(&self.shared.is_over).await;
    }
}

impl WatchRange {
    fn request(self, watch_id: i64) -> WatchCreateRequest {
        let all = WatchCreateRequest { watch_id, fragment: true, ..WatchCreateRequest::default() };
        match self {
            Self::Deletion(key) => WatchCreateRequest { key, filters: vec![WatchFilter::NoPut.into()], ..all },
            Self::Key(key) => WatchCreateRequest { key, ..all },
            Self::Prefix(key) => WatchCreateRequest { range_end: prefix_end(&key), key, ..all },
            Self::Since(key, range_end, start_revision) => WatchCreateRequest { key, range_end, start_revision, ..all },
        }
    }
}

/// The caller holds the sender, so that an end of it is not waited for.
async fn until(is_so: &watch::Sender<bool>) {
    let mut is_so = is_so.subscribe();
    let _ = is_so.wait_for(|&is_so| is_so).await;
}

impl WatchStream {
    fn new(requests: mpsc::UnboundedSender<WatchRequest>) -> Self {
        let [is_first_deleted, is_over] = [(); 2].map(|()| watch::Sender::new(false));
        Self { requests, registry: Mutex::default(), is_first_deleted, is_over }
    }

    fn send(&self, request: WatchUnion) {
        // If the stream has ended, the reader tells all subscribers.
        let _ = self.requests.send(WatchRequest { request_union: Some(request) });
    }

    fn tell(&self, answer: &WatchResponse) {
        let mut registry = self.registry.lock();
        if answer.watch_id < 0 && answer.canceled {
            // A refused watch is answered without its id, so that each that was not confirmed may be meant.
            let unconfirmed: Vec<_> = std::mem::take(&mut registry.unconfirmed).into_iter().collect();
            let refused: Vec<_> = unconfirmed.iter().filter_map(|id| registry.subscribers.remove(id)).collect();
            drop(registry);
            tell_over(refused);
            return;
        }
        if answer.canceled {
            registry.unconfirmed.remove(&answer.watch_id);
            let over = registry.subscribers.remove(&answer.watch_id);
            drop(registry);
            tell_over(over);
            return;
        }
        if answer.created {
            registry.unconfirmed.remove(&answer.watch_id);
        }
        let Some(mut subscriber) = registry.subscribers.get_mut(&answer.watch_id).and_then(Option::take) else {
            return;
        };
        drop(registry);
        if answer.created {
            subscriber(KeyEvent::Created);
        }
        answer.events.iter().filter_map(told).for_each(&mut subscriber);
        // Unless its watch was dropped meanwhile.
        let mut registry = self.registry.lock();
        if let Some(place) = registry.subscribers.get_mut(&answer.watch_id) {
            *place = Some(subscriber);
        }
    }

    fn end(&self) {
        let subscribers = {
            let mut registry = self.registry.lock();
            registry.is_over = true;
            registry.unconfirmed.clear();
            std::mem::take(&mut registry.subscribers)
        };
        self.is_over.send_replace(true);
        tell_over(subscribers.into_values());
    }
}

fn tell_over(subscribers: impl IntoIterator<Item = Option<Subscriber>>) {
    subscribers.into_iter().flatten().for_each(|mut subscriber| subscriber(KeyEvent::Over));
}

fn told(event: &MvccEvent) -> Option<KeyEvent<'_>> {
    let kv = event.kv.as_ref()?;
    Some(if event.kind == i32::from(EventType::Delete) { KeyEvent::Deleted(kv) } else { KeyEvent::Put(kv) })
}

/// Notifies the subscribers of the end, however the reading task ends.
struct WatchesEnd(Arc<WatchStream>);

impl Drop for WatchesEnd {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn read(mut answers: Streaming<WatchResponse>, shared: Arc<WatchStream>) {
    let end = WatchesEnd(shared);
    while let Ok(Some(answer)) = answers.message().await {
        end.0.tell(&answer);
    }
}

/// A watch under way. Dropping it ends it.
pub(crate) struct KeyWatch {
    id: i64,
    shared: Arc<WatchStream>,
}

impl KeyWatch {
    pub(crate) fn is_live(&self) -> bool {
        self.shared.registry.lock().subscribers.contains_key(&self.id)
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        let mut registry = self.shared.registry.lock();
        registry.unconfirmed.remove(&self.id);
        let removed = registry.subscribers.remove(&self.id);
        drop(registry);
        if removed.is_some() {
            self.shared.send(WatchUnion::Cancel(WatchCancelRequest { watch_id: self.id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_conformance::SOON;

    use super::*;

    fn watches() -> (KeyWatches, mpsc::UnboundedReceiver<WatchRequest>) {
        let (requests, sent) = mpsc::unbounded_channel();
        (KeyWatches { shared: Arc::new(WatchStream::new(requests)) }, sent)
    }

    fn deletion(watch_id: i64) -> WatchResponse {
        let event = MvccEvent { kind: EventType::Delete.into(), kv: Some(KeyValue::default()) };
        WatchResponse { watch_id, events: vec![event], ..WatchResponse::default() }
    }

    #[test]
    fn a_subscriber_may_drop_watches_and_its_own_too_and_then_hears_no_more() {
        let (watches, mut sent) = watches();
        let kept: Arc<Mutex<Vec<KeyWatch>>> = Arc::default();
        let heard = Arc::new(Mutex::new(0));
        for _ in 0..2 {
            let (all, count) = (kept.clone(), heard.clone());
            let subscriber = move |_: KeyEvent<'_>| {
                *count.lock() += 1;
                let dropped = std::mem::take(&mut *all.lock());
                drop(dropped);
            };
            let watch = watches.watch(WatchRange::Deletion(b"x".to_vec()), Box::new(subscriber));
            kept.lock().push(watch);
        }
        let (done, is_done) = std::sync::mpsc::channel();
        let telling = watches.clone();
        std::thread::spawn(move || {
            (1..=2).for_each(|id| telling.shared.tell(&deletion(id)));
            done.send(()).unwrap();
        });
        is_done.recv_timeout(SOON).expect("no subscriber waits for the one that tells it");
        assert_eq!(*heard.lock(), 1);
        assert!(watches.shared.registry.lock().subscribers.is_empty());
        let cancels = std::iter::from_fn(|| sent.try_recv().ok()?.request_union)
            .filter(|request| matches!(request, WatchUnion::Cancel(_)));
        assert_eq!(cancels.count(), 2);
    }

    #[test]
    fn a_watch_tells_again_and_again_until_the_server_ends_it() {
        let (watches, _sent) = watches();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = heard.clone();
        let subscriber = move |event: KeyEvent<'_>| {
            let name = format!("{event:?}");
            hears.lock().push(name.split('(').next().unwrap_or_default().to_owned());
        };
        let _watch = watches.watch(WatchRange::Deletion(b"x".to_vec()), Box::new(subscriber));
        for answer in [
            WatchResponse { watch_id: 1, created: true, ..WatchResponse::default() },
            deletion(1),
            deletion(1),
            WatchResponse { watch_id: 1, canceled: true, ..WatchResponse::default() },
            deletion(1),
        ] {
            watches.shared.tell(&answer);
        }
        assert_eq!(*heard.lock(), ["Created", "Deleted", "Deleted", "Over"]);
    }
}
