//! A promise that a program cannot do without, compared with those of a service. What is done where a service promises
//! less stands above.

use std::fmt;

use crate::capabilities::{Capabilities, Exclusion, Fencing, StoppedHolder};

/// A promise that a program requires of its service.
///
/// ```
/// use lockkeeper::{Exclusion, Fencing, Keeper, Requirement, StoppedHolder};
///
/// let keeper = Keeper::memory();
/// let promised = keeper.capabilities();
/// assert!(Requirement::from(StoppedHolder::Keeps).is_met_by(promised));
/// assert!(!Requirement::from(Exclusion::Timed).is_met_by(promised), "it reaches no further than this process");
/// assert!(!Requirement::from(Fencing::Service).is_met_by(promised), "its tokens end with this process");
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Requirement {
    /// Contenders exclude one another at least as far as this: not by best effort, in one process, on one machine, on
    /// all machines. One that reaches further meets it, also where it does so within time bounds alone: a hold without
    /// them is [`StoppedHolder::Keeps`].
    Exclusion(Exclusion),
    /// Tokens grow at least as long as this.
    Fencing(Fencing),
    /// A stopped holder fares so.
    StoppedHolder(StoppedHolder),
}

impl Requirement {
    /// Tells whether these promises are as much as is required.
    pub fn is_met_by(self, promised: &Capabilities) -> bool {
        match self {
            Self::Exclusion(required) => reach(promised.exclusion) >= reach(required),
            Self::Fencing(required) => span(promised.fencing) >= span(required),
            Self::StoppedHolder(required) => promised.stopped_holder == required,
        }
    }

    /// Returns what is promised of the same matter.
    #[must_use]
    pub const fn promised_by(self, promised: &Capabilities) -> Self {
        match self {
            Self::Exclusion(_) => Self::Exclusion(promised.exclusion),
            Self::Fencing(_) => Self::Fencing(promised.fencing),
            Self::StoppedHolder(_) => Self::StoppedHolder(promised.stopped_holder),
        }
    }
}

/// How far an exclusion reaches, as a number to compare with others.
const fn reach(exclusion: Exclusion) -> u8 {
    match exclusion {
        Exclusion::BestEffort => 0,
        Exclusion::Process => 1,
        Exclusion::Machine => 2,
        Exclusion::Timed => 3,
    }
}

/// How long tokens grow, as a number to compare with others.
const fn span(fencing: Fencing) -> u8 {
    match fencing {
        Fencing::Process => 0,
        Fencing::Service => 1,
        Fencing::Clock => 2,
    }
}

impl From<Exclusion> for Requirement {
    fn from(exclusion: Exclusion) -> Self {
        Self::Exclusion(exclusion)
    }
}

impl From<Fencing> for Requirement {
    fn from(fencing: Fencing) -> Self {
        Self::Fencing(fencing)
    }
}

impl From<StoppedHolder> for Requirement {
    fn from(stopped_holder: StoppedHolder) -> Self {
        Self::StoppedHolder(stopped_holder)
    }
}

/// `exclusion: on all machines, within stated time bounds`, as `lockkeeper capabilities` names it.
impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusion(exclusion) => write!(formatter, "exclusion: {exclusion}"),
            Self::Fencing(fencing) => fencing.fmt(formatter),
            Self::StoppedHolder(stopped_holder) => stopped_holder.fmt(formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::Removal;

    #[test]
    fn a_promise_meets_what_requires_as_much_or_less() {
        let of = |exclusion, fencing| Capabilities::new("x", exclusion, fencing, StoppedHolder::Expires, Removal::Told);
        let reaches = [Exclusion::BestEffort, Exclusion::Process, Exclusion::Machine, Exclusion::Timed];
        let spans = [Fencing::Process, Fencing::Service, Fencing::Clock];
        for (has, promised) in reaches.into_iter().enumerate() {
            let promised = of(promised, Fencing::Process);
            let met = reaches.map(|required| Requirement::from(required).is_met_by(&promised));
            assert_eq!(met, [0, 1, 2, 3].map(|needs| has >= needs), "{promised:?}");
        }
        for (has, promised) in spans.into_iter().enumerate() {
            let promised = of(Exclusion::Timed, promised);
            let met = spans.map(|required| Requirement::from(required).is_met_by(&promised));
            assert_eq!(met, [0, 1, 2].map(|needs| has >= needs), "{promised:?}");
        }
        let promised = of(Exclusion::Timed, Fencing::Clock);
        let fares = [StoppedHolder::Keeps, StoppedHolder::Expires];
        assert_eq!(fares.map(|fare| Requirement::from(fare).is_met_by(&promised)), [false, true]);
    }
}
