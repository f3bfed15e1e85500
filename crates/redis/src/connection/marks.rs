//! The keys that a server has told of since the last look.

use std::collections::BTreeSet;
use std::mem;

use lockkeeper_session::Mutex;
use tokio::sync::Notify;

/// How many keys are marked at most. They are taken after each look, so that only a program that stands still, or a
/// service whose locks all change at once, has as many; then all is looked at.
const KEYS_MAX: usize = 10_000;

/// The keys that are to be looked at again. It is filled by the driver of a connection, and never blocks.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marked: Mutex<Marked>,
    changed: Notify,
}

/// What is marked.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Marked {
    Keys(BTreeSet<Vec<u8>>),
    /// Any key may have changed.
    All,
}

impl Default for Marked {
    fn default() -> Self {
        Self::Keys(BTreeSet::new())
    }
}

impl Marks {
    /// Marks a key.
    pub(super) fn note(&self, key: &[u8]) {
        let mut marked = self.marked.lock();
        if let Marked::Keys(keys) = &mut *marked {
            keys.insert(key.to_vec());
            if keys.len() > KEYS_MAX {
                *marked = Marked::All;
            }
        }
        drop(marked);
        self.changed.notify_one();
    }

    /// Marks all keys.
    pub(super) fn note_all(&self) {
        *self.marked.lock() = Marked::All;
        self.changed.notify_one();
    }

    /// Waits until something is marked. One at a time waits.
    pub(crate) async fn until_any(&self) {
        while *self.marked.lock() == Marked::default() {
            self.changed.notified().await;
        }
    }

    /// Takes what is marked.
    pub(crate) fn take(&self) -> Marked {
        mem::take(&mut *self.marked.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_key_is_marked_once_and_all_keys_if_there_are_too_many() {
        let marks = Marks::default();
        for key in [b"b", b"a", b"b"] {
            marks.note(key);
        }
        marks.until_any().await;
        assert_eq!(marks.take(), Marked::Keys([b"a".to_vec(), b"b".to_vec()].into()));
        for number in 0..=KEYS_MAX {
            marks.note(&number.to_be_bytes());
        }
        marks.note(b"one more");
        assert_eq!(marks.take(), Marked::All);
        let mut waiting = std::pin::pin!(marks.until_any());
        let is_pending =
            std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_pending.await, "nothing is marked");
        marks.note_all();
        waiting.await;
        assert_eq!(marks.take(), Marked::All);
    }
}
