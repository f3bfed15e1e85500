//! Answers for programs: their headers, and refusals in plain text.

use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

use crate::output::one_line;

/// Refuses a query; what it says may be in the answer.
pub(super) fn refused(refusal: &QueryRejection) -> Response {
    plain(refusal.status(), one_line(&refusal.body_text()) + "\n")
}

pub(super) fn plain(status: StatusCode, text: String) -> Response {
    with_type(status, "text/plain; charset=utf-8", text)
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
