//! The faults that befall the holder of a lock, or the service that keeps it.

use std::fmt;

use clap::ValueEnum;

/// What is done to a holder, or to the service.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Fault {
    /// The holder is killed.
    Killed,
    /// The holder is stopped until another has had the lock for a while, and goes on.
    Stopped,
    /// What the holder sends is lost; what the service sends arrives.
    CutOff,
    /// The service's leader is killed, and another takes its place.
    Replaced,
    /// The service loses its data.
    Emptied,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "holder killed",
            Self::Stopped => "holder stopped",
            Self::CutOff => "holder cut off",
            Self::Replaced => "leader replaced",
            Self::Emptied => "data lost",
        })
    }
}
