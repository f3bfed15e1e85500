//! Answers for programs: their headers, and refusals in plain text.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output::{json_line, one_line};

/// What a query asks for. One that is none is refused; what it says may be in the answer.
pub(super) struct PlainQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for PlainQuery<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let asked = Query::from_request_parts(parts, state).await;
        asked
            .map(|Query(asked)| Self(asked))
            .map_err(|refusal: QueryRejection| plain(refusal.status(), one_line(&refusal.body_text()) + "\n"))
    }
}

pub(super) fn plain(status: StatusCode, text: String) -> Response {
    with_type(status, "text/plain; charset=utf-8", text)
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match json_line(value) {
        Ok(text) => with_type(status, "application/json", text),
        Err(failure) => plain(StatusCode::INTERNAL_SERVER_ERROR, failure.message + "\n"),
    }
}

/// What is answered is of this moment, and is what its type says.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, text).into_response()
}
