//! Requests to the operator's paths: limits of their bodies, and why one is refused.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Form, FromRequest as _, Request};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, RETRY_AFTER};
use axum::response::Response;
use lockkeeper::Advice;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

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

/// How long a body may be, in bytes: a reason with all of its bytes percent-encoded, and some room.
const BODY_BYTES_MAX: usize = 8_192;

/// How long its client may take to send it.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

pub(super) async fn whole(body: Body) -> Result<Bytes, Refused> {
    match timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let text = format!("The request has a body of more than {BODY_BYTES_MAX} bytes, or has broken off.");
            Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, text))
        }
        Err(_) => Err(Refused::new(StatusCode::REQUEST_TIMEOUT, "The request took too long.")),
    }
}

pub(super) async fn form<T: DeserializeOwned>(request: Request) -> Result<T, Refused> {
    let (parts, body) = request.into_parts();
    let bytes = whole(body).await?;
    let request = Request::from_parts(parts, Body::from(bytes));
    match Form::<T>::from_request(request, &()).await {
        Ok(Form(form)) => Ok(form),
        Err(refusal) => Err(Refused::new(refusal.status(), refusal.body_text())),
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

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_long_or_never_ends_is_refused() {
        assert_eq!(whole(Body::from(vec![b'x'; BODY_BYTES_MAX])).await.unwrap().len(), BODY_BYTES_MAX);
        let long = whole(Body::from(vec![b'x'; BODY_BYTES_MAX + 1])).await.unwrap_err();
        assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
        let never = futures_util::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        let slow = whole(Body::from_stream(never)).await.unwrap_err();
        assert_eq!(slow.status, StatusCode::REQUEST_TIMEOUT);
    }
}
