//! Why a request is answered with nothing done.

use std::time::Duration;

use axum::http::StatusCode;

use crate::ordering::Undone;

/// What its answer says.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    /// Sentences for a reader, without markup.
    pub(super) text: String,
    /// After which time it may be tried again, if it is a matter of time.
    pub(super) after: Option<Duration>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), after: None }
    }

    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    pub(super) fn too_many(after: Duration) -> Self {
        let after = Duration::from_secs(after.as_secs() + 1);
        let text = format!("Too many wrong tokens were given: try again in {} s.", after.as_secs());
        Self { after: Some(after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, text) }
    }
}

impl From<Undone> for Refused {
    fn from(undone: Undone) -> Self {
        let status = match &undone {
            Undone::Stale(_) => StatusCode::CONFLICT,
            // It is no failure of anything: the holder has not given it back.
            Undone::NotInTime(_) => StatusCode::CONFLICT,
            Undone::Failed(_) => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, undone.text())
    }
}
