//! The body of a request, within limits of length and time.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Form, FromRequest as _, Request};
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::refused::Refused;

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
    use super::*;

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
