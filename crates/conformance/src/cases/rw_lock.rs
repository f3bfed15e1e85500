//! The read/write lock: shared by readers, exclusive for a writer, and for a mutex of the same name; and the downgrade
//! from an exclusive hold to a shared one, without a gap.

use lockkeeper_core::{ErrorKind, Liveness, LossReason, Mode, Modes};
use lockkeeper_recipes::{ReadGuard, WriteGuard};

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::cases::order::Queue;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, enter_all, give_back, granted, parties, release};
use crate::waiting::soon;

const READERS: usize = 20;
const WRITERS: usize = 8;

pub(super) fn cases() -> Vec<Case> {
    let books = vec![
        Case::new("readers share the lock and a writer has it alone", shared_and_alone).given_back(),
        Case::new("a reader behind a waiting writer waits, though others read", reader_behind_writer),
        Case::new("a reader that asks to write as another owner waits for itself", no_upgrade),
        Case::new("contenders() tells 20 readers from 8 writers", told_apart).strict(),
        Case::new("run_read() and run_write() hold the lock while the work goes on", runs_work),
        Case::new("a reader's session expires and the waiting writer is let in", reader_expires)
            .needs(&[FaultKind::ExpireSession]),
    ];
    let one_lock = vec![
        Case::new("a mutex excludes the writer and the readers of its name, and they exclude it", exclude_one_another)
            .given_back(),
    ];
    [using(Modes::READ_WRITE, books), using(Modes::MUTEX.with(Modes::READ_WRITE), one_lock)].concat()
}

/// None of these is granted to any of the parties, at once or in a while.
async fn refuses(others: &[&Party], asks: &[Ask]) {
    for party in others {
        for &ask in asks {
            assert!(party.tried(ask).await.is_none(), "{ask:?}");
            assert!(party.asks_in_vain(ask).await, "{ask:?}");
        }
    }
}

async fn shared_and_alone(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let readers = [ann.take(Ask::Read).await, bob.take(Ask::Read).await, ann.take(Ask::Read).await];
    assert!(readers.iter().all(Held::is_held) && readers.is_sorted_by(|one, next| one.token() < next.token()));
    let last = readers[2].token();
    refuses(&[&ann, &eve], &[Ask::Write]).await;
    for reader in readers {
        give_back(reader).await;
    }
    let writer = eve.take(Ask::Write).await;
    assert!(writer.token() > last);
    refuses(&[&ann, &eve], &[Ask::Read, Ask::Write]).await;
    ann.until_contenders(LOCK, 1).await;
    give_back(writer).await;
    give_back(ann.tried(Ask::Read).await.expect("the lock is free")).await;
}

async fn exclude_one_another(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = ann.take(Ask::Mutex).await;
    refuses(&[&ann, &bob], &[Ask::Read, Ask::Write]).await;
    assert!(held.is_held());
    give_back(held).await;
    for ask in [Ask::Read, Ask::Write] {
        let held = bob.take(ask).await;
        refuses(&[&ann], &[Ask::Mutex]).await;
        give_back(held).await;
    }
    give_back(ann.tried(Ask::Mutex).await.expect("the lock is free")).await;
    ann.until_contenders(LOCK, 0).await;
}

async fn reader_behind_writer(fixture: &dyn Fixture) {
    let queue = Queue::form(fixture, 3, &[Ask::Read, Ask::Write, Ask::Read]).await;
    assert!(queue.parties[0].tried(Ask::Read).await.is_none(), "a waiting writer is not passed");
    queue.serve().await;
}

/// Without an owner key the two do not know each other. With one owner key the second call is refused at once.
async fn no_upgrade(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let reader = ann.take(Ask::Read).await;
    assert!(ann.asks_in_vain(Ask::Write).await && reader.is_held());
    let waiting = ann.queue_up_as(Ask::Write).await;
    assert!(!waiting.is_finished());
    give_back(reader).await;
    give_back(granted(waiting).await).await;
}

async fn told_apart(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for party in parties.iter().cycle().take(READERS) {
        readers.push(party.take(Ask::Read).await);
    }
    for party in parties.iter().cycle().take(WRITERS) {
        writers.push(party.queue_up_as(Ask::Write).await);
    }
    let shown = parties[0].shown(LOCK).await;
    let modes: Vec<_> = shown.iter().map(|contender| contender.mode).collect();
    assert_eq!(modes, [vec![Mode::Read; READERS], vec![Mode::Write; WRITERS]].concat());
    let held: Vec<_> = readers.iter().map(|reader| reader.holds()[0].contender().clone()).collect();
    let ids: Vec<_> = shown.into_iter().map(|contender| contender.id).collect();
    assert_eq!(ids[..READERS], held);
    for reader in readers {
        give_back(reader).await;
    }
    for writer in writers {
        give_back(granted(writer).await).await;
    }
}

async fn runs_work(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let lock = ann.rw_lock(LOCK);
    let work = lock.run_read(async |hold| {
        (hold.is_held(), bob.tried(Ask::Read).await.is_some(), bob.tried(Ask::Write).await.is_some())
    });
    assert_eq!(soon("the output", work).await.expect("the share is kept"), (true, true, false));
    bob.until_contenders(LOCK, 0).await;
    let work = lock.run_write(async |hold| (hold.is_held(), bob.tried(Ask::Read).await.is_some()));
    assert_eq!(soon("the output", work).await.expect("the lock is kept"), (true, false));
    bob.until_contenders(LOCK, 0).await;
}

async fn reader_expires(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let (lost, kept) = (ann.take(Ask::Read).await, bob.take(Ask::Read).await);
    let writer = eve.queue_up_as(Ask::Write).await;
    ann.inflict(Fault::ExpireSession).await;
    assert_eq!(lost.lost().await, LossReason::Expired);
    assert!(kept.is_held() && !writer.is_finished(), "the other reader reads on");
    give_back(kept).await;
    let writing = granted(writer).await;
    assert_eq!(lost.holds()[0].liveness(), Liveness::Lost(LossReason::Expired));
    drop(lost);
    assert!(writing.is_held());
    give_back(writing).await;
}

/// How often a writer downgrades ahead of one that waits.
const ROUNDS: usize = 5;

pub(super) fn downgrades_of_writers() -> Vec<Case> {
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
