//! The token of a request, and the answers to requests that are refused: pure.

use std::fmt;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::fence::{ParseHeaderError, TOKEN_HEADER, TokenHeader};
use crate::{Error, FencingToken, QueueName};

/// Reads the one token of a request for a resource behind the lock `name`.
pub(super) fn read(headers: &HeaderMap, name: &QueueName) -> Result<TokenHeader, FenceRefusal> {
    let mut values = headers.get_all(HeaderName::from_static(TOKEN_HEADER)).iter();
    let value = values.next().ok_or(FenceRefusal::NoToken)?;
    if values.next().is_some() {
        return Err(FenceRefusal::SeveralTokens);
    }
    // What is not visible ASCII is no name either, nor a token.
    let text = value.to_str().map_err(|_| FenceRefusal::NotAscii)?;
    let header: TokenHeader = text.parse().map_err(FenceRefusal::Malformed)?;
    if header.is_of(name) {
        Ok(header)
    } else {
        Err(FenceRefusal::OfAnotherLock { given: header.encoded_name().to_owned(), wanted: name.encoded() })
    }
}

/// Why a request is not passed on.
#[derive(Clone, Debug)]
pub(super) enum FenceRefusal {
    NoToken,
    SeveralTokens,
    NotAscii,
    Malformed(ParseHeaderError),
    /// The encoded names of two locks.
    OfAnotherLock {
        given: String,
        wanted: String,
    },
    /// There is no lock for what was asked for.
    NoLock,
    Stale {
        name: String,
        token: FencingToken,
        greatest: FencingToken,
    },
    TooManyWait,
    StoreFailed(Error),
    RuntimeEnded,
}

/// In the extensions of a response with status 500: why the store of the greatest tokens failed.
///
/// The client is not told, since the text may name what only the operator should know; a layer around the fence can
/// write it to a log.
#[derive(Clone, Debug)]
pub struct StoreFailure(Error);

impl StoreFailure {
    /// Returns the store's error.
    pub const fn error(&self) -> &Error {
        &self.0
    }
}

impl FenceRefusal {
    pub(super) const fn status(&self) -> StatusCode {
        match self {
            Self::NoToken => StatusCode::PRECONDITION_REQUIRED,
            Self::SeveralTokens | Self::NotAscii | Self::Malformed(_) | Self::OfAnotherLock { .. } | Self::NoLock => {
                StatusCode::BAD_REQUEST
            }
            Self::Stale { .. } => StatusCode::PRECONDITION_FAILED,
            Self::TooManyWait | Self::RuntimeEnded => StatusCode::SERVICE_UNAVAILABLE,
            Self::StoreFailed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Makes the answer.
    pub(super) fn response<Body: From<String>>(self) -> Response<Body> {
        let status = self.status();
        let title = status.canonical_reason().unwrap_or_default();
        let mut members = format!(r#""title":"{title}","status":{},"detail":"{self}""#, status.as_u16());
        if let Self::Stale { name, token, greatest } = &self {
            // Texts, since some readers of JSON round numbers beyond 2^53.
            members.push_str(&format!(r#","name":"{name}","token":"{token}","greatest":"{greatest}""#));
        }
        let mut response = Response::new(Body::from(format!("{{{members}}}\n")));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Self::StoreFailed(error) = self {
            response.extensions_mut().insert(StoreFailure(error));
        }
        response
    }
}

impl fmt::Display for FenceRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToken => write!(formatter, "the header {TOKEN_HEADER} is missing: NAME GRANT or NAME GRANT.TURN"),
            Self::SeveralTokens => write!(formatter, "there is more than one header {TOKEN_HEADER}"),
            Self::NotAscii => write!(formatter, "{TOKEN_HEADER}: it is not ASCII"),
            Self::Malformed(why) => write!(formatter, "{TOKEN_HEADER}: {why}"),
            Self::OfAnotherLock { given, wanted } => {
                write!(formatter, "the token is one of the lock {given}, and this resource is behind the lock {wanted}")
            }
            Self::NoLock => formatter.write_str("there is no lock for this resource"),
            Self::Stale { name, token, greatest } => {
                write!(formatter, "token {token} of the lock {name} was overtaken: {greatest} was seen")
            }
            Self::TooManyWait => formatter.write_str("too many requests of this lock wait"),
            Self::StoreFailed(_) => formatter.write_str("the greatest token cannot be compared"),
            Self::RuntimeEnded => formatter.write_str("the server ends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;

    fn status(values: &[&[u8]]) -> Result<String, StatusCode> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TOKEN_HEADER, HeaderValue::from_bytes(value).unwrap());
        }
        let name = QueueName::new("a b").unwrap();
        read(&headers, &name).map(|header| header.token().to_string()).map_err(|refusal| refusal.status())
    }

    #[test]
    fn one_token_of_this_lock_is_read_and_all_else_is_refused() {
        assert_eq!(status(&[b"a%20b 42.3"]), Ok("42.3".to_owned()));
        assert_eq!(status(&[]), Err(StatusCode::PRECONDITION_REQUIRED));
        for values in [
            &[&b""[..]][..],
            &[b"42"],
            &[b"a%20b"],
            &[b"a%20b -1"],
            &[b"a%20b 9223372036854775808"],
            &[b"a b 42"],
            &[b"a%20b 42", b"a%20b 43"],
            &[b"a%20b 42", b"a%20b 42"],
            &[b"x 42"],
            &[b"a%20B 42"],
            &[b"a\xc3\xbc 42"],
        ] {
            assert_eq!(status(values), Err(StatusCode::BAD_REQUEST), "{values:?}");
        }
    }

    #[test]
    fn a_stale_token_is_told_with_the_greatest_one() {
        let token = |text: &str| text.parse().unwrap();
        let refusal = FenceRefusal::Stale { name: "a%20b".to_owned(), token: token("41"), greatest: token("42.3") };
        let response: Response<String> = refusal.response();
        assert_eq!(response.status(), 412);
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        let body = concat!(
            r#"{"title":"Precondition Failed","status":412,"#,
            r#""detail":"token 41 of the lock a%20b was overtaken: 42.3 was seen","#,
            r#""name":"a%20b","token":"41","greatest":"42.3"}"#,
            "\n"
        );
        assert_eq!(response.body(), body);
    }

    /// None of the texts has a character that JSON escapes.
    #[test]
    fn every_body_is_one_line_of_json_without_escapes() {
        for refusal in [
            FenceRefusal::NoToken,
            FenceRefusal::SeveralTokens,
            FenceRefusal::NotAscii,
            FenceRefusal::Malformed(ParseHeaderError::NotTwoWords),
            FenceRefusal::Malformed(ParseHeaderError::BadName),
            FenceRefusal::Malformed(ParseHeaderError::BadToken),
            FenceRefusal::OfAnotherLock { given: "%22".to_owned(), wanted: "%5C".to_owned() },
            FenceRefusal::NoLock,
            FenceRefusal::TooManyWait,
            FenceRefusal::RuntimeEnded,
        ] {
            let detail = refusal.to_string();
            assert!(!detail.contains(['"', '\\']) && !detail.contains(char::is_control), "{detail}");
        }
    }
}
