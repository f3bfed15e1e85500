//! The token of a request: pure.

use http::{HeaderMap, HeaderName};

use super::refusal::Refusal;
use crate::QueueName;
use crate::fence::{TOKEN_HEADER, TokenHeader};

/// Reads the one token of a request for a resource behind the lock `name`.
pub(super) fn read(headers: &HeaderMap, name: &QueueName) -> Result<TokenHeader, Refusal> {
    let mut values = headers.get_all(HeaderName::from_static(TOKEN_HEADER)).iter();
    let value = values.next().ok_or(Refusal::NoToken)?;
    if values.next().is_some() {
        return Err(Refusal::SeveralTokens);
    }
    // What is not visible ASCII is no name either, nor a token.
    let text = value.to_str().map_err(|_| Refusal::NotAscii)?;
    let header: TokenHeader = text.parse().map_err(Refusal::Malformed)?;
    if header.is_of(name) {
        Ok(header)
    } else {
        Err(Refusal::OfAnotherLock { given: header.encoded_name().to_owned(), wanted: name.encoded() })
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
}
