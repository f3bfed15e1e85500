//! Backends with one planted bug each.

mod backend;
mod fixture;
mod requests;
mod standing;
mod together;
mod values;

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
    // The parts of a lock, shared places and those that outlive their session.
    MergesParts,
    NeverSeesElsewhere,
    NamesTwice,
    RanksAtTheTail,
    SharesNoToken,
    PersistsNothing,
    HidesFreezes,
    // Several entries at once, and changes.
    TakesSomeOfMany,
    TakesManyInSteps,
    MissesChanges,
    TellsOfChangesTooSoon,
    // Values.
    SetsWithoutComparing,
    VersionsStartAnew,
    MissesWrites,
    ValuesOfTheName,
    // Requests.
    BreaksAnyToken,
    BreaksNothing,
    BreaksAsRemoval,
    YieldsToNobody,
    ForgetsEarlierRequests,
    // Modes.
    ReadersLookLikeWriters,
    WritersLookLikeReaders,
    HidesAPermit,
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
        Self::MergesParts,
        Self::NeverSeesElsewhere,
        Self::NamesTwice,
        Self::RanksAtTheTail,
        Self::SharesNoToken,
        Self::PersistsNothing,
        Self::HidesFreezes,
        Self::TakesSomeOfMany,
        Self::TakesManyInSteps,
        Self::MissesChanges,
        Self::TellsOfChangesTooSoon,
        Self::SetsWithoutComparing,
        Self::VersionsStartAnew,
        Self::MissesWrites,
        Self::ValuesOfTheName,
        Self::BreaksAnyToken,
        Self::BreaksNothing,
        Self::BreaksAsRemoval,
        Self::YieldsToNobody,
        Self::ForgetsEarlierRequests,
        Self::ReadersLookLikeWriters,
        Self::WritersLookLikeReaders,
        Self::HidesAPermit,
    ];
}
