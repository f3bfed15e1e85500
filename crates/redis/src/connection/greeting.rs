//! The greeting of a server: what it says of itself.

use lockkeeper_session::{Effect, Failure, FailureKind};
use std::fmt;

use redis::Value;

/// A server's version. A Valkey may name the version of Redis that it is compatible with.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
}

impl Version {
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `7.0.15`; what is missing is 0.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(['.', '-']).map(|number| number.parse().ok());
        let major = numbers.next().flatten()?;
        let mut next = || numbers.next().flatten().unwrap_or(0);
        Some(Self::new(major, next(), next()))
    }
}

/// `7.0.15`
impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HelloReply {
    /// `redis` or `valkey`.
    pub(crate) software: String,
    pub(crate) version: Version,
    pub(crate) is_of_cluster: bool,
    pub(crate) is_replica: bool,
}

impl HelloReply {
    /// Reads the answer to `HELLO`, and refuses a sentinel.
    pub(super) fn of(answer: &Value) -> Result<Self, Failure> {
        let Value::Map(fields) = answer else {
            return Err(Failure::unexpected());
        };
        let field =
            |name: &str| fields.iter().find(|(key, _)| text(key) == Some(name)).and_then(|(_, value)| text(value));
        if field("mode") == Some("sentinel") {
            let message = "this is a sentinel; the URL must be `redis+sentinel://…/MASTER`";
            return Err(Failure::new(FailureKind::Settings, Effect::None, message));
        }
        let version = field("version").and_then(Version::parse).ok_or_else(Failure::unexpected)?;
        let is_of_cluster = field("mode") == Some("cluster");
        let is_replica = matches!(field("role"), Some("replica" | "slave"));
        Ok(Self { software: field("server").unwrap_or("redis").to_owned(), version, is_of_cluster, is_replica })
    }

    /// Refuses a server that neither has the keys nor names the one that has: in a cluster a replica does.
    pub(super) fn check_use(&self) -> Result<(), Failure> {
        if self.is_of_cluster { Ok(()) } else { self.check_master() }
    }

    pub(super) fn check_master(&self) -> Result<(), Failure> {
        if !self.is_replica {
            return Ok(());
        }
        let message = "the server is a replica, which takes no writes";
        Err(Failure::new(FailureKind::ReadOnly, Effect::None, message))
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(fields: &[(&str, &str)]) -> Result<HelloReply, Failure> {
        let value = |text: &str| Value::BulkString(text.into());
        let fields = fields.iter().map(|(name, text)| (value(name), value(text))).collect();
        HelloReply::of(&Value::Map(fields)).and_then(|greeting| greeting.check_use().map(|()| greeting))
    }

    #[test]
    fn a_replica_in_a_cluster_is_asked_for_its_master_and_is_none() {
        let greeting = greeting(&[("version", "7.0.15"), ("mode", "cluster"), ("role", "replica")]).unwrap();
        assert_eq!(greeting.check_master().unwrap_err().kind, FailureKind::ReadOnly);
    }

    #[test]
    fn a_master_says_what_it_is() {
        let fields = [("server", "redis"), ("version", "7.0.15"), ("mode", "standalone"), ("role", "master")];
        let greeting = greeting(&fields).unwrap();
        assert_eq!((greeting.software.as_str(), greeting.version), ("redis", Version::new(7, 0, 15)));
        assert_eq!(greeting.version.to_string(), "7.0.15");
        assert!(Version::new(6, 2, 14) < greeting.version && greeting.version < Version::new(7, 2, 0));
    }

    #[test]
    fn a_replica_a_sentinel_and_one_that_says_nothing_of_use_are_refused() {
        for (fields, kind) in [
            ([("version", "7.0.15"), ("role", "replica")], FailureKind::ReadOnly),
            ([("version", "7.0.15"), ("mode", "sentinel")], FailureKind::Settings),
            ([("version", "unstable"), ("role", "master")], FailureKind::Protocol),
        ] {
            assert_eq!(greeting(&fields).expect_err("it is refused").kind, kind, "{fields:?}");
        }
        assert_eq!(HelloReply::of(&Value::Okay).expect_err("it is no map").kind, FailureKind::Protocol);
    }
}
