//! From an exclusive hold to a shared one, without a gap.

use std::time::Duration;

use lockkeeper_core::{ErrorKind, LossReason};
use lockkeeper_recipes::ReadGuard;

use crate::case::{Case, Runtime};
use crate::dropped::{Before, drop_at_every_await_point};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, granted, in_vain, release};
use crate::waiting::soon;

const IN_VAIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a writer that downgrades reads on, and other readers come in", downgrades),
        Case::new("a downgrade lets no writer in, not even one that is queued already", keeps_writers_out),
        Case::new("a downgrade lets in the readers that wait behind no writer", lets_readers_in),
        Case::new("a share taken by downgrade outlives many others and has the writer's token", has_its_token),
        Case::new("downgrade() dropped at every await point leaves nothing", dropped).runtime(Runtime::CurrentThread),
        Case::new("a lost writer cannot downgrade, and leaves nothing", lost).needs(&[FaultKind::ExpireSession]),
    ]
}

async fn downgrade(party: &Party) -> ReadGuard {
    let writer = party.write("book").await;
    soon("the share", writer.downgrade()).await.expect("the lock was held")
}

async fn downgrades(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let writer = ann.write("book").await;
    assert!(in_vain(async || bob.rw_lock("book").read_timeout(IN_VAIN).await).await, "only its owner may share it");
    let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
    assert!(reader.hold().is_held());
    ann.until_contenders("book", 1).await;
    let other = soon("the answer", bob.rw_lock("book").try_read()).await.expect("it does not fail");
    let other = other.expect("readers share");
    let writing = soon("the answer", bob.rw_lock("book").try_write()).await.expect("busy is no error");
    assert!(writing.is_none());
    release(reader).await;
    release(other).await;
    release(bob.write("book").await).await;
}

/// The waiter just behind the writer is told of its departure; the share in the writer's place must keep that waiter
/// out.
async fn keeps_writers_out(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    for _ in 0..10 {
        let writer = ann.write("book").await;
        let next = bob.queue_up_to_write("book").await;
        let behind = eve.queue_up_to_read("book").await;
        let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
        ann.until_contenders("book", 3).await;
        // A waiter that was told of the writer's departure has looked again once its new wait is under way.
        assert!(in_vain(async || bob.rw_lock("book").write_timeout(IN_VAIN / 4).await).await);
        assert!(!next.is_finished(), "a queued writer came in beside a reader");
        assert!(!behind.is_finished(), "a reader passed a queued writer");
        assert!(reader.hold().is_held());
        release(reader).await;
        let writing = granted(next).await;
        assert!(!behind.is_finished());
        release(writing).await;
        release(granted(behind).await).await;
    }
}

async fn lets_readers_in(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let writer = ann.write("book").await;
    let near = bob.queue_up_to_read("book").await;
    let next = eve.queue_up_to_write("book").await;
    let far = bob.queue_up_to_read("book").await;
    let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
    let near = granted(near).await;
    assert!(reader.hold().is_held() && near.hold().is_held());
    assert!(!next.is_finished() && !far.is_finished());
    release(near).await;
    release(reader).await;
    release(granted(next).await).await;
    release(granted(far).await).await;
}

async fn has_its_token(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let writer = ann.write("book").await;
    let (token, hold) = (writer.fencing_token(), writer.hold().clone());
    let reader = soon("the share", writer.downgrade()).await.expect("the lock was held");
    assert_eq!(reader.fencing_token(), token);
    assert_eq!(soon("the end", hold.lost()).await, LossReason::Released, "the writer's hold has ended");
    for _ in 0..10 {
        release(bob.read("book").await).await;
        assert!(reader.hold().is_held());
    }
    release(reader).await;
    let next = bob.write("book").await;
    assert!(next.fencing_token() > token);
    release(next).await;
}

async fn dropped(fixture: &dyn Fixture) {
    let hold = async |prober: Party| prober.write("door").await;
    // Opening a session, joining, the share.
    drop_at_every_await_point(fixture, "downgrade()", Before::Free, hold, 3, async |party: Party| {
        party.rw_lock("door").write().await?.downgrade().await.map(Some)
    })
    .await;
}

async fn lost(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let writer = ann.write("book").await;
    let next = bob.queue_up_to_write("book").await;
    ann.inflict(Fault::ExpireSession).await;
    let error = soon("the refusal", writer.downgrade()).await.expect_err("the lock was lost");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
    release(granted(next).await).await;
    release(downgrade(&ann).await).await;
}
