//! Reads what a server says of itself: the answers to `INFO` and to `CONFIG GET`. Pure.

use std::collections::HashMap;

/// What a server says of itself, by the names of its fields and settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Report(HashMap<String, String>);

/// A replica, as its master knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Replica {
    /// Whether it has all data and is sent each write.
    pub(super) is_online: bool,
    /// How many seconds ago it was heard of.
    pub(super) lag_s: u64,
}

impl Report {
    /// Reads the answer to `INFO`.
    pub(super) fn of_info(info: &str) -> Self {
        let field =
            |line: &str| line.trim_end().split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(info.lines().filter_map(field).collect())
    }

    /// Notes a setting.
    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The replicas of this server; `None` if it does not say how many there are.
    pub(super) fn replicas(&self) -> Option<Vec<Replica>> {
        let count = self.number("connected_slaves")?;
        let replicas = (0..count).map_while(|number| self.get(&format!("slave{number}")));
        Some(replicas.map(replica).collect())
    }
}

/// Reads `ip=10.0.0.7,port=6379,state=online,offset=84,lag=1`.
fn replica(text: &str) -> Replica {
    let field = |name: &str| text.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Replica {
        is_online: field("state") == Some("online"),
        lag_s: field("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_replicas_are_read() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmaxmemory:0\r\n\
                    slave0:ip=127.0.0.1,port=1,state=online,offset=84,lag=1\r\n\
                    slave1:ip=127.0.0.1,port=2,state=wait_bgsave,offset=0,lag=0\r\n";
        let mut report = Report::of_info(info);
        report.set("appendfsync", "always".to_owned());
        assert_eq!((report.get("role"), report.get("appendfsync")), (Some("master"), Some("always")));
        assert_eq!((report.number("maxmemory"), report.number("role")), (Some(0), None));
        let replicas = [Replica { is_online: true, lag_s: 1 }, Replica { is_online: false, lag_s: 0 }];
        assert_eq!(report.replicas().as_deref(), Some(&replicas[..]));
    }

    #[test]
    fn what_is_not_said_is_not_known() {
        for info in ["", "\r\n:\r\nconnected_slaves:x", "connected_slaves"] {
            assert_eq!(Report::of_info(info).replicas(), None, "{info:?}");
        }
        assert_eq!(Report::of_info("connected_slaves:18446744073709551615").replicas(), Some(Vec::new()));
    }
}
