//! The settings of a machine, and its limits.

use std::time::Duration;

use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX;

/// The tick of Apache's example configuration.
const TICK_DEFAULT: Duration = Duration::from_secs(2);
/// How many ticks the shortest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MIN: u32 = 2;
/// How many ticks the longest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MAX: u32 = 20;
/// How often containers and nodes with a time to live are looked at; Apache's `znode.container.checkIntervalMs`.
const CONTAINER_CHECK_DEFAULT: Duration = Duration::from_secs(60);
/// How long a connection may take for its handshake, as in Apache; a slower one holds a descriptor for nothing.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many connections there may be: each takes about a kilobyte, and a frame's length while one is under way.
pub(crate) const CONNECTIONS_MAX: usize = 1 << 16;
/// How many sessions there may be; each takes some hundred bytes.
pub(crate) const SESSIONS_MAX: usize = 1 << 20;
/// How much memory all watches may take, as estimated, in bytes.
pub(crate) const WATCH_BYTES_MAX: usize = 1 << 30;
/// How much memory one connection's watches may take, as estimated, in bytes: a million on short paths.
pub(crate) const WATCH_BYTES_PER_CONNECTION_MAX: usize = 256 << 20;
/// How long the answers to one request may be altogether, in bytes; reading one large node over and over in a single
/// request would otherwise fill the memory.
pub(crate) const MULTI_READ_BYTES_MAX: usize = 64 << 20;
/// How many bytes of answers one push of a connection may cause before it is cut.
pub(crate) const ANSWERED_BYTES_MAX: usize = 128 << 20;
/// How many identities one connection may have; no sensible client adds more.
pub(crate) const IDENTITIES_MAX: usize = 64;
/// How much memory the nodes may take before creating and setting data are refused as exceeding a quota, in bytes.
const TREE_BYTES_DEFAULT_MAX: usize = 1 << 30;

/// The settings of a [`super::ServerMachine`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The width of the buckets in which sessions expire.
    pub tick: Duration,
    /// The shortest session timeout; 2 ticks if not given.
    pub session_timeout_min: Option<Duration>,
    /// The longest session timeout; 20 ticks if not given. If it is less than the shortest, the shortest counts.
    pub session_timeout_max: Option<Duration>,
    /// The longest body of a request (`jute.maxbuffer`), in bytes.
    pub frame_bytes_max: usize,
    /// How often containers and nodes with a time to live are looked at.
    pub container_check: Duration,
    /// How much memory the nodes may take, as estimated, in bytes.
    pub tree_bytes_max: usize,
    /// The super user: `super:` and the digest, as in Apache's `superDigest`.
    pub super_digest: Option<String>,
    /// Whether records are handed out to be stored.
    pub keeps_records: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tick: TICK_DEFAULT,
            session_timeout_min: None,
            session_timeout_max: None,
            frame_bytes_max: FRAME_BYTES_DEFAULT_MAX,
            container_check: CONTAINER_CHECK_DEFAULT,
            tree_bytes_max: TREE_BYTES_DEFAULT_MAX,
            super_digest: None,
            keeps_records: false,
        }
    }
}

impl Settings {
    /// The timeout granted to a session that asks for `timeout_ms`.
    pub(crate) fn negotiate(&self, timeout_ms: i32) -> i32 {
        let millis = |given: Option<Duration>, ticks| {
            i32::try_from(given.unwrap_or(self.tick * ticks).as_millis()).unwrap_or(i32::MAX)
        };
        let least = millis(self.session_timeout_min, SESSION_TIMEOUT_TICKS_MIN);
        timeout_ms.min(millis(self.session_timeout_max, SESSION_TIMEOUT_TICKS_MAX)).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_kept_between_two_and_twenty_ticks() {
        let settings = Settings::default();
        for (asked, granted) in [(0, 4_000), (i32::MIN, 4_000), (10_000, 10_000), (i32::MAX, 40_000)] {
            assert_eq!(settings.negotiate(asked), granted);
        }
    }

    #[test]
    fn the_least_and_the_greatest_timeout_can_be_set_apart_from_the_tick() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (least, greatest, asked, granted) in [
            (seconds(1), None, 0, 1_000),
            (None, seconds(300), i32::MAX, 300_000),
            (None, seconds(3), 10_000, 4_000),
            (seconds(60), None, 10_000, 60_000),
        ] {
            let settings =
                Settings { session_timeout_min: least, session_timeout_max: greatest, ..Settings::default() };
            assert_eq!(settings.negotiate(asked), granted, "{least:?} to {greatest:?}");
        }
    }
}
