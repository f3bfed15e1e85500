//! Orders of an operator to a lock: revoke, break, freeze and thaw; examinations of a service, which leave nothing,
//! harm no lock, and tell every keeper the same; and remnants of users, which are removed beside those who use the
//! service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::{
    Advice, Backend, ErrorKind, Finding, LossReason, Modes, RemnantKind, Revocation, Scrutiny, Severity, Wait,
};
use lockkeeper_recipes::{Event, LockKind};

use crate::ask::Ask;
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{IN_VAIN, LONG, Party, answered, enter_all, granted, in_vain, parties, release, release_all};
use crate::waiting::soon;

const REASON: &str = "moving disks";

/// The kinds of lock that can be frozen.
pub(super) const KINDS: [LockKind; 4] = [LockKind::Mutex, LockKind::ReadWrite, LockKind::Semaphore, LockKind::Election];

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("all holders of a lock are asked to give it up, and the caller hears when they have", revoke)
            .uses(Modes::READ_WRITE),
        Case::new("a holder that does not listen keeps the lock, and waiters are not asked", not_listening)
            .uses(Modes::MUTEX),
        Case::new("a lock is broken with its holder's token and no other, and the next is granted it", break_lock)
            .given_back()
            .uses(Modes::MUTEX),
        Case::new("one permit of many is broken by its token", break_permit).uses(Modes::SEMAPHORE),
        Case::new("an order to one holder that was seen meets no other", as_seen).given_back().uses(Modes::READ_WRITE),
        Case::new("a frozen lock of any kind keeps all clients out until any client thaws it", freeze),
        Case::new("a freeze waits its turn, and leaves the queue when its time is up", freeze_waits).uses(Modes::MUTEX),
        Case::new("a frozen lock stays frozen when the session that froze it ends", outlives_its_session)
            .uses(Modes::MUTEX)
            .needs(&[FaultKind::ExpireSession]),
    ]
}

fn please() -> Revocation {
    Revocation::new(Some("deploying".to_owned()), Some(Duration::from_secs(5)))
}

async fn revoke(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let readers = [ann.read("book").await, bob.read("book").await];
    let writer = eve.queue_up_for(eve.rw_lock("book").write_owned()).await;
    let polite = readers.map(|reader| {
        tokio::spawn(async move {
            assert_eq!(reader.hold().revoked().await, please());
            release(reader).await;
        })
    });
    let given_up = soon("the answer", eve.keeper.admin().revoke("book", please(), Wait::AtMost(LONG))).await;
    assert!(given_up.expect("no error").is_some());
    for reader in polite {
        soon("the release", reader).await.expect("it was asked");
    }
    release(granted(writer).await).await;
}

async fn not_listening(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    let asked = answered(async || eve.keeper.admin().revoke("door", please(), Wait::AtMost(IN_VAIN)).await).await;
    assert!(asked.is_none());
    assert!(guard.hold().is_held() && !waiting.is_finished());
    let shown = eve.shown("door").await;
    assert_eq!(shown.iter().map(|shown| shown.revocation.is_some()).collect::<Vec<_>>(), [true, false]);
    release(guard).await;
    release(granted(waiting).await).await;
    let asked = answered(async || eve.keeper.admin().revoke("door", please(), Wait::AtMost(IN_VAIN)).await).await;
    assert!(asked.is_some(), "no holder has it");
}

async fn break_lock(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let stale = ann.lock("door").await;
    let old = stale.fencing_token();
    release(stale).await;
    let guard = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    for wrong in [Some(old), eve.shown("door").await[1].token].into_iter().flatten() {
        let error =
            soon("the refusal", eve.keeper.admin().break_lock("door", wrong)).await.expect_err("it is another token");
        assert_eq!((error.kind(), error.advice()), (ErrorKind::TokenMismatch, Advice::Permanent), "{error}");
        assert!(error.to_string().contains(&guard.fencing_token().to_string()), "{error}");
    }
    assert!(guard.hold().is_held() && !waiting.is_finished());
    let broken =
        soon("the answer", eve.keeper.admin().break_lock("door", guard.fencing_token())).await.expect("it is broken");
    assert_eq!(broken.id, *guard.hold().contender());
    let next = granted(waiting).await;
    assert_eq!(soon("the loss", guard.hold().lost()).await, LossReason::Broken);
    drop(guard);
    assert!(next.hold().is_held());
    release(next).await;
}

async fn break_permit(fixture: &dyn Fixture) {
    let [ann, eve] = parties(fixture).await;
    let mut permits = soon("the grant", ann.semaphore("pool", 3).acquire_many(3)).await.expect("they are granted");
    let broken = permits.remove(1);
    soon("the answer", eve.keeper.admin().break_lock("pool", broken.fencing_token())).await.expect("it is broken");
    assert_eq!(soon("the loss", broken.hold().lost()).await, LossReason::Broken);
    assert!(permits.iter().all(|permit| permit.hold().is_held()));
    let freed = soon("the answer", eve.semaphore("pool", 3).try_acquire()).await.expect("it does not fail");
    release(freed.expect("one is free")).await;
    release_all(permits).await;
}

async fn as_seen(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let [first, second] = [ann.read("book").await, bob.read("book").await];
    let (gone, token) = (first.hold().contender().clone(), first.fencing_token());
    let asked = soon("the answer", eve.keeper.admin().revoke_holder("book", &gone, please())).await.expect("no error");
    assert_eq!(asked.map(|asked| asked.id), Some(gone.clone()));
    assert_eq!(soon("the request", first.hold().revoked()).await, please());
    release(first).await;
    let asked = soon("the answer", eve.keeper.admin().revoke_holder("book", &gone, please())).await;
    assert!(asked.expect("no error").is_none());
    let shown = eve.shown("book").await;
    assert!(shown.iter().all(|one| one.revocation.is_none()), "the other was not asked: {shown:?}");
    let (held, present) = (second.hold().contender().clone(), second.fencing_token());
    for (holder, token) in [(&gone, present), (&gone, token), (&held, token)] {
        let refused = soon("the refusal", eve.keeper.admin().break_holder("book", holder, token)).await;
        assert_eq!(refused.expect_err("it is another one").kind(), ErrorKind::TokenMismatch);
    }
    assert!(second.hold().is_held());
    let broken =
        soon("the answer", eve.keeper.admin().break_holder("book", &held, present)).await.expect("it is broken");
    assert_eq!((broken.id, soon("the loss", second.hold().lost()).await), (held, LossReason::Broken));
    drop(second);
    let mut frozen = Vec::new();
    for _ in 0..2 {
        bob.until_contenders("book", 0).await;
        frozen.push(ann.freeze("book", LockKind::ReadWrite, REASON).await.id);
        if frozen.len() == 1 {
            let thawed = soon("the thaw", eve.keeper.admin().thaw_frozen("book", &frozen[0])).await.expect("no error");
            assert_eq!(thawed.map(|thawed| thawed.id), Some(frozen[0].clone()));
        }
    }
    assert!(soon("the thaw", eve.keeper.admin().thaw_frozen("book", &frozen[0])).await.expect("no error").is_none());
    let shown = eve.shown("book").await;
    assert_eq!(shown.iter().map(|one| one.frozen.as_deref()).collect::<Vec<_>>(), [Some(REASON)]);
    let thawed = soon("the thaw", eve.keeper.admin().thaw_frozen("book", &frozen[1])).await.expect("no error");
    assert!(thawed.is_some());
}

/// Tells whether a caller gets in.
async fn is_free(party: &Party, kind: LockKind) -> bool {
    let asks: &[Ask] = match kind {
        LockKind::Mutex => &[Ask::Mutex],
        LockKind::ReadWrite => &[Ask::Write, Ask::Read],
        LockKind::Semaphore => &[Ask::Permits(1, 2)],
        LockKind::Election => &[Ask::Lead],
        _ => unreachable!("it is one of the kinds below"),
    };
    let mut free = Vec::new();
    for &ask in asks {
        free.push(party.tried(ask).await.is_some());
    }
    assert!(free.iter().all(|is_free| *is_free == free[0]), "{kind:?}: {free:?}");
    free[0]
}

async fn freeze(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let carried = ann.keeper.capabilities().modes;
    for kind in KINDS.into_iter().filter(|kind| carried.has_all(kind.modes())) {
        let frozen = ann.freeze("door", kind, REASON).await;
        assert_eq!(frozen.frozen.as_deref(), Some(REASON));
        assert!(!is_free(&bob, kind).await && !is_free(&ann, kind).await, "{kind:?}");
        if kind == LockKind::Election {
            let election = bob.keeper.election("door").expect("a name");
            assert!(soon("the answer", election.leader()).await.expect("it can be asked").is_none());
        }
        let shown = bob.shown("door").await;
        assert_eq!(shown.iter().map(|shown| shown.frozen.as_deref()).collect::<Vec<_>>(), [Some(REASON)], "{kind:?}");
        let thawed = soon("the thaw", bob.keeper.admin().thaw("door")).await.expect("it is thawed");
        assert_eq!(thawed.iter().map(|thawed| &thawed.id).collect::<Vec<_>>(), [&frozen.id], "{kind:?}");
        assert!(is_free(&bob, kind).await, "{kind:?}");
        assert!(soon("the thaw", bob.keeper.admin().thaw("door")).await.expect("it is not frozen").is_empty());
        bob.until_contenders("door", 0).await;
    }
}

async fn freeze_waits(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let freeze = async || eve.keeper.admin().freeze("door", LockKind::Mutex, REASON, Wait::AtMost(IN_VAIN)).await;
    assert!(in_vain(freeze).await);
    bob.until_contenders("door", 1).await;
    let keeper = eve.keeper.clone();
    let freezing =
        tokio::spawn(async move { keeper.admin().freeze("door", LockKind::Mutex, REASON, Wait::Forever).await });
    bob.until_contenders("door", 2).await;
    let behind = bob.queue_up("door").await;
    assert!(guard.hold().is_held() && !freezing.is_finished());
    release(guard).await;
    let frozen = soon("the freeze", freezing).await.expect("the task does not panic").expect("it is frozen");
    assert!(frozen.is_some() && !behind.is_finished());
    assert_eq!(soon("the thaw", ann.keeper.admin().thaw("door")).await.expect("it is thawed").len(), 1);
    release(granted(behind).await).await;
}

async fn outlives_its_session(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    ann.freeze("door", LockKind::Mutex, REASON).await;
    ann.inflict(Fault::ExpireSession).await;
    let waiting = bob.queue_up("door").await;
    assert!(in_vain(async || bob.mutex("door").lock_timeout(IN_VAIN).await).await && !waiting.is_finished());
    assert_eq!(soon("the thaw", bob.keeper.admin().thaw("door")).await.expect("it is thawed").len(), 1);
    release(granted(waiting).await).await;
}

pub(super) fn examinations() -> Vec<Case> {
    vec![
        Case::new("an examination of a service in order finds no error and leaves nothing", in_order),
        Case::new("an examination beside a holder and a waiter harms neither", harms_no_lock).uses(Modes::MUTEX),
        Case::new("a keeper is told once what matters most of what an examination finds", told_once).uses(Modes::MUTEX),
    ]
}

async fn in_order(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let findings = soon("the findings", ann.keeper.admin().examine()).await.expect("the service can be reached");
    assert!(findings.iter().all(|finding| finding.severity < Severity::Error), "{findings:?}");
    assert!(soon("the names", ann.keeper.admin().queues("")).await.expect("the queues are named").is_empty());
}

async fn harms_no_lock(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    for party in [&ann, &bob] {
        for scrutiny in [Scrutiny::Brief, Scrutiny::Full] {
            soon("the findings", party.tap.admin().examine(scrutiny)).await.expect("the service can be reached");
        }
    }
    assert!(held.hold().is_held() && !waiting.is_finished());
    assert_eq!(ann.contenders("door").await, 2);
    let names = soon("the names", bob.keeper.admin().queues("")).await.expect("the queues are named");
    assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["door"]);
    release(held).await;
    release(granted(waiting).await).await;
}

async fn told_once(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let matters = |findings: Vec<Finding>| -> Vec<Finding> {
        findings.into_iter().filter(|finding| finding.severity >= Severity::Warning).collect()
    };
    // A brief examination of a session that lives looks at that session.
    release(bob.lock("door").await).await;
    let brief =
        matters(soon("the findings", bob.tap.admin().examine(Scrutiny::Brief)).await.expect("it can be reached"));
    let full = matters(soon("the findings", bob.tap.admin().examine(Scrutiny::Full)).await.expect("it can be reached"));
    assert!(brief.iter().all(|finding| full.contains(finding)), "{brief:?} is more than {full:?}");

    for _ in 0..2 {
        release(ann.lock("door").await).await;
    }
    let is_told = |event: &Event| matches!(event, Event::Weakened { .. });
    let Some(worst) = brief.iter().map(|finding| finding.severity).max() else {
        assert_eq!(ann.journal.count(is_told), 0);
        return;
    };
    ann.journal.until_count("what is wrong with the service", 1, is_told).await;
    release(ann.lock("door").await).await;
    assert_eq!(ann.journal.count(is_told), 1);
    for event in ann.journal.events() {
        if let Event::Weakened { service, finding } = event {
            assert_eq!((service, finding.severity), (ann.keeper.service(), worst));
            assert!(brief.contains(&finding), "{finding:?} is not of {brief:?}");
        }
    }
}

/// How many clients come and go, and how often each of them does.
const CLIENTS: usize = 4;
const ROUNDS: usize = 12;

/// How many locks they use: few, so that each is empty now and then, and in use again at once.
const LOCKS: usize = 3;

pub(super) fn remnants() -> Vec<Case> {
    vec![
        Case::new("what lives, is frozen or has a value is no remnant, and outlives the removal of all", spares)
            .uses(Modes::MUTEX),
        Case::new("remnants are removed while clients come and go, and none of these loses its lock", beside_others)
            .uses(Modes::MUTEX),
    ]
}

/// Removes all that is found, and returns how much there was of each kind but empty queues.
async fn remove_all(party: &Party) -> Vec<(RemnantKind, String)> {
    let found = soon("the remnants", party.keeper.admin().remnants(Duration::ZERO)).await.expect("they are listed");
    for remnant in &found {
        soon("the removal", party.keeper.admin().remove_remnant(remnant)).await.expect("it is removed or left");
    }
    let contenders = found.into_iter().filter(|remnant| remnant.kind != RemnantKind::Empty);
    contenders.map(|remnant| (remnant.kind, remnant.place)).collect()
}

async fn spares(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let held = ann.lock("door").await;
    let waiting = bob.queue_up("door").await;
    ann.freeze("gate", LockKind::Mutex, "new locks").await;
    let value = ann.keeper.shared_value("number").expect("the name is valid");
    soon("the write", value.set(b"7")).await.expect("it is written");
    release(bob.lock("left").await).await;

    for _ in 0..2 {
        assert_eq!(remove_all(&eve).await, []);
    }
    assert!(held.hold().is_held() && !waiting.is_finished());
    let shown = eve.shown("gate").await;
    assert_eq!(shown.iter().map(|shown| shown.frozen.as_deref()).collect::<Vec<_>>(), [Some("new locks")]);
    let read = soon("the value", value.get()).await.expect("it can be read").expect("it is there");
    assert_eq!(&*read.bytes, b"7");
    release(held).await;
    release(granted(waiting).await).await;
    release(eve.lock("left").await).await;
    assert_eq!(soon("the thaw", eve.keeper.admin().thaw("gate")).await.expect("it is thawed").len(), 1);
    soon("the removal", value.remove()).await.expect("it is removed");
}

async fn beside_others(fixture: &dyn Fixture) {
    let eve = Party::enter(fixture).await;
    let (left, inside) = (Arc::new(AtomicU64::new(CLIENTS as u64)), Arc::new(<[AtomicBool; LOCKS]>::default()));
    let mut clients = Vec::new();
    for (number, party) in enter_all(fixture, CLIENTS).await.into_iter().enumerate() {
        let (left, inside) = (left.clone(), inside.clone());
        clients.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let lock = (number + round) % LOCKS;
                let guard = party.lock(&format!("door-{lock}")).await;
                assert!(!inside[lock].swap(true, Ordering::SeqCst), "another one is inside");
                tokio::task::yield_now().await;
                assert!(guard.hold().is_held(), "round {round}: {:?}", guard.hold());
                inside[lock].store(false, Ordering::SeqCst);
                release(guard).await;
            }
            left.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    while left.load(Ordering::SeqCst) > 0 && clients.iter().any(|client| !client.is_finished()) {
        // One that is just leaving may be seen as one that has ended; none stands without a session.
        let contenders = remove_all(&eve).await;
        assert!(contenders.iter().all(|(kind, _)| *kind == RemnantKind::Dead), "{contenders:?}");
        tokio::task::yield_now().await;
    }
    for client in clients {
        soon("a client", client).await.expect("it was granted its lock in each round");
    }
}
