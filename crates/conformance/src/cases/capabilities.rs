//! That a service does what its capabilities say: users choose a service by them, and the suite its cases. The kinds of
//! lock that it says it carries are carried, no others are asked for, and a name is of one kind at a time.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{
    Advice, Backend as _, Capabilities, Error, ErrorKind, Fencing, LivenessAt, LossReason, Mode, Modes, Part,
    SafeUntil, Scrutiny, StoppedHolder, Wait,
};
use lockkeeper_recipes::{Keeper, LockKind};

use crate::ask::{Ask, LOCK};
use crate::case::{Case, using};
use crate::cases::operating::KINDS;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{LONG, Party, give_back, granted, parties, release};
use crate::speaker::{PLACES, Speaker, ids_of, line, part_of, speakers};
use crate::waiting::{measured, soon};

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("where a stopped holder keeps its lock, no session has a timeout and no hold a deadline", keeps)
            .promised(keeps_its_lock),
        Case::new("where a stopped holder expires, each session has a timeout and each hold a deadline", expires)
            .promised(|promised| !keeps_its_lock(promised)),
        Case::new(
            "where a stopped holder expires, one that is cut off loses its lock to the next in time",
            is_replaced,
        )
        .promised(|promised| !keeps_its_lock(promised))
        .needs(&[FaultKind::Cut])
        .outlives_sessions(),
        Case::new("where tokens outlive the process, they grow over a restart of the service", async |fixture| {
            grows_over(fixture, Fault::Restart).await;
        })
        .given_back()
        .promised(|promised| promised.fencing != Fencing::Process)
        .needs(&[FaultKind::Restart])
        .outlives_sessions(),
        Case::new("where tokens follow the clock, they grow over the loss of the service's data", async |fixture| {
            grows_over(fixture, Fault::Wipe).await;
        })
        .promised(|promised| promised.fencing == Fencing::Clock)
        .needs(&[FaultKind::Wipe]),
        Case::new("a keeper that requires what is promised is served, and one that requires more is refused", required),
    ];
    using(Modes::MUTEX, cases)
}

fn keeps_its_lock(promised: &Capabilities) -> bool {
    promised.stopped_holder == StoppedHolder::Keeps
}

async fn keeps(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let place = ann.take(&line("door"), Mode::Mutex).await;
    assert_eq!(ann.session.bond().timeout(), None);
    assert_eq!(ann.session.bond().notice(), None);
    let held = place.joined.standing.liveness(LivenessAt::Now);
    assert_eq!(held.safe_until(), Some(SafeUntil::ProcessEnd));
    ann.withdraw(&line("door"), place.ticket).await;
}

async fn expires(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let place = ann.take(&line("door"), Mode::Mutex).await;
    let timeout = ann.session.bond().timeout().expect("a session has a timeout").granted;
    let now = fixture.clock().now();
    let left = place.joined.standing.liveness(LivenessAt::Now).safe_until().expect("it is held").left(now);
    let left = left.expect("the hold has a deadline");
    assert!(left <= timeout, "{left:?} are left of a timeout of {timeout:?}");
    assert!(ann.session.bond().notice().expect("a holder is warned") <= timeout);
    ann.withdraw(&line("door"), place.ticket).await;
}

async fn is_replaced(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let timeout = fixture.session_timeout().expect("a session that is cut off ends");
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.inflict(Fault::Cut).await;
    let (next, grant) = measured(fixture, timeout, granted(waiting)).await;
    assert!(grant.late <= LATE_MAX, "the next was granted the lock {:?} after the cut: {grant:?}", grant.took);
    assert!(!held.hold().is_held(), "the guard does not know of its loss when the next is granted the lock");
    assert_ne!(soon("the loss", held.hold().lost()).await, LossReason::Released);
    release(next).await;
    ann.inflict(Fault::Heal).await;
}

/// How much later than a thread that only sleeps the next may be granted the lock after the session's end: a service
/// looks at its sessions now and then.
const LATE_MAX: Duration = Duration::from_secs(5);

async fn grows_over(fixture: &dyn Fixture, fault: Fault) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let before = guard.fencing_token();
    release(guard).await;
    if fault == Fault::Wipe {
        soon("the close", ann.keeper.close()).await.expect("the service is told");
    }
    ann.inflict(fault).await;
    let guard = Party::enter(fixture).await.lock("door").await;
    assert!(guard.fencing_token() > before, "{} after {before}", guard.fencing_token());
    release(guard).await;
}

async fn required(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    // A brief examination of a session that lives looks at that session.
    release(ann.lock("door").await).await;
    let found = soon("the findings", ann.tap.admin().examine(Scrutiny::Brief)).await.expect("it can be reached");
    let promised = ann.keeper.capabilities().weakened_by(&found);
    let other = match promised.stopped_holder {
        StoppedHolder::Keeps => StoppedHolder::Expires,
        _ => StoppedHolder::Keeps,
    };
    let requiring = |stopped: StoppedHolder| {
        let builder = Keeper::builder(Arc::new(ann.tap.clone())).clock(fixture.clock()).require(stopped);
        builder.require(promised.exclusion).require(promised.fencing).build()
    };
    let door = |keeper: &Keeper| keeper.mutex("door").expect("it is a name");
    let error = soon("the refusal", door(&requiring(other)).lock()).await.expect_err("it promises something else");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Unsupported, Advice::Permanent), "{error}");
    release(soon("the grant", door(&requiring(promised.stopped_holder)).lock()).await.expect("it is granted")).await;
}

pub(super) fn carried() -> Vec<Case> {
    vec![
        Case::new("a contender of each mode that the service carries is taken in and shown", taken_in),
        Case::new("a kind of lock that the service does not carry is refused before anything is sent", refused)
            .promised(|promised| promised.modes != Modes::ALL),
        Case::new("a queue that no kind of lock has which the service carries is empty", always_empty)
            .promised(|promised| PARTS.iter().any(|&part| !has_contenders(promised, part))),
    ]
}

const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

/// Tells whether contenders may stand in this part of a lock.
fn has_contenders(promised: &Capabilities, part: Part) -> bool {
    PLACES.iter().any(|&(place, mode)| place == part && promised.modes.has(mode))
}

async fn taken_in(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    for (part, mode) in ann.places() {
        let queue = part_of("door", part);
        let place = ann.take(&queue, mode).await;
        let shown = bob.view(&queue).await;
        assert_eq!(ids_of(&shown), [place.joined.id], "{mode}");
        ann.withdraw(&queue, place.ticket).await;
        bob.until_ids(&queue, &[]).await;
    }
}

async fn refused(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (keeper, carried) = (&ann.keeper, ann.keeper.capabilities().modes);
    let made = [
        (Modes::MUTEX, keeper.mutex("door").err()),
        (Modes::READ_WRITE, keeper.rw_lock("door").err()),
        (Modes::SEMAPHORE, keeper.semaphore("door", 2).err()),
        (Modes::ELECTION, keeper.election("door").err()),
        (Modes::BARRIER, keeper.double_barrier("door", 2).err()),
    ];
    for (modes, error) in made {
        if carried.has_all(modes) {
            assert!(error.is_none(), "{modes} are carried: {error:?}");
        } else {
            assert_refused(keeper, modes, error);
        }
    }
    for kind in KINDS.into_iter().filter(|kind: &LockKind| !carried.has_all(kind.modes())) {
        let error = soon("the refusal", keeper.admin().freeze("door", kind, "moving disks", Wait::Forever)).await.err();
        assert_refused(keeper, kind.modes(), error);
    }
    assert_eq!(ann.tap.sent(), 0, "the service need not be asked");
}

fn assert_refused(keeper: &Keeper, modes: Modes, error: Option<Error>) {
    let error = error.unwrap_or_else(|| panic!("{modes} are not carried, but were not refused"));
    let said = (error.kind(), error.advice(), error.lock());
    assert_eq!(said, (ErrorKind::Unsupported, Advice::Permanent, Some("door")), "{error}");
    let text = error.to_string();
    for told in [modes.to_string(), keeper.service(), keeper.capabilities().modes.to_string()] {
        assert!(text.contains(&told), "{text:?} does not tell {told:?}");
    }
}

/// Onlookers look at all queues of a lock, also where the service carries few kinds.
async fn always_empty(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    for (part, mode) in ann.places() {
        let place = ann.take(&part_of("door", part), mode).await;
        for empty in PARTS.into_iter().filter(|&part| !has_contenders(ann.backend.capabilities(), part)) {
            assert_eq!(bob.ids(&part_of("door", empty)).await, [], "{empty:?}");
        }
        assert_eq!(bob.inspect(&line("door")).await.len(), 1, "{mode}");
        ann.withdraw(&part_of("door", part), place.ticket).await;
    }
}

pub(super) fn one_kind_at_a_time() -> Vec<Case> {
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
async fn assert_other_kind(party: &Party, asked: Ask, in_use: &str) {
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
            assert_other_kind(&bob, asked, &format!("{in_use:?}")).await;
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
        assert_other_kind(&ann, asked, "a semaphore with waiters alone").await;
    }
    ann.until_contenders(LOCK, 1).await;
    bob.withdraw(&waiters, place.ticket).await;
}
