//! URLs and tokens in the formats of serde: the text that is shown and parsed, since a derive would show their fields.
//!
//! What the text is, and what is refused in one, is left to `url` and `token`. `locks` has what is shown of locks.

mod locks;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::token::FencingToken;
use crate::url::{ServiceUrl, UrlBuilder};

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
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(UrlVisitor),
            false => parsed(deserializer),
        }
    }
}

/// Reads a URL from its text, or from a table of its parts.
struct UrlVisitor;

/// A URL by its parts.
#[derive(Deserialize)]
struct UrlTable {
    service: String,
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    path: String,
    user: Option<String>,
    password: Option<String>,
    #[serde(flatten)]
    settings: BTreeMap<String, TableSetting>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a setting is a text or a whole number")]
enum TableSetting {
    Text(String),
    Number(u64),
}

impl<'de> Visitor<'de> for UrlVisitor {
    type Value = ServiceUrl;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string that is a service URL, or a table with its `service`, `hosts` and settings")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ServiceUrl, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ServiceUrl, A::Error> {
        let UrlTable { service, hosts, path, user, password, settings } =
            UrlTable::deserialize(MapAccessDeserializer::new(map))?;
        let builder = hosts.into_iter().fold(ServiceUrl::builder(&service).path(path), UrlBuilder::host);
        let builder = settings.iter().fold(builder, |builder, (key, value)| match value {
            TableSetting::Text(text) => builder.setting(key, text),
            TableSetting::Number(number) => builder.setting(key, number),
        });
        let url = builder.build().map_err(A::Error::custom)?;
        let url = user.into_iter().fold(url, ServiceUrl::with_user);
        Ok(password.into_iter().fold(url, ServiceUrl::with_password))
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
        assert!(
            from_str::<ServiceUrl>("5").unwrap_err().to_string().contains("expected a string that is a service URL")
        );
    }

    #[test]
    fn a_url_is_read_from_a_table_of_its_parts() {
        let table = r#"{"service": "postgres", "hosts": ["db1:5432", "db2"], "path": "/app", "user": "ann",
            "password": "1234/Sc0tt@h", "session_timeout": "20s", "commit": "sync", "n": 7}"#;
        let url: ServiceUrl = from_str(table).unwrap();
        let text = "postgres://ann@db1:5432,db2/app?commit=sync&n=7&session_timeout=20s";
        assert_eq!(url, ServiceUrl::parse(text).unwrap().with_password("1234/Sc0tt@h"));
        assert_eq!(from_str::<ServiceUrl>(r#"{"service": "memory"}"#).unwrap(), ServiceUrl::parse("memory:").unwrap());
        for (table, told) in [
            (r#"{"hosts": ["h1"]}"#, "missing field `service`"),
            (r#"{"service": "zk", "hosts": ["h1;h2"]}"#, "`;`"),
            (r#"{"service": "zk", "hosts": ["h1"], "base": true}"#, "a setting is a text or a whole number"),
        ] {
            let error = from_str::<ServiceUrl>(table).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
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
