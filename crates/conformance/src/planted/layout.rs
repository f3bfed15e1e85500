//! The modes that a backend says that it carries, and those that it carries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{Entry, Error, ErrorKind, Modes, Operation};

/// What a backend says that it carries, what it carries, and how often it was asked for anything else.
#[derive(Clone, Debug)]
pub struct Layout {
    said: Modes,
    carried: Modes,
    strays: Arc<AtomicU64>,
}

impl Layout {
    /// Carries these modes and says so.
    pub fn of(modes: Modes) -> Self {
        Self { said: modes, carried: modes, strays: Arc::default() }
    }

    /// Says that it carries every mode, and carries only these.
    pub(crate) fn of_no_more_than(modes: Modes) -> Self {
        Self { said: Modes::ALL, ..Self::of(modes) }
    }

    pub(crate) const fn said(&self) -> Modes {
        self.said
    }

    /// Returns how many entries of other modes were sent.
    pub fn strays(&self) -> u64 {
        self.strays.load(Ordering::SeqCst)
    }

    /// Refuses entries for which there is no place, and counts them.
    pub(crate) fn check(&self, entries: &[Entry]) -> Result<(), Error> {
        let Some(stray) = entries.iter().find(|entry| !self.carried.has(entry.mode)) else {
            return Ok(());
        };
        self.strays.fetch_add(1, Ordering::SeqCst);
        let message = format!("there is no place for a contender of mode {}", stray.mode);
        Err(Error::permanent(ErrorKind::Unsupported, Operation::Join, message))
    }
}
