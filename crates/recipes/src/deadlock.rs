//! Owner keys of one keeper that would wait for each other: the last one of a circle is refused.
//!
//! A call of a key notes its wait, asks whether that closes a circle, and forgets it when the call ends, in any way;
//! what a key has been granted is noted until its guard is gone. `table` has which keys hold what and wait for what,
//! `search` the circle that a wait closes, found by reduction.

mod search;
mod table;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use lockkeeper_core::{Error, ErrorKind, FencingToken, LivenessAt, Operation, QueueName, Result, Standing};
use parking_lot::Mutex;

use crate::deadlock::search::{circle, in_words};
use crate::deadlock::table::{StandsProof, TableEntry, WaitPlace, WaitStage};

pub(crate) use table::{KeyId, KeyTable, Want};

/// A call of a key for a lock.
pub(crate) struct KeyCall {
    table: Arc<Mutex<KeyTable>>,
    key: KeyId,
    lock: QueueName,
    want: Want,
    /// The number of its entry, once it waits.
    entry: Mutex<Option<usize>>,
}

impl KeyCall {
    pub(crate) const fn new(table: Arc<Mutex<KeyTable>>, key: KeyId, lock: QueueName, want: Want) -> Self {
        Self { table, key, lock, want, entry: Mutex::new(None) }
    }

    /// Notes that the call waits in the place that it was given.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldDeadlock`] if this closes a circle.
    pub(crate) fn waits_in(&self, place: FencingToken, standing: &Arc<dyn Standing>) -> Result<()> {
        let standing = standing.clone();
        let stands = Box::new(move || standing.liveness(LivenessAt::Now).is_held());
        self.wait(Some(WaitPlace { number: place.as_u64(), stands }))
    }

    /// Waits for a turn that tasks of this process share; as soon as it is not had at once, the wait is noted.
    ///
    /// # Errors
    ///
    /// Those of the wait, and [`ErrorKind::WouldDeadlock`] if it closes a circle.
    pub(crate) async fn during<T>(&self, granting: impl Future<Output = Result<T>>) -> Result<T> {
        let mut granting = pin!(granting);
        poll_fn(|context| match granting.as_mut().poll(context) {
            Poll::Ready(granted) => Poll::Ready(granted),
            Poll::Pending if self.entry.lock().is_some() => Poll::Pending,
            Poll::Pending => match self.wait(None) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        })
        .await
    }

    fn wait(&self, place: Option<WaitPlace>) -> Result<()> {
        let mut entry = self.entry.lock();
        let mut table = self.table.lock();
        let mut before = None;
        let number = match (*entry, place) {
            (Some(number), Some(place)) => {
                before = Some(table.note(number, place));
                number
            }
            (Some(number), None) => number,
            (None, place) => table.add(self.entry(WaitStage::Waits(place))),
        };
        *entry = Some(number);
        let found = circle(&table, number);
        // One that is refused waits no longer: it must close no circle for another key.
        let gone = found.as_ref().and_then(|_| entry.take()).map(|number| table.remove(number));
        drop(table);
        drop((before, gone));
        match found {
            None => Ok(()),
            Some(circle) => {
                let error = Error::permanent(ErrorKind::WouldDeadlock, Operation::Join, in_words(&circle));
                Err(error.at(&self.lock))
            }
        }
    }

    /// Notes a hold that the call has led to; it counts for as long as the proof says that it is held. The call waits
    /// no longer, from the same moment on.
    pub(crate) fn holds(&self, is_held: StandsProof) -> KeyHold {
        let mut entry = self.entry.lock();
        let mut table = self.table.lock();
        let waited = entry.take().map(|number| table.remove(number));
        let number = table.add(self.entry(WaitStage::Holds(is_held)));
        drop(table);
        drop(waited);
        KeyHold { table: self.table.clone(), number }
    }

    fn entry(&self, stage: WaitStage) -> TableEntry {
        let want = match (self.want, &stage) {
            // Each permit may be given back separately.
            (Want::Permits { of, .. }, WaitStage::Holds(_)) => Want::Permits { wanted: 1, of },
            (want, _) => want,
        };
        TableEntry { key: self.key, lock: self.lock.clone(), want, stage }
    }
}

impl Drop for KeyCall {
    fn drop(&mut self) {
        let entry = self.entry.get_mut().take();
        let removed = entry.map(|number| self.table.lock().remove(number));
        // Outside the lock: it may own the last reference to a session.
        drop(removed);
    }
}

/// A hold of a key, which is forgotten when this is dropped.
pub(crate) struct KeyHold {
    table: Arc<Mutex<KeyTable>>,
    number: usize,
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        let removed = self.table.lock().remove(self.number);
        // As above.
        drop(removed);
    }
}

impl fmt::Debug for KeyCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asking").field("key", &self.key).field("lock", &self.lock).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyHold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHold")
    }
}
