//! The read/write lock: shared by readers, exclusive for a writer.

use std::time::Duration;

use lockkeeper_core::{Liveness, LossReason, Mode};
use tokio::task::yield_now;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, Waiting, enter_all, granted, in_vain, release, release_all};
use crate::waiting::soon;

const READERS: usize = 20;
const WRITERS: usize = 8;

/// As in the herd that Curator's users have measured: this many writers wait, and behind them this many readers.
const READERS_BEHIND: usize = 16;

/// How long a caller waits that must not be granted anything.
const IN_VAIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("readers share the lock and a writer has it alone", shared_and_alone).given_back(),
        Case::new("a reader behind a waiting writer waits, though others read", reader_behind_writer),
        Case::new("a writer waits for every reader ahead of it", writer_behind_readers),
        Case::new("readers that wait for the same writer are all let in by its release", let_in_together),
        Case::new("readers and writers are served in the order they joined", in_order).strict(),
        Case::new("8 writers and the 16 readers behind them are each woken once", woken_once).strict(),
        Case::new("try_read and try_write never pass a waiter, and join nothing in vain", never_pass).given_back(),
        Case::new("a reader that asks to write as another owner waits for itself", no_upgrade),
        Case::new("contenders() tells 20 readers from 8 writers", told_apart).strict(),
        Case::new("run_read() and run_write() hold the lock while the work goes on", runs_work),
        Case::new("a reader's session expires and the waiting writer is let in", reader_expires)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a waiting reader whose session expires joins again behind the writers", waiting_reader_expires)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a writer that gives up lets in the readers behind it", writer_gives_up),
    ]
}

async fn shared_and_alone(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let readers = vec![ann.read("book").await, bob.read("book").await, ann.read("book").await];
    assert!(readers.iter().all(|reader| reader.hold().is_held()));
    assert!(readers.windows(2).all(|pair| pair[0].fencing_token() < pair[1].fencing_token()));
    let last = readers[2].fencing_token();
    for writer in [&ann, &eve] {
        let refused = soon("the answer", writer.rw_lock("book").try_write()).await;
        assert!(refused.expect("busy is no error").is_none());
        assert!(in_vain(async || writer.rw_lock("book").write_timeout(IN_VAIN).await).await);
    }
    release_all(readers).await;
    let writer = eve.write("book").await;
    assert!(writer.fencing_token() > last);
    for other in [&ann, &eve] {
        let reading = soon("the answer", other.rw_lock("book").try_read()).await.expect("busy is no error");
        let writing = soon("the answer", other.rw_lock("book").try_write()).await.expect("busy is no error");
        assert!(reading.is_none() && writing.is_none());
        assert!(in_vain(async || other.rw_lock("book").read_timeout(IN_VAIN).await).await);
    }
    ann.until_contenders("book", 1).await;
    release(writer).await;
    let reader = soon("the answer", ann.rw_lock("book").try_read()).await.expect("it does not fail");
    release(reader.expect("the lock is free")).await;
}

async fn reader_behind_writer(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let first = ann.read("book").await;
    let writer = bob.queue_up_to_write("book").await;
    let second = eve.queue_up_to_read("book").await;
    let third = soon("the answer", ann.rw_lock("book").try_read()).await;
    assert!(third.expect("busy is no error").is_none(), "a waiting writer is not passed");
    assert!(!writer.is_finished() && !second.is_finished());
    release(first).await;
    let writing = granted(writer).await;
    assert!(!second.is_finished());
    release(writing).await;
    release(granted(second).await).await;
}

async fn writer_behind_readers(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let mut readers = vec![ann.read("book").await, bob.read("book").await, ann.read("book").await];
    let writer = bob.queue_up_to_write("book").await;
    // The one just ahead of the writer goes first, then the others.
    while let Some(reader) = readers.pop() {
        assert!(!writer.is_finished(), "{} readers are still there", readers.len() + 1);
        let joined = bob.contenders("book").await;
        release(reader).await;
        bob.until_contenders("book", joined - 1).await;
        yield_now().await;
    }
    release(granted(writer).await).await;
}

async fn let_in_together(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let writer = parties[0].write("book").await;
    let mut waiting = Vec::new();
    for party in parties.iter().cycle().take(READERS) {
        waiting.push(party.queue_up_to_read("book").await);
    }
    assert!(waiting.iter().all(|reader| !reader.is_finished()));
    release(writer).await;
    let mut readers = Vec::new();
    for reader in waiting {
        readers.push(granted(reader).await);
    }
    assert!(readers.iter().all(|reader| reader.hold().is_held()), "all of them read at the same time");
    assert_eq!(parties[0].contenders("book").await, READERS);
    release_all(readers).await;
}

async fn in_order(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let holder = parties[0].write("book").await;
    let first = parties[1].queue_up_to_read("book").await;
    let second = parties[2].queue_up_to_write("book").await;
    let third = parties[0].queue_up_to_read("book").await;
    let fourth = parties[1].queue_up_to_read("book").await;
    let fifth = parties[2].queue_up_to_write("book").await;
    release(holder).await;
    let reading = granted(first).await;
    assert!(!second.is_finished() && !third.is_finished() && !fourth.is_finished());
    release(reading).await;
    let writing = granted(second).await;
    assert!(!third.is_finished() && !fourth.is_finished() && !fifth.is_finished());
    release(writing).await;
    let readers = vec![granted(third).await, granted(fourth).await];
    assert!(!fifth.is_finished());
    release_all(readers).await;
    release(granted(fifth).await).await;
}

/// A reader waits for the nearest writer ahead. If it watched the oldest, every reader would wake at every writer's
/// release.
async fn woken_once(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let holder = parties[0].write("book").await;
    let mut writers = Vec::new();
    for party in parties.iter().cycle().take(WRITERS) {
        writers.push(party.queue_up_to_write("book").await);
    }
    let mut readers = Vec::new();
    for party in parties.iter().cycle().take(READERS_BEHIND) {
        readers.push(party.queue_up_to_read("book").await);
    }
    let wake_ups = || parties.iter().map(|party| party.tap.departures()).sum::<u64>();
    assert_eq!(wake_ups(), 0, "no waiter is woken while no contender leaves");
    release(holder).await;
    for (number, writer) in (1..).zip(writers) {
        let writing = granted(writer).await;
        assert_eq!(wake_ups(), number, "wake-ups for {number} writers");
        release(writing).await;
    }
    let mut reading = Vec::new();
    for reader in readers {
        reading.push(granted(reader).await);
    }
    assert_eq!(wake_ups(), (WRITERS + READERS_BEHIND) as u64);
    release_all(reading).await;
}

async fn never_pass(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    for _ in 0..10 {
        let reader = ann.read("book").await;
        let writer = bob.queue_up_to_write("book").await;
        for _ in 0..3 {
            let reading = soon("the answer", eve.rw_lock("book").try_read()).await.expect("busy is no error");
            let writing = soon("the answer", eve.rw_lock("book").try_write()).await.expect("busy is no error");
            assert!(reading.is_none() && writing.is_none());
        }
        release(reader).await;
        let writing = soon("the answer", eve.rw_lock("book").try_write()).await.expect("busy is no error");
        assert!(writing.is_none(), "try_write passed a waiter");
        release(granted(writer).await).await;
    }
    assert_eq!((eve.tap.joins(), eve.journal.count(is_joined)), (0, 0));
}

/// Without an owner key the two do not know each other. With one owner key the second call is refused at once.
async fn no_upgrade(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let reader = ann.read("book").await;
    assert!(in_vain(async || ann.rw_lock("book").write_timeout(IN_VAIN).await).await);
    assert!(reader.hold().is_held());
    let waiting = ann.queue_up_to_write("book").await;
    assert!(!waiting.is_finished());
    release(reader).await;
    release(granted(waiting).await).await;
}

async fn told_apart(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let mut readers = Vec::new();
    for party in parties.iter().cycle().take(READERS) {
        readers.push(party.read("book").await);
    }
    let mut writers: Vec<Waiting<_>> = Vec::new();
    for party in parties.iter().cycle().take(WRITERS) {
        writers.push(party.queue_up_to_write("book").await);
    }
    let shown = parties[0].keeper.contenders("book").await.expect("the queue can be looked at");
    let modes: Vec<_> = shown.iter().map(|contender| contender.mode).collect();
    assert_eq!(modes, [vec![Mode::Read; READERS], vec![Mode::Write; WRITERS]].concat());
    let held: Vec<_> = readers.iter().map(|reader| reader.hold().contender().clone()).collect();
    let ids: Vec<_> = shown.into_iter().map(|contender| contender.id).collect();
    assert_eq!(ids[..READERS], held);
    release_all(readers).await;
    for writer in writers {
        release(granted(writer).await).await;
    }
}

async fn runs_work(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let other = bob.rw_lock("book");
    let lock = ann.rw_lock("book");
    let work = lock.run_read(async |hold| {
        let shared = other.try_read().await.expect("it does not fail").is_some();
        let alone = other.try_write().await.expect("it does not fail").is_some();
        (hold.is_held(), shared, alone)
    });
    assert_eq!(soon("the output", work).await.expect("the share is kept"), (true, true, false));
    bob.until_contenders("book", 0).await;
    let work = lock.run_write(async |hold| {
        let shared = other.try_read().await.expect("it does not fail").is_some();
        (hold.is_held(), shared)
    });
    assert_eq!(soon("the output", work).await.expect("the lock is kept"), (true, false));
    bob.until_contenders("book", 0).await;
}

async fn reader_expires(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let (lost, kept) = (ann.read("book").await, bob.read("book").await);
    let writer = eve.queue_up_to_write("book").await;
    ann.inflict(Fault::ExpireSession).await;
    assert_eq!(soon("the event", lost.hold().lost()).await, LossReason::Expired);
    assert!(kept.hold().is_held() && !writer.is_finished(), "the other reader reads on");
    release(kept).await;
    let writing = granted(writer).await;
    assert_eq!(lost.hold().liveness(), Liveness::Lost(LossReason::Expired));
    drop(lost);
    assert!(writing.hold().is_held());
    release(writing).await;
}

async fn waiting_reader_expires(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let holder = ann.write("book").await;
    let reader = bob.queue_up_to_read("book").await;
    let writer = eve.queue_up_to_write("book").await;
    bob.inflict(Fault::ExpireSession).await;
    bob.journal.until_count("a second join", 2, is_joined).await;
    release(holder).await;
    let writing = granted(writer).await;
    assert!(!reader.is_finished(), "it is behind the writer now");
    release(writing).await;
    release(granted(reader).await).await;
}

async fn writer_gives_up(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let reader = ann.read("book").await;
    let lock = bob.rw_lock("book");
    let ask = |time| {
        let lock = lock.clone();
        async move { lock.write_timeout(time).await }
    };
    let writer = bob.queue_up_for_a_while(ask).await;
    let behind = eve.queue_up_to_read("book").await;
    assert!(soon("the end of the timeout", granted(writer)).await.is_none());
    let second = granted(behind).await;
    assert!(reader.hold().is_held() && second.hold().is_held());
    release(reader).await;
    release(second).await;
}
