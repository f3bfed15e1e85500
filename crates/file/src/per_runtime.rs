//! One of a kind for each tokio runtime: a runtime sees only what was registered with it, and its tasks end with it.

use std::sync::{Arc, Weak};

use tokio::runtime::{Handle, Id};

/// What each runtime has one of, for as long as a user in it keeps it.
#[derive(Debug)]
pub(crate) struct PerRuntime<T>(Vec<(Id, Weak<T>)>);

impl<T> PerRuntime<T> {
    /// Returns that of this runtime, if it has one.
    pub(crate) fn here(&mut self) -> Option<Arc<T>> {
        self.0.retain(|(_, one)| one.strong_count() > 0);
        let here = Handle::current().id();
        self.0.iter().find(|(id, _)| *id == here).and_then(|(_, one)| one.upgrade())
    }

    /// Makes this the one of this runtime.
    pub(crate) fn set_here(&mut self, one: &Arc<T>) {
        let here = Handle::current().id();
        self.0.retain(|(id, _)| *id != here);
        self.0.push((here, Arc::downgrade(one)));
    }
}

impl<T> Default for PerRuntime<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_runtime_has_the_one_that_was_set_last_for_as_long_as_it_is_kept() {
        let [first, second] =
            [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().build().expect("a runtime"));
        let mut ones = PerRuntime::default();
        let [old, new, other] = ["old", "new", "other"].map(Arc::new);
        first.block_on(async {
            ones.set_here(&old);
            ones.set_here(&new);
        });
        assert_eq!(second.block_on(async { ones.here() }), None);
        second.block_on(async { ones.set_here(&other) });
        drop(old);
        assert_eq!(first.block_on(async { ones.here() }), Some(new));
        assert_eq!(first.block_on(async { ones.here() }), None, "nothing keeps it");
        assert_eq!(second.block_on(async { ones.here() }), Some(other));
    }
}
