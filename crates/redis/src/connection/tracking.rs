//! Notifications of changes: waits for a change of a key since it was read, and the keys to be looked at again.
//!
//! A wait is registered before its read is sent, since a notification may come before the answer to the read. So it may
//! report a change before the read as well, and its owner looks again. The server reports a key once for each read;
//! each wait has a separate read. All reported keys can be marked for an onlooker too.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use lockkeeper_session::{Effect, Failure, FailureKind, Marks};
use parking_lot::Mutex;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::oneshot;

/// The most waits of one connection: a hundred times the contenders that one process is tested with.
const WAITS_MAX: usize = 1 << 20;

/// What a wait was woken by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum KeyWake {
    /// The key was changed or deleted, or everything was.
    Changed,
    /// The connection has ended, and with it the server's memory of what was read.
    ConnectionOver,
}

#[derive(Debug, Default)]
pub(super) struct WaitRegistry {
    inner: Mutex<RegisteredWaits>,
    /// Where all that the server tells of is noted too.
    marks: OnceLock<Arc<KeyMarks>>,
    /// How many reports there were.
    reports: AtomicU64,
}

#[derive(Debug, Default)]
struct RegisteredWaits {
    waits: HashMap<Arc<[u8]>, BTreeMap<u64, oneshot::Sender<()>>>,
    count: usize,
    next: u64,
    is_over: bool,
}

impl WaitRegistry {
    /// Registers a wait. The key is to be read only after this.
    pub(super) fn register(self: &Arc<Self>, key: &[u8]) -> Result<KeyWait, Failure> {
        let (wake, woken) = oneshot::channel();
        let key: Arc<[u8]> = key.into();
        let mut inner = self.inner.lock();
        let number = inner.next;
        if !inner.is_over {
            if inner.count >= WAITS_MAX {
                let message = format!("one connection waits for at most {WAITS_MAX} keys at a time");
                return Err(Failure::new(FailureKind::Limit, Effect::None, message));
            }
            inner.next += 1;
            inner.count += 1;
            inner.waits.entry(key.clone()).or_default().insert(number, wake);
        }
        drop(inner);
        Ok(KeyWait { key, number, woken, registry: self.clone() })
    }

    /// Has all that the server tells of noted there; what it was told first stays.
    pub(super) fn mark(&self, marks: Arc<KeyMarks>) {
        let _ = self.marks.set(marks);
    }

    /// Takes in what the server told unasked. It is called by the driver, and does not block.
    pub(super) fn take_in(&self, push: PushInfo) {
        if push.kind != PushKind::Invalidate {
            return;
        }
        match push.data.into_iter().next() {
            Some(Value::Array(keys)) => {
                let report = self.reports.fetch_add(1, Ordering::Relaxed);
                keys.iter().for_each(|key| self.wake(key, report));
            }
            // Everything was deleted, or the server has no room to remember what was read.
            Some(Value::Nil) => {
                self.wake_all();
                if let Some(marks) = self.marks.get() {
                    marks.note_all();
                }
            }
            _ => {}
        }
    }

    fn wake(&self, key: &Value, report: u64) {
        let key = match key {
            Value::BulkString(key) => key.as_slice(),
            Value::SimpleString(key) => key.as_bytes(),
            _ => return,
        };
        if let Some(marks) = self.marks.get() {
            marks.note(key.to_vec(), vec![report], |reports, more| reports.extend(more));
        }
        let mut inner = self.inner.lock();
        let woken = inner.waits.remove(key).unwrap_or_default();
        inner.count -= woken.len();
        drop(inner);
        woken.into_values().for_each(notify);
    }

    fn wake_all(&self) {
        let mut inner = self.inner.lock();
        let woken = mem::take(&mut inner.waits);
        inner.count = 0;
        drop(inner);
        woken.into_values().flat_map(BTreeMap::into_values).for_each(notify);
    }

    /// Ends all waits, also those that will be registered.
    pub(super) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.is_over = true;
        inner.count = 0;
        let ended = mem::take(&mut inner.waits);
        drop(inner);
        drop(ended);
    }

    fn forget(&self, key: &Arc<[u8]>, number: u64) {
        let mut inner = self.inner.lock();
        let Some(waits) = inner.waits.get_mut(key) else {
            return;
        };
        let is_found = waits.remove(&number).is_some();
        if waits.is_empty() {
            inner.waits.remove(key);
        }
        if is_found {
            inner.count -= 1;
        }
    }
}

/// An error says that the wait was given up meanwhile.
fn notify(wake: oneshot::Sender<()>) {
    let _ = wake.send(());
}

/// A wait for a change of a key: a future that is ready once the server has told of one, or the connection has ended.
/// Dropping it gives the wait up.
#[must_use = "a wait that is dropped is told nothing"]
pub(crate) struct KeyWait {
    key: Arc<[u8]>,
    number: u64,
    woken: oneshot::Receiver<()>,
    registry: Arc<WaitRegistry>,
}

impl KeyWait {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl Future for KeyWait {
    type Output = KeyWake;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<KeyWake> {
        Poll::Ready(match ready!(Pin::new(&mut self.woken).poll(context)) {
            Ok(()) => KeyWake::Changed,
            Err(_) => KeyWake::ConnectionOver,
        })
    }
}

impl Drop for KeyWait {
    fn drop(&mut self) {
        self.registry.forget(&self.key, self.number);
    }
}

/// The keys that are to be looked at again, each with the numbers of the reports that have named it. A queue is named
/// no more often than the records of its contenders, so that the limit of keys is one of numbers too.
pub(crate) type KeyMarks = Marks<Vec<u8>, Vec<u64>>;

/// What is taken of them.
pub(crate) type Marked = BTreeMap<Vec<u8>, Vec<u64>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn told_of(keys: Value) -> PushInfo {
        PushInfo { kind: PushKind::Invalidate, data: vec![keys] }
    }

    fn key(key: &str) -> Value {
        Value::BulkString(key.into())
    }

    async fn is_pending(told: &mut KeyWait) -> bool {
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *told).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_push_wakes_every_wait_for_its_keys_and_no_other() {
        let registry = Arc::new(WaitRegistry::default());
        let [one, same, mut other] = ["a", "a", "b"].map(|key| registry.register(key.as_bytes()).unwrap());
        registry.take_in(told_of(Value::Array(vec![key("unasked"), key("a")])));
        assert_eq!((one.await, same.await), (KeyWake::Changed, KeyWake::Changed));
        assert!(is_pending(&mut other).await);
        registry.take_in(told_of(Value::Nil));
        assert_eq!(other.await, KeyWake::Changed);
        assert_eq!(registry.inner.lock().count, 0);
    }

    #[tokio::test]
    async fn a_push_that_is_no_invalidation_and_one_that_makes_no_sense_wake_nothing() {
        let registry = Arc::new(WaitRegistry::default());
        let mut told = registry.register(b"a").unwrap();
        registry.take_in(PushInfo { kind: PushKind::Message, data: vec![Value::Array(vec![key("a")])] });
        registry.take_in(PushInfo { kind: PushKind::Invalidate, data: Vec::new() });
        registry.take_in(told_of(Value::Int(1)));
        registry.take_in(told_of(Value::Array(vec![Value::Int(1), Value::Nil])));
        assert!(is_pending(&mut told).await);
    }

    #[test]
    fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let registry = Arc::new(WaitRegistry::default());
        let waits: Vec<_> = (0..3).map(|_| registry.register(b"a").unwrap()).collect();
        drop(waits);
        assert!(registry.inner.lock().waits.is_empty());
        assert_eq!(registry.inner.lock().count, 0);
    }
}
