//! Round trips by what came of what, and not by the clock: how many answers a client had seen, one after the other.
//!
//! Each burst has a number of round trips. What a client sends has that of the latest answer that had reached it, over
//! any connection; an answer has one more than the latest request that had reached the server over its own. So requests
//! that were sent at once share a round trip, however slow the machine is. The delay has to be long beside what the
//! client needs to send its next request: what it sends late counts as sent after the answers that came meanwhile.

use std::time::Duration;

use super::record::Direction;

/// What came in with one read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Burst {
    /// Which connection it was on, counted from 0.
    pub connection: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Of a request, how many round trips lay before it; of an answer, how many there were with it.
    pub round_trips: u32,
    /// How long it is.
    pub bytes: usize,
    /// When it was written to its receiver, since the first connection was accepted.
    pub delivered: Duration,
}
