//! The settings of a machine.

use std::time::Duration;

use lockkeeper_zk_proto::frame::FRAME_BYTES_DEFAULT_MAX;

use crate::machine::limits::MemoryLimits;
use crate::machine::words::WordSet;

/// The tick of Apache's example configuration.
const TICK_DEFAULT: Duration = Duration::from_secs(2);
/// How many ticks the shortest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MIN: u32 = 2;
/// How many ticks the longest session timeout has, as in Apache.
const SESSION_TIMEOUT_TICKS_MAX: u32 = 20;
/// How often containers and nodes with a time to live are looked at; Apache's `znode.container.checkIntervalMs`.
const CONTAINER_CHECK_DEFAULT: Duration = Duration::from_secs(60);

/// The settings of a [`super::ServerMachine`].
#[derive(Clone, Debug)]
pub struct MachineSettings {
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
    /// How much there may be of each thing.
    pub limits: MemoryLimits,
    /// The four-letter words that are answered.
    pub words: WordSet,
    /// The super user: `super:` and the digest, as in Apache's `superDigest`.
    pub super_digest: Option<String>,
    /// Whether records are handed out to be stored.
    pub keeps_records: bool,
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            tick: TICK_DEFAULT,
            session_timeout_min: None,
            session_timeout_max: None,
            frame_bytes_max: FRAME_BYTES_DEFAULT_MAX,
            container_check: CONTAINER_CHECK_DEFAULT,
            limits: MemoryLimits::default(),
            words: WordSet::ALL,
            super_digest: None,
            keeps_records: false,
        }
    }
}

impl MachineSettings {
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
        let settings = MachineSettings::default();
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
            let settings = MachineSettings {
                session_timeout_min: least,
                session_timeout_max: greatest,
                ..MachineSettings::default()
            };
            assert_eq!(settings.negotiate(asked), granted, "{least:?} to {greatest:?}");
        }
    }
}
