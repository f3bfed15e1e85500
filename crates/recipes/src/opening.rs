//! The session of a keeper: the present one, or the next.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use lockkeeper_core::{Result, Session};

use crate::shared::Shared;

impl Shared {
    /// Returns the present session, or waits until the next one is open. If the future is dropped, the opening goes on.
    /// A caller that comes after an opening has failed begins another one.
    ///
    /// # Errors
    ///
    /// Those of the opening, for all callers that wait for it; [`ErrorKind::Closed`](lockkeeper_core::ErrorKind::Closed)
    /// once the keeper is closed, and for a new session once it is drained.
    pub(crate) async fn session(&self) -> Result<Arc<dyn Session>> {
        self.opener.get(|| self.backend.session()).await
    }
}
