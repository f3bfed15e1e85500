//! The threads of a program that plays the other process.

/// What a program runs on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Threads {
    One,
    Several,
    Blocking,
}

impl Threads {
    pub(crate) const ALL: [Self; 3] = [Self::One, Self::Several, Self::Blocking];
}
