//! A lock used as two kinds at once: the second kind is refused, and never waits.

use lockkeeper_core::{Advice, Error, ErrorKind, Mode, Modes, Part, Wait};

use crate::asking::{Ask, LOCK};
use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{LONG, Party, give_back, parties};
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a lock in use as one kind is refused as every other kind, and is free for all when left", one_kind)
            .uses(Modes::ALL),
        Case::new("a lock whose waiters are of another kind is refused, though none of them holds it", waiters_count)
            .uses(Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::SEMAPHORE)),
    ]
}

const ASKS: [Ask; 6] = [Ask::Mutex, Ask::Read, Ask::Write, Ask::Permits(2, 2), Ask::Lead, Ask::Enter];

/// A mutex is the exclusive side of the read/write lock of its name.
fn is_same_lock(one: Ask, other: Ask) -> bool {
    let is_rw = |ask| matches!(ask, Ask::Mutex | Ask::Read | Ask::Write);
    one == other || (is_rw(one) && is_rw(other))
}

/// However long it waits, it is refused.
async fn assert_refused(party: &Party, asked: Ask, in_use: &str) {
    for wait in [Wait::Forever, Wait::AtMost(LONG), Wait::No] {
        let error: Option<Error> = soon("the refusal", asked.within(&party.keeper, in_time(asked, wait))).await.err();
        let error = error.unwrap_or_else(|| panic!("{asked:?} of what is in use as {in_use}, {wait:?}: not refused"));
        assert_eq!((error.kind(), error.advice()), (ErrorKind::KindMismatch, Advice::Permanent), "{asked:?}: {error}");
    }
}

/// What an earlier round of a barrier left is cleared away first, which takes time.
fn in_time(ask: Ask, wait: Wait) -> Wait {
    if ask == Ask::Enter && wait == Wait::No { Wait::AtMost(LONG) } else { wait }
}

async fn one_kind(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for in_use in ASKS {
        let holder = ann.take(in_use).await;
        // The place in which permits were waited for may still be on its way out.
        let contenders = if matches!(in_use, Ask::Permits(..)) { 2 } else { 1 };
        ann.until_contenders(LOCK, contenders).await;
        for asked in ASKS.into_iter().filter(|&asked| !is_same_lock(asked, in_use)) {
            assert_refused(&bob, asked, &format!("{in_use:?}")).await;
        }
        ann.until_contenders(LOCK, contenders).await;
        assert!(holder.is_held(), "those that were refused do not disturb it");
        drop(holder);
        ann.until_contenders(LOCK, 0).await;
        for asked in ASKS {
            // What the service keeps of a lock that is not in use does not make it one of a kind.
            let granted = soon("the grant", asked.within(&bob.keeper, in_time(asked, Wait::No))).await;
            let granted = granted.unwrap_or_else(|error| panic!("{asked:?} after {in_use:?}: {error}"));
            assert!(granted.is_some(), "{asked:?} after {in_use:?}");
            drop(granted);
            ann.until_contenders(LOCK, 0).await;
        }
    }
    // A member that is dropped inside leaves its round's note for the next one to clear away.
    give_back(bob.take(Ask::Enter).await).await;
}

/// As when a semaphore's only holder leaves and the waiters have not come in yet.
async fn waiters_count(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let waiters = line(LOCK).with_part(Part::Waiters);
    let place = bob.take(&waiters, Mode::Acquire).await;
    for asked in [Ask::Mutex, Ask::Read, Ask::Write] {
        assert_refused(&ann, asked, "a semaphore with waiters alone").await;
    }
    ann.until_contenders(LOCK, 1).await;
    bob.withdraw(&waiters, place.ticket).await;
}
