//! A future dropped at every await point, counted and not guessed.

use lockkeeper_core::{Modes, Result, Wait};
use lockkeeper_recipes::MultiLock;
use tokio::task::yield_now;

use crate::asking::{Ask, LOCK};
use crate::case::{Case, Runtime, using};
use crate::dropped::{AWAIT_POINTS_MAX, Before, drop_at_every_await_point};
use crate::fixture::Fixture;
use crate::party::{LONG, Party, give_back, granted, parties, release};
use crate::polls::at_most;
use crate::tap::Pace;
use crate::waiting::soon;

/// What is asked for, and how long it is waited for: where it has to be, it is granted or dropped long before.
type Attempt = (Ask, Wait);

const MUTEX: Attempt = (Ask::Mutex, Wait::Forever);
const TRY_MUTEX: Attempt = (Ask::Mutex, Wait::No);
const MUTEX_IN_TIME: Attempt = (Ask::Mutex, Wait::AtMost(LONG));
const READ: Attempt = (Ask::Read, Wait::Forever);
const TRY_WRITE: Attempt = (Ask::Write, Wait::No);
const PERMITS: Attempt = (Ask::Permits(2, 2), Wait::Forever);
const TRY_PERMITS: Attempt = (Ask::Permits(2, 2), Wait::No);
const PERMITS_IN_TIME: Attempt = (Ask::Permits(2, 2), Wait::AtMost(LONG));
const LEAD: Attempt = (Ask::Lead, Wait::Forever);

const FREE: Before = Before::Free;
const QUEUED: Before = Before::ReleasedOnceQueued;
const SECOND: Before = Before::SecondInLine;

pub(super) fn cases() -> Vec<Case> {
    let one_thread = |case: Case| case.runtime(Runtime::CurrentThread);
    let mutexes = vec![
        // Opening a session, joining; and asking for the departure, and waiting for it.
        dropped("lock() dropped at every await point leaves a free lock free", MUTEX, FREE, 2),
        dropped("lock() dropped at every await point leaves no waiter", MUTEX, QUEUED, 4),
        // And looking again, and two for the second departure.
        dropped("lock() dropped at every await point of a second in line leaves no waiter", MUTEX, SECOND, 7).strict(),
        // Opening a session, looking, joining.
        dropped("try_lock() dropped at every await point leaves a free lock free", TRY_MUTEX, FREE, 3),
        dropped("try_lock() dropped at every await point leaves no waiter", TRY_MUTEX, Before::Taken, 2),
        dropped("lock_timeout() dropped at every await point leaves a free lock free", MUTEX_IN_TIME, FREE, 2),
        dropped("lock_timeout() dropped at every await point leaves no waiter", MUTEX_IN_TIME, QUEUED, 4),
        one_thread(Case::new("run() dropped at every await point leaves a free lock free", run_free).given_back()),
        one_thread(Case::new("run() dropped at every await point leaves no waiter", run_taken)),
        one_thread(
            Case::new("release() dropped at every await point releases all the same", release_dropped).given_back(),
        ),
        one_thread(Case::new("a multi-lock dropped at every await point leaves nothing", several_dropped)),
        Case::new("a runtime that ends under a waiter leaves no waiter", runtime_ends).outlives_sessions(),
    ];
    let books = vec![
        dropped("read() dropped at every await point leaves a free lock free", READ, FREE, 2),
        dropped("try_write() dropped at every await point leaves a free lock free", TRY_WRITE, FREE, 3),
        one_thread(Case::new("downgrade() dropped at every await point leaves nothing", downgrade_dropped)),
    ];
    let semaphores = vec![
        // Opening a session, the place among the waiters, the look at permits and number, the number, the permits; and
        // waiting for a change, and looking again.
        dropped("acquire_many() dropped at every await point leaves free permits free", PERMITS, FREE, 5),
        dropped("acquire_many() dropped at every await point leaves no waiter and no permit", PERMITS, QUEUED, 6),
        dropped("try_acquire() dropped at every await point leaves free permits free", TRY_PERMITS, FREE, 5),
        dropped("acquire_timeout() dropped at every await point leaves no waiter", PERMITS_IN_TIME, QUEUED, 6),
    ];
    let elections = vec![dropped("campaign() dropped at every await point leaves no candidate", LEAD, QUEUED, 4)];
    [
        using(Modes::MUTEX, mutexes),
        using(Modes::READ_WRITE, books),
        using(Modes::SEMAPHORE, semaphores),
        using(Modes::ELECTION, elections),
    ]
    .concat()
}

/// A case of an attempt that is dropped at each await point, of which there are so many at least.
fn dropped(name: &'static str, (ask, wait): Attempt, before: Before, least: usize) -> Case {
    // Of two permits one is held before an attempt at both.
    let hold = if matches!(ask, Ask::Permits(..)) { Ask::Permits(1, 2) } else { ask };
    let drops = async move |fixture: &dyn Fixture| {
        let attempt = async |party: Party| ask.within(&party.keeper, wait).await;
        drop_at_every_await_point(fixture, before, hold, least, attempt).await;
    };
    Case::new(name, drops).runtime(Runtime::CurrentThread)
}

async fn work_under(party: Party) -> Result<()> {
    let work = async {
        yield_now().await;
        yield_now().await;
    };
    party.mutex(LOCK).run(|_| work).await
}

async fn run_free(fixture: &dyn Fixture) {
    // Opening a session, joining, two in the work, the release.
    drop_at_every_await_point(fixture, FREE, Ask::Mutex, 5, work_under).await;
}

async fn run_taken(fixture: &dyn Fixture) {
    drop_at_every_await_point(fixture, QUEUED, Ask::Mutex, 7, work_under).await;
}

async fn several_dropped(fixture: &dyn Fixture) {
    let lock = async |party: Party, names: [&str; 2]| {
        MultiLock::new(names.map(|name| party.mutex(name))).expect("the locks differ").lock().await
    };
    // Opening a session, joining the first, joining the second; and asking for the departure, and waiting for it.
    drop_at_every_await_point(fixture, FREE, Ask::Mutex, 3, async |party| lock(party, ["attic", LOCK]).await).await;
    drop_at_every_await_point(fixture, QUEUED, Ask::Mutex, 5, async |party| lock(party, [LOCK, "window"]).await).await;
    let prober = Party::enter(fixture).await;
    for name in ["attic", "window"] {
        prober.until_contenders(name, 0).await;
    }
}

async fn downgrade_dropped(fixture: &dyn Fixture) {
    // Opening a session, joining, the share.
    drop_at_every_await_point(fixture, FREE, Ask::Write, 3, async |party: Party| {
        party.rw_lock(LOCK).write().await?.downgrade().await
    })
    .await;
}

async fn release_dropped(fixture: &dyn Fixture) {
    let prober = Party::enter(fixture).await;
    for polls_max in 0..AWAIT_POINTS_MAX {
        let party = Party::enter_at(fixture, Pace::YieldOnce).await;
        let guard = party.lock(LOCK).await;
        let waiting = prober.queue_up(LOCK).await;
        let outcome = at_most(polls_max, guard.release()).await;
        release(granted(waiting).await).await;
        prober.until_contenders(LOCK, 0).await;
        if let Some(outcome) = outcome {
            outcome.expect("the lock was held");
            let await_points = polls_max - 1;
            eprintln!("release(): {await_points} await points");
            assert!(await_points >= 1, "no await point was seen");
            return;
        }
    }
    panic!("it did not complete after {AWAIT_POINTS_MAX} polls");
}

/// The runtime of another thread is dropped with the waiting future still in it.
async fn runtime_ends(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    let (ended, end) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime is built");
        runtime.block_on(async { drop(bob.queue_up(LOCK).await) });
        drop(runtime);
        // The waiting case may have given up.
        let _ = ended.send(());
    });
    soon("the runtime's end", end).await.expect("the thread does not panic");
    thread.join().expect("the thread does not panic");
    ann.until_contenders(LOCK, 1).await;
    give_back(held).await;
}
