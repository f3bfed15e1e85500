//! URLs and tokens in the formats of serde: the text that is shown and parsed, since a derive would show their fields.
//!
//! What the text is, and what is refused in one, is left to `url` and `token`. `locks` has what is shown of locks.

mod locks;

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::token::FencingToken;
use crate::url::ServiceUrl;

impl Serialize for ServiceUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.password().is_some() {
            return Err(S::Error::custom(
                "a service URL with a password is not serialized; serialize it without one, and add the password \
                 where the URL is used",
            ));
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ServiceUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

impl Serialize for FencingToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FencingToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer)
    }
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_str, to_string};

    use super::*;

    #[test]
    fn a_url_is_its_text_and_is_read_back() {
        for text in ["file:/var/lib/x", "memory:", "zk://ann@h1:2181,[::1]:99/a%40b?session_timeout=20s"] {
            let url = ServiceUrl::parse(text).unwrap();
            let written = to_string(&url).unwrap();
            assert_eq!(written, format!("{text:?}"));
            assert_eq!(from_str::<ServiceUrl>(&written).unwrap(), url);
        }
    }

    #[test]
    fn a_url_with_a_password_is_read_and_never_written() {
        let url: ServiceUrl = from_str(r#""zk://ann:s%40crt@h1""#).unwrap();
        assert_eq!(url.password(), Some("s@crt"));
        for url in [url, ServiceUrl::parse("zk://ann@h1").unwrap().with_password("s@crt")] {
            let error = to_string(&url).unwrap_err().to_string();
            assert!(error.contains("with a password is not serialized") && !error.contains("crt"), "{error}");
        }
    }

    #[test]
    fn a_text_that_is_no_url_is_refused_in_the_words_of_the_parser() {
        for wrong in ["/var/lib/x", "zk://h1;h2", "zk://h:port", "zk://ann:1234/Sc0tt@h", "file:%zz"] {
            let error = from_str::<ServiceUrl>(&format!("{wrong:?}")).unwrap_err().to_string();
            let told = ServiceUrl::parse(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&told), "{error}, and the parser: {told}");
        }
        assert!(from_str::<ServiceUrl>("5").unwrap_err().to_string().contains("expected a string"));
    }

    #[test]
    fn a_token_is_a_text_and_a_number_or_another_text_is_refused() {
        for (token, written) in [((42, 0), r#""42""#), ((7, 3), r#""7.3""#)] {
            let token = FencingToken::new(token.0, token.1).unwrap();
            assert_eq!(to_string(&token).unwrap(), written);
            assert_eq!(from_str::<FencingToken>(written).unwrap(), token);
        }
        assert!(from_str::<FencingToken>("42").unwrap_err().to_string().contains("expected a string"));
        let error = from_str::<FencingToken>(r#""1.2.3""#).unwrap_err().to_string();
        assert!(error.starts_with("a token is a whole number"), "{error}");
    }

    proptest! {
        #[test]
        fn every_token_is_read_back(grant in 0..=i64::MAX.cast_unsigned(), turn: u32) {
            let token = FencingToken::new(grant, turn).unwrap();
            prop_assert_eq!(from_str::<FencingToken>(&to_string(&token).unwrap()).unwrap(), token);
        }
    }
}
