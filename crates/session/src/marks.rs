//! Marks of what has changed, from the reports that name it until a reader takes them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many changes are marked at most: some 2 MB of names, and as many reads as take two seconds. They are taken after
/// each look, so that only a program that stands still, or a service whose locks all change at once, has as many.
const MARKS_MAX: usize = 10_000;

/// What has changed, each with its last change. It is filled where reports arrive, and never blocks.
#[derive(Debug)]
pub struct Marks<K, V = ()> {
    /// `None` if there were too many, or anything may have changed: then all is to be looked at.
    marked: Mutex<Option<BTreeMap<K, V>>>,
    came: Notify,
}

impl<K: Ord, V> Default for Marks<K, V> {
    fn default() -> Self {
        Self { marked: Mutex::new(Some(BTreeMap::new())), came: Notify::new() }
    }
}

impl<K: Ord, V> Marks<K, V> {
    /// Notes a change; `merge` adds it to one that is noted already.
    pub fn note(&self, key: K, change: V, merge: impl FnOnce(&mut V, V)) {
        let mut marked = self.marked.lock();
        if let Some(known) = &mut *marked {
            let is_full = known.len() >= MARKS_MAX;
            match known.get_mut(&key) {
                Some(last) => merge(last, change),
                None if is_full => *marked = None,
                None => drop(known.insert(key, change)),
            }
        }
        drop(marked);
        self.came.notify_one();
    }

    /// Notes that anything may have changed.
    pub fn note_all(&self) {
        *self.marked.lock() = None;
        self.came.notify_one();
    }

    /// Waits until something is noted. One at a time waits; dropping the future loses nothing.
    pub async fn until_any(&self) {
        while self.marked.lock().as_ref().is_some_and(BTreeMap::is_empty) {
            // A notice that comes before this is kept.
            self.came.notified().await;
        }
    }

    /// Takes what is noted; `None` if anything may have changed.
    pub fn take(&self) -> Option<BTreeMap<K, V>> {
        self.marked.lock().replace(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(marks: &Marks<String, u32>, key: &str, change: u32) {
        marks.note(key.to_owned(), change, |last, change| *last = (*last).max(change));
    }

    #[tokio::test]
    async fn each_is_marked_once_with_what_its_changes_come_to() {
        let marks = Marks::default();
        for (key, change) in [("a", 2), ("b", 1), ("a", 1), ("b", 3)] {
            note(&marks, key, change);
        }
        marks.until_any().await;
        assert_eq!(marks.take(), Some([("a".to_owned(), 2), ("b".to_owned(), 3)].into()));
        assert_eq!(marks.take(), Some(BTreeMap::new()));
    }

    #[tokio::test]
    async fn too_many_mark_all_until_they_are_taken() {
        let marks = Marks::default();
        for number in 0..MARKS_MAX {
            note(&marks, &number.to_string(), 0);
        }
        note(&marks, "0", 1);
        assert_eq!(marks.take().map(|marked| marked.len()), Some(MARKS_MAX), "a second change takes no room");
        for number in 0..=MARKS_MAX {
            note(&marks, &number.to_string(), 0);
        }
        note(&marks, "one more", 0);
        marks.until_any().await;
        assert_eq!(marks.take(), None);
        note(&marks, "a", 0);
        assert_eq!(marks.take().map(|marked| marked.len()), Some(1));
        marks.note_all();
        marks.until_any().await;
        assert_eq!(marks.take(), None);
        let mut waiting = std::pin::pin!(marks.until_any());
        let is_pending =
            std::future::poll_fn(|context| std::task::Poll::Ready(waiting.as_mut().poll(context).is_pending()));
        assert!(is_pending.await, "nothing is marked");
    }
}
