//! From an exclusive hold to a shared one, without a gap.

use lockkeeper_core::{ErrorKind, LossReason, Modes};
use lockkeeper_recipes::{ReadGuard, WriteGuard};

use crate::asking::{Ask, LOCK};
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{give_back, granted, parties, release};
use crate::waiting::soon;

/// How often a writer downgrades ahead of one that waits.
const ROUNDS: usize = 5;

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("a writer that downgrades reads on, and other readers come in", downgrades),
        Case::with("a downgrade lets no writer in, not even one that is queued already", Ask::Write, keeps_out),
        Case::new("a downgrade beside a waiting mutex keeps it out until the share is given back", async |fixture| {
            keeps_out(fixture, Ask::Mutex).await;
        })
        .uses(Modes::MUTEX),
        Case::new("a downgrade lets in the readers that wait behind no writer", lets_readers_in),
        Case::new("a share taken by downgrade outlives many others and has the writer's token", has_its_token),
        Case::new("a lost writer cannot downgrade, and leaves nothing", lost).needs(&[FaultKind::ExpireSession]),
    ];
    using(Modes::READ_WRITE, cases)
}

async fn downgrade(writer: WriteGuard) -> ReadGuard {
    soon("the share", writer.downgrade()).await.expect("the lock was held")
}

async fn downgrades(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let writer = ann.write(LOCK).await;
    assert!(bob.asks_in_vain(Ask::Read).await, "only its owner may share it");
    let reader = downgrade(writer).await;
    assert!(reader.hold().is_held());
    ann.until_contenders(LOCK, 1).await;
    let other = bob.tried(Ask::Read).await.expect("readers share");
    assert!(bob.tried(Ask::Write).await.is_none());
    release(reader).await;
    give_back(other).await;
    give_back(bob.take(Ask::Write).await).await;
}

/// The waiter just behind the writer is told of its departure; the share in the writer's place must keep that waiter
/// out. In some rounds readers come in beside that share.
async fn keeps_out(fixture: &dyn Fixture, ask: Ask) {
    let [ann, bob, eve] = parties(fixture).await;
    for round in 0..2 * ROUNDS {
        let writer = ann.write(LOCK).await;
        let near = if round < ROUNDS { None } else { Some(eve.queue_up_as(Ask::Read).await) };
        let next = bob.queue_up_as(ask).await;
        let behind = eve.queue_up_as(Ask::Read).await;
        let reader = downgrade(writer).await;
        ann.until_contenders(LOCK, 3 + usize::from(near.is_some())).await;
        if let Some(near) = near {
            give_back(granted(near).await).await;
        }
        // A waiter that was told of the writer's departure has looked again once its new wait is over.
        assert!(bob.asks_in_vain(ask).await);
        assert!(!next.is_finished(), "{ask:?}, which was queued, came in beside a reader");
        assert!(!behind.is_finished(), "a reader passed {ask:?}, which was queued");
        assert!(reader.hold().is_held());
        release(reader).await;
        let exclusive = granted(next).await;
        assert!(!behind.is_finished());
        give_back(exclusive).await;
        give_back(granted(behind).await).await;
    }
}

async fn lets_readers_in(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let writer = ann.write(LOCK).await;
    let near = bob.queue_up_as(Ask::Read).await;
    let next = eve.queue_up_as(Ask::Write).await;
    let far = bob.queue_up_as(Ask::Read).await;
    let reader = downgrade(writer).await;
    let near = granted(near).await;
    assert!(reader.hold().is_held() && near.is_held());
    assert!(!next.is_finished() && !far.is_finished());
    give_back(near).await;
    release(reader).await;
    give_back(granted(next).await).await;
    give_back(granted(far).await).await;
}

async fn has_its_token(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let writer = ann.write(LOCK).await;
    let (token, hold) = (writer.fencing_token(), writer.hold().clone());
    let reader = downgrade(writer).await;
    assert_eq!(reader.fencing_token(), token);
    assert_eq!(soon("the end", hold.lost()).await, LossReason::Released, "the writer's hold has ended");
    for _ in 0..10 {
        give_back(bob.take(Ask::Read).await).await;
        assert!(reader.hold().is_held());
    }
    release(reader).await;
    let next = bob.take(Ask::Write).await;
    assert!(next.token() > token);
    give_back(next).await;
}

async fn lost(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let writer = ann.write(LOCK).await;
    let next = bob.queue_up_as(Ask::Write).await;
    ann.inflict(Fault::ExpireSession).await;
    let error = soon("the refusal", writer.downgrade()).await.expect_err("the lock was lost");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
    give_back(granted(next).await).await;
    release(downgrade(ann.write(LOCK).await).await).await;
}
