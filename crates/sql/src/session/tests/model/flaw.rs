//! Rules that are wrong on purpose: what the model must find.

/// A wrong rule of sessions, or of the functions in the database.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Flaw {
    /// A beat is taken for seen from the moment when it was asked for.
    ObservesFromAsking,
    /// Belief lasts for the whole timeout, and doubt no longer.
    LeavesMarginsOut,
    /// Belief lasts for the whole timeout from the moment when the answer came.
    BelievesFromAnswers,
    /// A session is removed after half of its timeout.
    DoubtsEarly,
    /// The answer to a look proves the session too.
    LooksProve,
    /// A state of the data is settled at once.
    SettlesAtOnce,
    /// The wait for a state is that for the client's own timeout.
    WaitsOwnTimeout,
    /// The wait for one state goes on for another one.
    CountsForAnotherState,
    /// A client does not set the longest timeout again that older data do not know.
    ForgetsLongest,
    /// A state is settled whichever is named.
    SettlesAnyState,
    /// None says that the data lack what it had.
    NeverDoubts,
    /// That a contender is absent is told and believed in a state that is not settled.
    AbsenceProves,
    /// Locks are granted in a state that is not settled, over a connection that has outlived the change.
    ServesUnsettled,
    /// A connection is used on though a beat names another state of the data.
    StaysInAnotherState,
    /// A session is removed whatever its beat is now.
    ReapsAnyBeat,
    /// A holder goes on whose place the data lack.
    HoldsWhatIsMissing,
    /// A join takes effect that was sent over an older connection.
    JoinsOfOldEpochs,
    /// Tokens go on from what the tables have after a loss.
    LeavesFloor,
    /// A start behind a crash is taken for one behind a clean end.
    TakesCrashForCleanEnd,
    /// What was seen over another connection counts, and sessions are removed in a state that is not settled. Each of
    /// the two rules alone is enough.
    ReapsUnsettledByOldSights,
}

impl Flaw {
    pub(super) const ALL: [Self; 20] = [
        Self::ObservesFromAsking,
        Self::LeavesMarginsOut,
        Self::BelievesFromAnswers,
        Self::DoubtsEarly,
        Self::LooksProve,
        Self::SettlesAtOnce,
        Self::WaitsOwnTimeout,
        Self::CountsForAnotherState,
        Self::ForgetsLongest,
        Self::SettlesAnyState,
        Self::NeverDoubts,
        Self::AbsenceProves,
        Self::ServesUnsettled,
        Self::StaysInAnotherState,
        Self::ReapsAnyBeat,
        Self::HoldsWhatIsMissing,
        Self::JoinsOfOldEpochs,
        Self::LeavesFloor,
        Self::TakesCrashForCleanEnd,
        Self::ReapsUnsettledByOldSights,
    ];
}
