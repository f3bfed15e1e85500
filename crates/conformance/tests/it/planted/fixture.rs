//! Backends with one planted bug each, or with a layout that carries few modes: the memory fixture, with every client's
//! backend behind a decorator that has the bug.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_conformance::{Client, Fault, FaultKind, Fixture, MemoryFixture, Sessions};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Backend, BoxFuture, Entry, Error, ErrorKind, Modes, Operation, Result};

use super::backend::BuggyBackend;

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

#[derive(Debug)]
pub(crate) struct BuggyFixture {
    memory: MemoryFixture,
    bug: Bug,
    layout: Layout,
    departures: Arc<tokio::sync::watch::Sender<u64>>,
}

impl BuggyFixture {
    pub(crate) fn new(bug: Bug) -> Self {
        let layout = match bug {
            Bug::HasNoPlaceForPermits => {
                let others = Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::ELECTION).with(Modes::BARRIER);
                Layout::of_no_more_than(others)
            }
            _ => Layout::of(Modes::ALL),
        };
        Self { memory: MemoryFixture::start(), bug, layout, departures: Arc::default() }
    }

    /// Gives the service this layout.
    pub(crate) fn laid_out(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }
}

impl Fixture for BuggyFixture {
    fn prepare(&self, sessions: Sessions) {
        self.memory.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        let (opening, bug) = (self.memory.client(), self.bug);
        let (layout, departures) = (self.layout.clone(), self.departures.clone());
        Box::pin(async move {
            let inner = opening.await?;
            let capabilities = inner.backend().capabilities().carrying(layout.said());
            let backend = Arc::new(BuggyBackend {
                inner: inner.backend(),
                bug,
                capabilities,
                layout,
                departures,
                sessions: Arc::new(AtomicU64::new(0)),
                open: Arc::default(),
            });
            let client: Arc<dyn Client> = Arc::new(BuggyClient { inner, backend });
            Ok(client)
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.memory.clock()
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        self.memory.can_inflict(kind)
    }

    fn session_timeout(&self) -> Option<Duration> {
        self.memory.session_timeout()
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        self.memory.leftovers()
    }
}

#[derive(Debug)]
struct BuggyClient {
    inner: Arc<dyn Client>,
    backend: Arc<dyn Backend>,
}

impl Client for BuggyClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        self.inner.inflict(fault)
    }
}

/// What a backend says that it carries, what it carries, and how often it was asked for anything else.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    said: Modes,
    carried: Modes,
    strays: Arc<AtomicU64>,
}

impl Layout {
    /// Carries these modes and says so.
    pub(crate) fn of(modes: Modes) -> Self {
        Self { said: modes, carried: modes, strays: Arc::default() }
    }

    /// Says that it carries every mode, and carries only these.
    fn of_no_more_than(modes: Modes) -> Self {
        Self { said: Modes::ALL, ..Self::of(modes) }
    }

    pub(super) const fn said(&self) -> Modes {
        self.said
    }

    /// Returns how many entries of other modes were sent.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::SeqCst)
    }

    /// Refuses entries for which there is no place, and counts them.
    pub(super) fn check(&self, entries: &[Entry]) -> Result<(), Error> {
        let Some(stray) = entries.iter().find(|entry| !self.carried.has(entry.mode)) else {
            return Ok(());
        };
        self.strays.fetch_add(1, Ordering::SeqCst);
        let message = format!("there is no place for a contender of mode {}", stray.mode);
        Err(Error::permanent(ErrorKind::Unsupported, Operation::Join, message))
    }
}
