//! A service that carries few kinds of lock: the suite chooses its cases by them, and nothing else is ever asked for.

use std::sync::{Arc, Mutex};
use std::thread;

use lockkeeper_conformance::{CASE_TIME_MAX, Case, Client, Fixture, Outcome, cases, run_case};
use lockkeeper_core::{BoxFuture, Capabilities, Modes, Result};

use lockkeeper_conformance::planted::{Bug, BuggyFixture, Layout};

/// The case that every service must pass which does not carry all kinds of lock.
const REFUSED: &str = "a kind of lock that the service does not carry is refused before anything is sent";

/// How many cases run at the same time: most of them wait for most of their time.
const AT_ONCE: usize = 8;

/// How often a case runs at most until it passes: some measure time, on a machine with other work to do. What is asked
/// for counts each time.
const RUNS_MAX: usize = 3;

fn fixture(bug: Bug, layout: &Layout) -> Arc<dyn Fixture> {
    Arc::new(BuggyFixture::new(bug).laid_out(layout.clone()))
}

fn outcome(case: &Case, bug: Bug, layout: &Layout) -> Result<Outcome, String> {
    let start = || -> BoxFuture<Result<Arc<dyn Fixture>>> { Box::pin(std::future::ready(Ok(fixture(bug, layout)))) };
    run_case(case, start, CASE_TIME_MAX)
}

/// Returns what a service with this layout promises.
async fn capabilities(fixture: &dyn Fixture) -> Capabilities {
    let client: Arc<dyn Client> = fixture.client().await.expect("a client is opened");
    *client.backend().capabilities()
}

/// Runs each case on a separate service that carries these modes, and returns what went wrong.
fn failures(running: Vec<(Case, Modes)>) -> Vec<String> {
    let (running, failures) = (Mutex::new(running), Mutex::new(Vec::new()));
    let next = || running.lock().expect("no thread panics here").pop();
    let work = || {
        while let Some((case, modes)) = next() {
            let layout = Layout::of(modes);
            let mut last = Err(String::new());
            for _ in 0..RUNS_MAX {
                last = outcome(&case, Bug::None, &layout);
                if last.is_ok() {
                    break;
                }
            }
            if last != Ok(Outcome::Passed) || layout.strays() > 0 {
                let strays = layout.strays();
                let failure = format!("{:?} where {modes} are carried: {last:?}, {strays} strays", case.name());
                failures.lock().expect("no thread panics here").push(failure);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    failures.into_inner().expect("no thread panics here")
}

#[tokio::test]
async fn a_service_of_mutexes_and_elections_is_asked_for_nothing_else_and_passes_all_cases_about_them() {
    let modes = Modes::MUTEX.with(Modes::ELECTION);
    let service = fixture(Bug::None, &Layout::of(modes));
    let promised = capabilities(&*service).await;
    assert_eq!(promised.modes, modes);
    let (all, mut chosen) = (cases().len(), cases());
    chosen.retain(|case| case.applies_to(&*service, &promised));
    println!("{} of {all} cases are about a service of {modes}", chosen.len());
    assert!(chosen.iter().any(|case| case.name() == REFUSED));
    assert!(chosen.iter().all(|case| modes.has_all(case.used())) && chosen.len() < all);
    let failures = failures(chosen.into_iter().map(|case| (case, modes)).collect());
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A case that says too little would be chosen for a service that cannot pass it.
#[tokio::test]
async fn every_case_passes_where_only_the_kinds_of_lock_are_carried_that_it_says_it_uses() {
    let mut chosen = Vec::new();
    for case in cases() {
        // A service carries some kind of lock, though the case has no need of any.
        let modes = if case.used() == Modes::NONE { Modes::BARRIER } else { case.used() };
        let service = fixture(Bug::None, &Layout::of(modes));
        if case.applies_to(&*service, &capabilities(&*service).await) {
            chosen.push((case, modes));
        }
    }
    println!("{} of {} cases ran", chosen.len(), cases().len());
    let failures = failures(chosen);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_service_that_shows_contenders_where_it_says_that_none_can_stand_is_caught() {
    let case = cases().into_iter().find(|case| case.name().starts_with("a queue that no kind of lock has"));
    let (case, mutexes) = (case.expect("there is such a case"), Layout::of(Modes::MUTEX));
    assert_eq!(outcome(&case, Bug::None, &mutexes), Ok(Outcome::Passed));
    outcome(&case, Bug::MergesParts, &mutexes).expect_err("the mutex is shown among the permits");
}
