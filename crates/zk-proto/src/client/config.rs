//! The settings of a session machine, and the limits it keeps.

use std::time::Duration;

use crate::client::anchor::AnchorConfig;
use crate::frame::FRAME_BYTES_DEFAULT_MAX;

/// How many requests may wait to be sent: some mebibytes of them; a caller with more does not wait for answers.
pub const QUEUED_REQUESTS_MAX: usize = 65_536;

/// How many bytes of requests may wait to be sent.
pub const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How many requests may be sent and unanswered: a proof that is due waits for the answers to all of them, so there
/// must not be more than a slow server answers within a small part of the timeout. A quarter of the number from which
/// on Apache's server stops reading from its clients (`globalOutstandingLimit`). Pings, the restoring of watches and
/// requests [submitted ahead](super::ClientSession::submit_ahead) come on top.
pub const IN_FLIGHT_MAX: usize = 256;

/// How many bytes may be sent and unanswered, the answers' own included as far as they can be foreseen; a single
/// request may be more. Seven lists of ten thousand children: some ten milliseconds of a server and of a client.
pub const IN_FLIGHT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many requests may wait ahead of all others: each proof of a session waits for the one before.
pub const QUEUED_AHEAD_MAX: usize = 8;

/// How many deletions leave as one transaction at most: a failed one makes all others go out again, each alone.
pub const DELETIONS_MAX: usize = 64;

/// How many bytes of paths they have at most: a small part of what a server takes in one request by default (1 MiB).
pub const DELETIONS_BYTES_MAX: usize = 32 * 1024;

/// How many credentials a session may carry; each is sent anew on each connection.
pub const AUTHS_MAX: usize = 16;

/// How many bytes one transmit gathers, in requests not larger by themselves: a few writes of a socket's buffer.
pub const TRANSMIT_BYTES_MAX: usize = 64 * 1024;

/// How many requests at least are sent in each timeout, since a place may be asked for at any moment.
///
/// The anchor is as old as the last answered request that a write has proved, so the requests must be dense.
const PINGS_PER_TIMEOUT: u32 = 10;

/// The least frame maximum a session works with, in bytes: room for a handshake and a few watches.
pub const FRAME_BYTES_MIN: usize = 1024;

/// Tells a session machine what to ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionConfig {
    pub(super) session_timeout: Duration,
    pub(super) handshake_timeout: Duration,
    pub(super) frame_bytes_max: usize,
    pub(super) anchor: AnchorConfig,
}

impl SessionConfig {
    /// Asks for this session timeout, on each connection the same.
    ///
    /// A handshake may take a third of it; the frame maximum is the default.
    pub fn new(session_timeout: Duration) -> Self {
        Self {
            session_timeout,
            handshake_timeout: session_timeout / 3,
            frame_bytes_max: FRAME_BYTES_DEFAULT_MAX,
            anchor: AnchorConfig::default(),
        }
    }

    /// Sends and accepts frames of at most this many bytes; it should be the server's `jute.maxbuffer`.
    ///
    /// Less than [`FRAME_BYTES_MIN`] counts as that.
    #[must_use]
    pub fn with_frame_bytes_max(self, frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max: frame_bytes_max.max(FRAME_BYTES_MIN), ..self }
    }

    /// Believes the session under these bounds.
    #[must_use]
    pub const fn with_anchor(self, anchor: AnchorConfig) -> Self {
        Self { anchor, ..self }
    }

    pub(super) fn session_timeout_ms(&self) -> i32 {
        i32::try_from(self.session_timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// How long to send nothing before a ping is due.
    pub(super) fn ping_after(timeout: Duration) -> Duration {
        timeout / PINGS_PER_TIMEOUT
    }

    /// How long the server may leave something unanswered and say nothing before the connection is given up. Most of
    /// the timeout is left to find another server and to prove the session there.
    pub(super) fn silence_max(timeout: Duration) -> Duration {
        timeout / 3
    }

    /// How long nothing goes out at least when this process has stood still: two pings are missing.
    pub(super) fn stall_min(timeout: Duration) -> Duration {
        2 * Self::ping_after(timeout)
    }
}
