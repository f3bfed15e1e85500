//! The client's half of a session, as a machine: commands and bytes in, bytes and events out.

mod anchor;
mod config;
mod deletions;
mod event;
mod in_flight;
mod lifecycle;
mod outbox;
mod receive;
mod session;
mod submit;
mod transmit;

pub use anchor::{Anchor, AnchorConfig, Exchange, ProofKind};
pub use config::{
    AUTHS_MAX, DELETIONS_BYTES_MAX, DELETIONS_MAX, FRAME_BYTES_MIN, IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX,
    QUEUED_AHEAD_MAX, QUEUED_BYTES_MAX, QUEUED_REQUESTS_MAX, SessionConfig, TRANSMIT_BYTES_MAX,
};
pub use event::{
    ConnectionEpoch, DisconnectReason, ProtocolError, Reply, RequestError, RequestId, SessionEvent, SessionLoss,
    SubmitError, WatchNotice, WhyUnanswered, WhyUnsent,
};
pub use session::{ClientSession, SessionCredentials, SessionState};
