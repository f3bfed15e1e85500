//! The faults that are planted in a backend.

/// What is wrong with a backend. It is told by patterns alone, so that the compiler warns of a bug that no row of the
/// list of catches has: it is never made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bug {
    None,
    SeesOnlyItself,
    LastComesFirst,
    TellsOfDeparturesTooSoon,
    NeverTellsOfDepartures,
    MissesDepartedAhead,
    OmitsUncounted,
    OmitsAllButOneAhead,
    OmitsTheNearest,
    CountsTheDeparted,
    WakesEverybody,
    WakesLate,
    ForgetsWithdrawals,
    WithdrawsWhenPolled,
    ForgetsUnansweredJoins,
    JoinsTwice,
    JoinsWhenPolled,
    JoinsOvertake,
    JoinsComeLate,
    WithdrawsBehindTheNextJoin,
    TokensStandStill,
    TokensOfTheSession,
    HoldsOutliveSessions,
    HoldsOutliveRemovals,
    TellsNoHolderOfALoss,
    TakesAllForMutexes,
    FoldsCase,
    CutsLongNames,
    NamesAllQueues,
    ShowsOnlyTheHolder,
    ForgetsCallers,
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
    NeverYields,
    ForgetsEarlierRequests,
    // Examinations.
    ExaminationsJoin,
    ExaminationsEndSessions,
    WarnsForNothing,
    // Remnants.
    TakesTheLivingForDead,
    // Modes.
    ReadersLookLikeWriters,
    WritersLookLikeReaders,
    HidesAPermit,
    /// It says that it carries them.
    HasNoPlaceForPermits,
}
