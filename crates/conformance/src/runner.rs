//! Runs cases: each on a fresh fixture, in its own runtime and under a deadline. Then looks at what the case left
//! behind.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::{BoxFuture, Error, Result};
use lockkeeper_recipes::Handoff;
use parking_lot::RwLock;

use crate::case::{Case, Runtime};
use crate::cases::cases;
use crate::fixture::{Client, FaultKind, Fixture, Sessions};

/// How long a case may run, so that one that never ends is a failure and not a hang: several times as long as it waits
/// for each thing that must come [`soon`](crate::soon).
pub const CASE_TIME_MAX: Duration = Duration::from_secs(600);

/// How long a service may take after a case to finish its work in the background: longer than sessions that were left
/// to their timeouts live.
const QUIET_TIME_MAX: Duration = Duration::from_secs(120);

/// How often the service is looked at in that time.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How long a runtime may take to end if a case blocks one of its threads.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_millis(200);

/// Shared by the cases that run together, and had alone by one that runs alone.
static TURN: RwLock<()> = RwLock::new(());

/// The policies of hand-off, the usual one first. Idle places are kept for a short time, since many cases wait until
/// nothing is left.
pub const HANDOFFS: [Handoff; 3] =
    [Handoff::Strict, Handoff::local(), Handoff::Sticky { idle_max: Duration::from_millis(50) }];

/// Starts a fresh service for a case.
type Start = fn() -> BoxFuture<Result<Arc<dyn Fixture>>>;

/// Runs the whole suite as the `main` of a test binary without a harness.
///
/// `start` starts a fresh service for each case. A case that needs harm which the fixture cannot do is shown as
/// ignored, with the reason. Cases about what the service does not promise, about kinds of lock that it does not carry,
/// or about harm that cannot happen to it, all by its capabilities, are left out and counted on standard error.
pub fn run(arguments: &Arguments, start: Start) -> ExitCode {
    run_under(arguments, start, &[Handoff::Strict])
}

/// As [`run`], once under each of these policies. Under another one than [`Handoff::Strict`], the cases of mutexes and
/// read/write locks are run that do not count the contenders of one keeper.
pub fn run_under(arguments: &Arguments, start: Start, handoffs: &[Handoff]) -> ExitCode {
    let mut trials = Vec::new();
    for &handoff in handoffs {
        let (all, applying) = match applying(start, handoff) {
            Ok(cases) => cases,
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::FAILURE;
            }
        };
        if all > applying.len() {
            let left_out = all - applying.len();
            eprintln!(
                "{left_out} cases are about what this service{} does not promise or carry, or what cannot happen to it",
                name_of(handoff)
            );
        }
        trials.extend(applying.into_iter().map(|case| trial(case, start, handoff)));
    }
    libtest_mimic::run(arguments, trials).exit_code()
}

fn name_of(handoff: Handoff) -> &'static str {
    match handoff {
        Handoff::Strict => "",
        Handoff::Local { .. } => ", with local hand-off,",
        _ => ", with sticky hand-off,",
    }
}

/// Returns how many cases there are, and those that apply to this service.
fn applying(start: Start, handoff: Handoff) -> Result<(usize, Vec<Case>), String> {
    let runtime = build(Runtime::CurrentThread).map_err(|error| format!("no runtime: {error}"))?;
    let (fixture, client) = runtime
        .block_on(async {
            let fixture = start_under(start, handoff).await?;
            let client = fixture.client().await?;
            Ok::<_, Error>((fixture, client))
        })
        .map_err(|error| format!("no fixture: {error}"))?;
    let capabilities = *client.backend().capabilities();
    let mut cases = cases();
    let all = cases.len();
    cases.retain(|case| case.applies_to(&*fixture, &capabilities));
    Ok((all, cases))
}

/// Starts a service whose parties hand their locks off in this way.
fn start_under(start: Start, handoff: Handoff) -> BoxFuture<Result<Arc<dyn Fixture>>> {
    Box::pin(async move {
        let fixture = start().await?;
        Ok(if handoff == fixture.handoff() { fixture } else { Arc::new(Under { fixture, handoff }) })
    })
}

fn trial(case: Case, start: Start, handoff: Handoff) -> Trial {
    let name = format!("{}{}", case.name(), name_of(handoff).trim_end_matches(','));
    Trial::ignorable_test(name, move || {
        let alone = case.runs_alone().then(|| TURN.write());
        let together = alone.is_none().then(|| TURN.read());
        let outcome = run_case(&case, || start_under(start, handoff), CASE_TIME_MAX);
        drop((alone, together));
        match outcome.map_err(Failed::from)? {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
        }
    })
}

/// The outcome of a case that did not fail.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a case that did not fail holds, or could not run")]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It could not run, for this reason.
    Skipped(String),
}

/// Runs one case on a fresh fixture, for at most `time_max`.
///
/// # Errors
///
/// The message of the case's panic; or that it did not end in time; or what it left in the service.
pub fn run_case(
    case: &Case,
    fixture: impl FnOnce() -> BoxFuture<Result<Arc<dyn Fixture>>>,
    time_max: Duration,
) -> Result<Outcome, String> {
    let runtime = build(case.runs_in()).map_err(|error| format!("no runtime: {error}"))?;
    // The fixture ends after all that the case has left running in it: another case may get its service.
    let mut started = None;
    let guarded = AssertUnwindSafe(|| {
        runtime.block_on(async {
            let fixture = fixture().await.map_err(|error| format!("no fixture: {error}"))?;
            started = Some(fixture.clone());
            fixture.prepare(case.sessions());
            if let Some(reason) = case.reason_to_skip(&*fixture) {
                return Ok(Outcome::Skipped(reason));
            }
            let running = tokio::time::timeout(time_max, case.start(fixture.clone()));
            if running.await.is_err() {
                return Err(format!("did not end within {time_max:?}"));
            }
            until_quiet(&*fixture, QUIET_TIME_MAX.min(time_max)).await
        })
    });
    let outcome = catch_unwind(guarded).unwrap_or_else(|panic| Err(message_of(&*panic)));
    runtime.shutdown_timeout(SHUTDOWN_TIME_MAX);
    drop(started);
    outcome
}

fn build(kind: Runtime) -> std::io::Result<tokio::runtime::Runtime> {
    match kind {
        Runtime::TwoWorkers => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        Runtime::CurrentThread => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    }
}

/// Waits until the service stores nothing more for any queue.
async fn until_quiet(fixture: &dyn Fixture, time_max: Duration) -> Result<Outcome, String> {
    let clock = fixture.clock();
    let deadline = clock.now().saturating_add(time_max);
    loop {
        let is_over = clock.now() >= deadline;
        match fixture.leftovers().await {
            Ok(leftovers) if leftovers.is_empty() => return Ok(Outcome::Passed),
            Ok(leftovers) if is_over => {
                return Err(format!("left behind {time_max:?} after its end: {}", leftovers.join(", ")));
            }
            // A busy machine keeps a look waiting, too.
            Err(error) if is_over || !error.is_transient() => {
                return Err(format!("could not look for leftovers: {error}"));
            }
            Ok(_) | Err(_) => {}
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("panicked").to_owned()
}

/// Another fixture, with this policy.
#[derive(Debug)]
struct Under {
    fixture: Arc<dyn Fixture>,
    handoff: Handoff,
}

impl Fixture for Under {
    fn prepare(&self, sessions: Sessions) {
        self.fixture.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn Client>>> {
        self.fixture.client()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.fixture.clock()
    }

    fn handoff(&self) -> Handoff {
        self.handoff
    }

    fn can_inflict(&self, kind: FaultKind) -> bool {
        self.fixture.can_inflict(kind)
    }

    fn session_timeout(&self) -> Option<Duration> {
        self.fixture.session_timeout()
    }

    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        self.fixture.leftovers()
    }
}
