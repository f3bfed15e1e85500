//! A mutex for state that several tasks share.

use std::sync::{MutexGuard, PoisonError};

/// What several tasks share, one at a time. Nothing here panics while it is locked; if anything did, the others would
/// go on.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Begins with this.
    pub const fn new(shared: T) -> Self {
        Self(std::sync::Mutex::new(shared))
    }

    /// Waits until no other task has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
