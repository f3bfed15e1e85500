//! Backends with one planted bug each.

mod backend;
mod fixture;
mod standing;

pub(crate) use fixture::BuggyFixture;

/// What is wrong with a backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bug {
    None,
    SeesOnlyItself,
    LastComesFirst,
    TellsOfDeparturesTooSoon,
    NeverTellsOfDepartures,
    MissesDepartedAhead,
    WakesEverybody,
    WakesLate,
    ForgetsWithdrawals,
    WithdrawsWhenPolled,
    ForgetsUnansweredJoins,
    JoinsTwice,
    JoinsWhenPolled,
    TokensStandStill,
    TokensOfTheSession,
    HoldsOutliveSessions,
    HoldsOutliveRemovals,
    TellsNobodyOfALoss,
    TakesAllForMutexes,
    FoldsCase,
    CutsLongNames,
    NamesAllQueues,
    ShowsOnlyTheHolder,
    ClosesNothing,
    ReleaseAnswersTooSoon,
}

impl Bug {
    pub(crate) const ALL: &[Self] = &[
        Self::SeesOnlyItself,
        Self::LastComesFirst,
        Self::TellsOfDeparturesTooSoon,
        Self::NeverTellsOfDepartures,
        Self::MissesDepartedAhead,
        Self::WakesEverybody,
        Self::WakesLate,
        Self::ForgetsWithdrawals,
        Self::WithdrawsWhenPolled,
        Self::ForgetsUnansweredJoins,
        Self::JoinsTwice,
        Self::JoinsWhenPolled,
        Self::TokensStandStill,
        Self::TokensOfTheSession,
        Self::HoldsOutliveSessions,
        Self::HoldsOutliveRemovals,
        Self::TellsNobodyOfALoss,
        Self::TakesAllForMutexes,
        Self::FoldsCase,
        Self::CutsLongNames,
        Self::NamesAllQueues,
        Self::ShowsOnlyTheHolder,
        Self::ClosesNothing,
        Self::ReleaseAnswersTooSoon,
    ];
}
