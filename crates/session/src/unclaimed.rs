//! The product of an opening, until a session has it.

use std::ops::{Deref, DerefMut};

/// Something that is ended if it is never claimed, as when a caller gives up.
#[derive(Debug)]
pub struct Unclaimed<T, E: FnOnce(T)>(Option<(T, E)>);

impl<T, E: FnOnce(T)> Unclaimed<T, E> {
    /// Takes it until it is claimed; `end` ends it if it never is.
    pub const fn new(made: T, end: E) -> Self {
        Self(Some((made, end)))
    }

    /// Hands it over.
    #[expect(clippy::missing_panics_doc, reason = "it is there until it is claimed, which is the end")]
    pub fn claim(mut self) -> T {
        self.0.take().expect("it is claimed once").0
    }
}

const THERE: &str = "it is there until it is claimed, which is the end";

impl<T, E: FnOnce(T)> Deref for Unclaimed<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.as_ref().expect(THERE).0
    }
}

impl<T, E: FnOnce(T)> DerefMut for Unclaimed<T, E> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.as_mut().expect(THERE).0
    }
}

impl<T, E: FnOnce(T)> Drop for Unclaimed<T, E> {
    fn drop(&mut self) {
        if let Some((made, end)) = self.0.take() {
            end(made);
        }
    }
}
