//! Orders of an operator to a lock: revoke, break, freeze and thaw.

use std::time::Duration;

use lockkeeper_core::{Advice, ErrorKind, LossReason, Modes, Revocation, Wait};
use lockkeeper_recipes::LockKind;

use crate::asking::Ask;
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{IN_VAIN, LONG, Party, answered, granted, in_vain, parties, release, release_all};
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
