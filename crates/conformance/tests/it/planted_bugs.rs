//! Proof that the cases can fail: backends with one planted bug each, and the case that catches it.
//!
//! Each bug is a decorator of the memory backend, which itself passes every case. A bug that no case catches is a gap
//! in the suite.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::planted::{Bug, BuggyFixture};
use lockkeeper_conformance::{CASE_TIME_MAX, Case, Fixture, Outcome, cases, run_case};
use lockkeeper_core::{BoxFuture, Result};

/// How long a case may take with a bug. The cases below end within a fraction of it when nothing is wrong, but for one
/// that looks for as long as a session lives, and a lost wake-up is a failure as soon as it is over.
const BUGGY_TIME_MAX: Duration = Duration::from_secs(6);

/// How often a case runs at most until it catches its bug: some act at random, and on a busy machine all may by chance
/// have gone well.
const RUNS_MAX: usize = 20;

/// The name of the threads in which cases are to fail.
const THREAD: &str = "planted";

/// Each bug, and a case that must catch it.
const CATCHES: &[(Bug, &str)] = &[
    (Bug::SeesOnlyItself, "a counter incremented under the lock loses no increment"),
    (Bug::SeesOnlyItself, "the history of contenders that act at random is right"),
    (Bug::LastComesFirst, "20 contenders are served in the order they joined"),
    (Bug::LastComesFirst, "300 joins that are not awaited stand in the order of the calls"),
    (Bug::TellsOfDeparturesTooSoon, "a counter incremented under the lock loses no increment"),
    (Bug::TellsOfDeparturesTooSoon, "a departure is told to all its waiters and to no others"),
    (Bug::NeverTellsOfDepartures, "a guard that is dropped gives the lock to the next"),
    (Bug::MissesDepartedAhead, "the departure of a contender that is gone is answered at once"),
    (Bug::OmitsUncounted, "a view of a long queue shows a place what it waits for and how many are ahead"),
    (Bug::OmitsAllButOneAhead, "a view of a long queue shows a place what it waits for and how many are ahead"),
    (Bug::OmitsAllButOneAhead, "behind 200 others each join names truly the one ahead"),
    (Bug::OmitsTheNearest, "behind 200 others each join names truly the one ahead"),
    (Bug::CountsTheDeparted, "behind 200 others a departure leaves each waiter truly the next one ahead"),
    (Bug::WakesEverybody, "a release wakes the next waiter and no other"),
    (Bug::ForgetsWithdrawals, "a guard that is dropped gives the lock to the next"),
    (Bug::WithdrawsWhenPolled, "a release that is never polled is done all the same"),
    (Bug::WithdrawsWhenPolled, "lock() dropped at every await point leaves no waiter"),
    (Bug::ForgetsUnansweredJoins, "lock() dropped at every await point leaves a free lock free"),
    (Bug::ForgetsUnansweredJoins, "a join whose reply is lost leaves one contender and no ghost"),
    (Bug::JoinsTwice, "try_lock of a taken lock says no and joins nothing"),
    (Bug::JoinsWhenPolled, "a call takes effect when it is made and not when it is polled"),
    (Bug::JoinsOvertake, "300 joins that are not awaited stand in the order of the calls"),
    (Bug::JoinsComeLate, "a withdrawal after a lost reply is final"),
    (Bug::WithdrawsBehindTheNextJoin, "releases and joins that are not awaited take effect in the order of the calls"),
    (Bug::TokensStandStill, "tokens grow over grants and over keepers"),
    (Bug::TokensStandStill, "the history of contenders that act at random is right"),
    (Bug::TokensOfTheSession, "tokens grow over sessions and over an empty queue"),
    (Bug::HoldsOutliveSessions, "a holder whose session expires has lost the lock for good"),
    (Bug::HoldsOutliveSessions, "closing a keeper ends its holds for good"),
    (Bug::HoldsOutliveRemovals, "a place is lost from the call on that withdraws it"),
    (Bug::HoldsOutliveRemovals, "a holder whose contender is removed has lost the lock"),
    (Bug::HoldsOutliveDeadlines, "a holder that stays cut off says so in time"),
    (Bug::TellsLossesLate, "a holder that stays cut off says so in time"),
    (Bug::TellsNoHolderOfALoss, "run() drops the work when the lock is lost"),
    (
        Bug::TakesAllForMutexes,
        "a lock in use as one kind is refused as every other kind, and is free for all when left",
    ),
    (Bug::FoldsCase, "names that look alike are separate locks and are shown as they were given"),
    (Bug::CutsLongNames, "names that look alike are separate locks and are shown as they were given"),
    (Bug::NamesAllQueues, "queues() names the locks in use in order and no others"),
    (Bug::ShowsOnlyTheHolder, "contenders() shows the holder and the waiters in their order"),
    (Bug::ForgetsCallers, "contenders() shows the process, and tells tasks from one another"),
    (Bug::ForgetsCallers, "contenders() shows until when a waiter with a limit waits"),
    (Bug::ForgetsCallers, "an owner key is one flow of control on all its locks"),
    (Bug::ForgetsCallers, "what is asked for within run() is shown as nested in it"),
    (Bug::ClosesNothing, "closing a keeper ends its holds for good"),
    (Bug::ReleaseAnswersTooSoon, "a release answers only when the service has heard of it"),
    (Bug::WakesLate, "a release wakes the next waiter and no other"),
    (Bug::MergesParts, "the parts of one name are separate queues"),
    (Bug::MergesParts, "as many permits are granted as there are, and the next one waits"),
    (Bug::NeverSeesElsewhere, "a queue shows that its lock is in use as one of another kind, until it is not"),
    (
        Bug::NeverSeesElsewhere,
        "a lock in use as one kind is refused as every other kind, and is free for all when left",
    ),
    (Bug::NeverSeesElsewhere, "a lock whose waiters are of another kind is refused, though none of them holds it"),
    (Bug::NamesTwice, "queues() names locks of every kind once each"),
    (Bug::RanksAtTheTail, "an entry beside another stands right behind it, with its token, before all that came after"),
    (Bug::RanksAtTheTail, "a downgrade lets no writer in, not even one that is queued already"),
    (Bug::RanksAtTheTail, "an owner that writes may read, and its share keeps queued writers out"),
    (Bug::SharesNoToken, "an entry beside another stands right behind it, with its token, before all that came after"),
    (Bug::SharesNoToken, "a share taken by downgrade outlives many others and has the writer's token"),
    (Bug::PersistsNothing, "a persistent entry outlives its session's closing and keeps all others out"),
    (Bug::PersistsNothing, "a persistent entry outlives its session's end"),
    (Bug::HidesFreezes, "a persistent entry says why it stands there, and others say nothing"),
    (Bug::TakesSomeOfMany, "more entries than fit into one request are refused and none is taken in"),
    (Bug::TakesManyInSteps, "no session ever sees a part of the entries that were sent together"),
    (Bug::MissesChanges, "of many changes in a row none is missed"),
    (Bug::TellsOfChangesTooSoon, "a change of another queue ends no wait for a change"),
    (Bug::SetsWithoutComparing, "of clients that expect the same state of a value one writes"),
    (Bug::SetsWithoutComparing, "a counter incremented by comparing and setting loses no increment"),
    (Bug::VersionsStartAnew, "a value that was changed, or removed and made anew, is in another state"),
    (Bug::MissesWrites, "a value that is in another state already is shown at once"),
    (Bug::MissesWrites, "of many writes in a row the last is always seen"),
    (Bug::ValuesOfTheName, "the values of a lock's parts are separate, and no contenders"),
    (Bug::BreaksAnyToken, "breaking with another token changes nothing"),
    (Bug::BreaksNothing, "a contender is broken by its token, says so, and the next is granted the lock"),
    (Bug::BreaksAsRemoval, "a contender is broken by its token, says so, and the next is granted the lock"),
    (Bug::NeverYields, "a holder that is asked to give up is told why and in which time"),
    (Bug::ForgetsEarlierRequests, "an earlier request to give up is told to a holder that asks later, each time"),
    (Bug::ExaminationsJoin, "an examination of a service in order finds no error and leaves nothing"),
    (Bug::ExaminationsJoin, "an examination beside a holder and a waiter harms neither"),
    (Bug::ExaminationsEndSessions, "an examination beside a holder and a waiter harms neither"),
    (Bug::WarnsForNothing, "a keeper is told once what matters most of what an examination finds"),
    (Bug::TakesTheLivingForDead, "what lives, is frozen or has a value is no remnant, and outlives the removal of all"),
    (Bug::TakesTheLivingForDead, "remnants are removed while clients come and go, and none of these loses its lock"),
    (Bug::ReadersLookLikeWriters, "readers share the lock and a writer has it alone"),
    (Bug::ReadersLookLikeWriters, "contenders() tells 20 readers from 8 writers"),
    (Bug::WritersLookLikeReaders, "the history of readers and writers that act at random is right"),
    (Bug::WritersLookLikeReaders, "a reader behind a waiting writer waits, though others read"),
    (Bug::SeesOnlyItself, "the history of readers and writers that act at random is right"),
    (Bug::LastComesFirst, "readers and writers are served in the order they joined"),
    (Bug::WakesEverybody, "8 writers and the 16 readers behind them are each woken once"),
    (Bug::WakesEverybody, "32 tasks on one mutex of one keeper cost one join and one wake-up each"),
    (Bug::WakesEverybody, "a permit given back wakes the first waiter, and its place the next, and no other waiter"),
    (Bug::HidesAPermit, "10 clients share 5 permits: all 5 are in use at once, and never more"),
    (Bug::HidesAPermit, "the history of contenders for permits that act at random is right"),
    (Bug::HasNoPlaceForPermits, "a contender of each mode that the service carries is taken in and shown"),
    (Bug::ForgetsUnansweredJoins, "permits whose reply is lost are not orphaned"),
    (Bug::ForgetsUnansweredJoins, "acquire_many() dropped at every await point leaves free permits free"),
    (Bug::ForgetsWithdrawals, "a multi-lock dropped at every await point leaves nothing"),
    (Bug::HoldsOutliveSessions, "guards of every kind used after their session's end say that they are lost"),
];

fn case(name: &str) -> Case {
    let found = cases().into_iter().find(|case| case.name() == name);
    found.unwrap_or_else(|| panic!("there is no case {name:?}"))
}

fn outcome(bug: Bug, name: &str) -> Result<Outcome, String> {
    let fixture = move || -> BoxFuture<Result<Arc<dyn Fixture>>> {
        let fixture: Arc<dyn Fixture> = Arc::new(BuggyFixture::new(bug));
        Box::pin(std::future::ready(Ok(fixture)))
    };
    let time_max = if bug == Bug::None { CASE_TIME_MAX } else { BUGGY_TIME_MAX };
    run_case(&case(name), fixture, time_max)
}

#[test]
fn every_planted_bug_is_caught_by_its_cases() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // These are meant to panic.
        if !matches!(std::thread::current().name(), Some(THREAD | "tokio-rt-worker")) {
            default_hook(panic);
        }
    }));
    let start = |&(bug, name): &(Bug, &'static str)| {
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let caught = move || (0..RUNS_MAX).find_map(|_| outcome(bug, name).err());
        (bug, name, thread.spawn(caught).expect("a thread is started"))
    };
    let running: Vec<_> = CATCHES.iter().map(start).collect();
    let mut missed = Vec::new();
    for (bug, name, thread) in running {
        match thread.join().expect("a case's panic is caught") {
            Some(why) => println!("caught {bug:?} by {name:?}: {}", why.lines().next().unwrap_or_default()),
            None => missed.push((bug, name)),
        }
    }
    println!("caught {} of {}", CATCHES.len() - missed.len(), CATCHES.len());
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

#[test]
fn each_bug_has_a_case_that_must_catch_it() {
    let missing: Vec<_> = Bug::ALL.into_iter().filter(|bug| !CATCHES.iter().any(|(caught, _)| caught == bug)).collect();
    assert_eq!(missing, []);
}

#[test]
fn the_same_cases_pass_without_a_bug() {
    for &(_, name) in CATCHES {
        assert_eq!(outcome(Bug::None, name), Ok(Outcome::Passed), "{name}");
    }
}
