//! Values in config files and options: an address to listen on, a duration with its unit, a text or a number.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

use crate::exit::CommandFailure;

/// An address to listen on. Its two forms are all there are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Listen {
    /// An IP address with a port.
    Address(SocketAddr),
    /// A host's name with a port, looked up when listening begins.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Listen {
    /// Reads `127.0.0.1:2181`, `[::1]:2181`, `localhost:2181`, or `2181`, which is a port of 127.0.0.1.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Ok(port) = text.parse() {
            return Ok(Self::Address(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let is_name = |host: &str| {
            !host.is_empty() && host.chars().all(|mark| mark.is_alphanumeric() || matches!(mark, '-' | '.' | '_'))
        };
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) if is_name(host) => Ok(Self::Name { host: host.to_owned(), port }),
            _ => Err(format!(
                "`{text}` is no address to listen on; write it as 127.0.0.1:2181, [::1]:2181, localhost:2181 or 2181"
            )),
        }
    }

    /// Returns the IP addresses that it stands for; looks a name up.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, CommandFailure> {
        match self {
            Self::Address(address) => Ok(vec![*address]),
            Self::Name { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs();
                let mut addresses: Vec<SocketAddr> = found
                    .map_err(|error| CommandFailure::ours(format!("cannot listen on {host}:{port}: {error}")))?
                    .collect();
                addresses.sort();
                addresses.dedup();
                Ok(addresses)
            }
        }
    }
}

/// Reads one address in a config file.
pub fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Listen>, D::Error> {
    match <[Listen; 1]>::try_from(one_or_more(deserializer)?) {
        Ok([listen]) => Ok(Some(listen)),
        Err(_) => Err(de::Error::custom("it has to be one address")),
    }
}

/// Reads one address or a list of them in a config file.
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Listen>, D::Error> {
    struct ListenVisitor;

    impl<'de> Visitor<'de> for ListenVisitor {
        type Value = Vec<Listen>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an address such as \"127.0.0.1:2181\", or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Listen>, E> {
            Ok(vec![Listen::parse(text).map_err(E::custom)?])
        }

        fn visit_i64<E: de::Error>(self, port: i64) -> Result<Vec<Listen>, E> {
            self.visit_str(&port.to_string())
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut texts: S) -> Result<Vec<Listen>, S::Error> {
            let mut all = Vec::new();
            while let Some(text) = texts.next_element::<String>()? {
                all.push(Listen::parse(&text).map_err(de::Error::custom)?);
            }
            Ok(all)
        }
    }

    deserializer.deserialize_any(ListenVisitor)
}

/// A duration in a config file: a text with a unit, such as `"2.5s"`.
#[derive(Clone, Debug)]
pub struct Span {
    /// As it is written.
    pub text: String,
    /// As it is meant.
    pub duration: Duration,
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a duration, such as \"500ms\", \"2.5s\" or \"1m30s\"";
        text_or_number(deserializer, expecting, |text| {
            let duration = lockkeeper::parse_duration_with_unit(text).map_err(|error| error.to_string())?;
            Ok(Self { text: text.to_owned(), duration })
        })
    }
}

/// Reads a duration of which the text is not needed.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Span::deserialize(deserializer).map(|span| Some(span.duration))
}

/// Reads a text; a number is read as if it were written as one.
pub fn text_or_number<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    deserializer.deserialize_any(TextOrNumber { expecting, parse })
}

struct TextOrNumber<T> {
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_a_port_or_a_name_can_be_listened_on() {
        let address = |text: &str| Ok(Listen::Address(text.parse().unwrap()));
        assert_eq!(Listen::parse("10.0.0.1:2181"), address("10.0.0.1:2181"));
        assert_eq!(Listen::parse("[::1]:0"), address("[::1]:0"));
        assert_eq!(Listen::parse("2181"), address("127.0.0.1:2181"));
        let name = Listen::parse("localhost:2181").unwrap();
        assert_eq!(name, Listen::Name { host: "localhost".to_owned(), port: 2181 });
        assert!(name.addresses().unwrap().iter().all(|address| address.ip().is_loopback() && address.port() == 2181));
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        for text in ["", "nowhere", "host:", "host:x", ":2181", "::1:2181x", "a b:2181", "70000", "host:70000"] {
            let refusal = Listen::parse(text).expect_err(text);
            assert!(refusal.contains("write it as"), "{text}: {refusal}");
        }
    }
}
