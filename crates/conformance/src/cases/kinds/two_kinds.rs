//! A lock used as two kinds at once: the second kind is refused, and never waits.

use std::time::Duration;

use lockkeeper_core::{Advice, Error, ErrorKind, Mode, Modes, Result, Wait};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, release};
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

const LONG: Duration = Duration::from_secs(3600);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a mutex that meets an election's or a barrier's queue is refused and leaves nothing", refused)
            .given_back()
            .uses(Modes::MUTEX.with(Modes::ELECTION).with(Modes::BARRIER)),
        Case::new("a member of a barrier behind a mutex's holder does not disturb it", member_behind)
            .uses(Modes::MUTEX.with(Modes::BARRIER)),
        Case::new("a lock in use as one kind is refused as every other kind, and is free for all when left", one_kind)
            .uses(Modes::ALL),
        Case::new("a lock whose waiters are of another kind is refused, though none of them holds it", waiters_count)
            .uses(Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::SEMAPHORE)),
    ]
}

fn assert_mismatch(asked: &str, error: Option<Error>) {
    let error = error.unwrap_or_else(|| panic!("{asked} was not refused"));
    assert_eq!((error.kind(), error.advice()), (ErrorKind::KindMismatch, Advice::Permanent), "{asked}: {error}");
}

async fn refused(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    for mode in [Mode::Candidate, Mode::Member] {
        let place = bob.take(&line("door"), mode).await;
        let shown = ann.keeper.contenders("door").await.expect("the queue can be looked at");
        assert_eq!(shown[0].mode, mode);
        let mutex = ann.mutex("door");
        assert_mismatch("lock()", soon("the refusal", mutex.lock()).await.err());
        assert_mismatch("try_lock()", soon("the refusal", mutex.try_lock()).await.err());
        assert_mismatch("lock_timeout()", soon("the refusal", mutex.lock_timeout(LONG)).await.err());
        ann.until_contenders("door", 1).await;
        bob.withdraw(&line("door"), place.ticket).await;
        release(ann.lock("door").await).await;
    }
}

async fn member_behind(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let guard = ann.lock("door").await;
    let place = bob.take(&line("door"), Mode::Member).await;
    assert!(guard.hold().is_held());
    bob.withdraw(&line("door"), place.ticket).await;
    release(guard).await;
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Mutex,
    Read,
    Write,
    Semaphore,
    Election,
    /// A double barrier of one member.
    Barrier,
}

impl Kind {
    const ALL: [Self; 6] = [Self::Mutex, Self::Read, Self::Write, Self::Semaphore, Self::Election, Self::Barrier];

    /// A mutex is the exclusive side of the read/write lock of its name.
    fn is_same_lock(self, other: Self) -> bool {
        let is_rw = |kind| matches!(kind, Self::Mutex | Self::Read | Self::Write);
        self == other || (is_rw(self) && is_rw(other))
    }
}

/// How long the callers wait.
const WAITS: [Wait; 3] = [Wait::Forever, Wait::AtMost(LONG), Wait::No];

/// What is held; dropping it gives it back.
type Held = Box<dyn Send>;

fn held<Guard: Send + 'static>(granted: Option<Guard>) -> Option<Held> {
    granted.map(|guard| -> Held { Box::new(guard) })
}

async fn ask(party: &Party, kind: Kind, wait: Wait) -> Result<Option<Held>> {
    let keeper = &party.keeper;
    Ok(match kind {
        Kind::Mutex => held(party.mutex("door").lock_within(wait).await?),
        Kind::Read => held(party.rw_lock("door").read_within(wait).await?),
        Kind::Write => held(party.rw_lock("door").write_within(wait).await?),
        Kind::Semaphore => held(party.semaphore("door", 2).acquire_many_within(2, wait).await?),
        Kind::Election => held(keeper.election("door").expect("the name is valid").campaign_within(wait).await?),
        Kind::Barrier => {
            let barrier = keeper.double_barrier("door", 1).expect("the name is valid, and there is a member");
            // What an earlier round left is cleared away first, which takes time.
            let wait = if wait == Wait::No { Wait::AtMost(LONG) } else { wait };
            held(barrier.enter_within(wait).await?)
        }
    })
}

async fn one_kind(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    for in_use in Kind::ALL {
        let holder = soon("the grant", ask(&ann, in_use, Wait::Forever)).await;
        let holder = holder.unwrap_or_else(|error| panic!("{in_use:?} is refused, though the lock is free: {error}"));
        // The place in which permits were waited for may still be on its way out.
        let contenders = if in_use == Kind::Semaphore { 2 } else { 1 };
        ann.until_contenders("door", contenders).await;
        for asked in Kind::ALL.into_iter().filter(|asked| !asked.is_same_lock(in_use)) {
            for wait in WAITS {
                let what = format!("{asked:?} of what is in use as {in_use:?}, {wait:?}");
                assert_mismatch(&what, soon("the refusal", ask(&bob, asked, wait)).await.err());
            }
        }
        ann.until_contenders("door", contenders).await;
        drop(holder);
        ann.until_contenders("door", 0).await;
        for asked in Kind::ALL {
            // What the service keeps of a lock that is not in use does not make it one of a kind.
            let granted = soon("the grant", ask(&bob, asked, Wait::No)).await;
            let granted = granted.unwrap_or_else(|error| panic!("{asked:?} after {in_use:?}: {error}"));
            assert!(granted.is_some(), "{asked:?} after {in_use:?}");
            drop(granted);
            ann.until_contenders("door", 0).await;
        }
    }
    // A member that is dropped inside leaves its round's note for the next one to clear away.
    let barrier = bob.keeper.double_barrier("door", 1).expect("the name is valid, and there is a member");
    let inside = soon("the way in", barrier.enter()).await.expect("it goes in");
    soon("the way out", inside.leave()).await.expect("it was inside");
}

/// As when a semaphore's only holder leaves and the waiters have not come in yet.
async fn waiters_count(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let waiters = line("door").with_part(lockkeeper_core::Part::Waiters);
    let place = bob.take(&waiters, Mode::Acquire).await;
    for asked in [Kind::Mutex, Kind::Read, Kind::Write] {
        for wait in WAITS {
            let what = format!("{asked:?} of what a semaphore's waiters are in use of, {wait:?}");
            assert_mismatch(&what, soon("the refusal", ask(&ann, asked, wait)).await.err());
        }
    }
    ann.until_contenders("door", 1).await;
    bob.withdraw(&waiters, place.ticket).await;
}
