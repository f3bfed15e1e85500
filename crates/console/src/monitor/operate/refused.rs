//! Why a request is answered with nothing done, or with an order of which that is not known.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::Response;
use lockkeeper::Advice;

use crate::ordering::Undone;

#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    /// Sentences for a reader, without markup.
    pub(super) text: String,
    /// After which time it may be tried again, if it is a matter of time.
    after: Option<Duration>,
    /// Whether it may have been done all the same.
    pub(super) is_unknown: bool,
}

impl Refused {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), after: None, is_unknown: false }
    }

    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }

    /// Something has broken within the monitor while an order was carried out.
    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self { is_unknown: true, ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, text) }
    }

    /// Says in a few words what it means for what was ordered.
    pub(super) const fn title(&self) -> &'static str {
        if self.is_unknown { "It is not known whether it was done" } else { "Nothing was done" }
    }

    /// Says in an answer when it may be tried again.
    pub(super) fn say_when(&self, answer: &mut Response) {
        if let Some(after) = self.after {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
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
        let is_unknown = matches!(&undone, Undone::Failed(error) if error.advice() == Advice::Unknown);
        Self { is_unknown, ..Self::new(status, undone.text()) }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::{Error, ErrorKind, Operation};

    use super::*;

    #[test]
    fn a_failure_says_that_nothing_was_done_only_where_that_is_known() {
        let failed = |error| Refused::from(Undone::Failed(error));
        let transient = failed(Error::transient(ErrorKind::ConnectionLost, Operation::Connect, "gone"));
        assert_eq!((transient.status, transient.title()), (StatusCode::BAD_GATEWAY, "Nothing was done"));
        let unknown = failed(Error::unknown(ErrorKind::ConnectionLost, Operation::Connect, "gone"));
        assert_eq!((unknown.status, unknown.title()), (StatusCode::BAD_GATEWAY, "It is not known whether it was done"));
        assert_eq!(Refused::from(Undone::Stale("other".to_owned())).title(), "Nothing was done");
    }
}
