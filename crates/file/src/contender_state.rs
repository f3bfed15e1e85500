//! The states in which a contender is found, be it a pipe or a file; how they are told is left to each of the two.

/// The state in which a contender is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ContenderState {
    /// Some process holds its write end.
    Alive,
    /// It left the queue.
    Left,
    /// It was broken; its name has to go before a waiter goes on.
    Broken,
    /// No process holds its write end any more.
    Dead,
}
