//! The number of permits: agreed on by their holders, or given by a counter.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Advice, Error, ErrorKind, Expected, Part, QueueName};
use lockkeeper_recipes::{Permits, Semaphore};
use tokio::task::yield_now;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{IN_VAIN, Party, granted, in_vain, parties, release, release_all};
use crate::speaker::{Speaker, line, part_of};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a caller that says another number of permits while some are held is refused", mismatch),
        Case::new("the number of permits is agreed on anew when none is held", agreed_anew),
        Case::new("what another client wrote where the number of permits lies is left alone", foreign_value),
        Case::new("raising the counter lets waiters in at once", raised),
        Case::new("lowering the counter takes no permit away and lets no waiter in", lowered),
        Case::new("without its counter, or with a negative one, a semaphore grants nothing", nothing_to_grant),
        Case::new("a value that is not a counter is an error, and leaves nothing", no_counter),
    ]
}

fn assert_bound_mismatch(error: Option<Error>) {
    let error = error.expect("another number is agreed on");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::BoundMismatch, Advice::Permanent), "{error}");
}

async fn mismatch(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let held = soon("the grant", ann.semaphore("pool", 3).acquire()).await.expect("it is granted");
    for other in [2, 4] {
        let semaphore = bob.semaphore("pool", other);
        assert_bound_mismatch(soon("the refusal", semaphore.acquire()).await.err());
        assert_bound_mismatch(soon("the refusal", semaphore.try_acquire()).await.err());
        assert_bound_mismatch(soon("the refusal", semaphore.acquire_timeout(Duration::from_secs(3600))).await.err());
    }
    ann.until_contenders("pool", 1).await;
    let agreeing = soon("the answer", bob.semaphore("pool", 3).try_acquire()).await.expect("it does not fail");
    release(agreeing.expect("two are free")).await;
    release(held).await;
}

async fn agreed_anew(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    for permits in [3, 1, 5, 2] {
        let held = soon("the grant", ann.semaphore("pool", permits).acquire_many(permits)).await;
        let held = held.expect("no permit is held that fixes another number");
        let refused = soon("the answer", bob.semaphore("pool", permits).try_acquire()).await;
        assert!(refused.expect("busy is no error").is_none(), "{permits} are the most");
        assert_bound_mismatch(soon("the refusal", bob.semaphore("pool", permits + 1).acquire()).await.err());
        release_all(held).await;
    }
}

async fn foreign_value(fixture: &dyn Fixture) {
    const WORDS: &[u8] = b"another client's words";
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let queue = part_of("pool", Part::Permits);
    let written = eve.session.values().set(&queue, Expected::Absent, Some(WORDS.into()));
    assert!(soon("the answer", written).await.expect("it can be written").is_some());
    let semaphore = ann.semaphore("pool", 2);
    let held = soon("the grant", semaphore.acquire_many(2)).await.expect("they are granted");
    assert!(soon("the answer", semaphore.try_acquire()).await.expect("busy is no error").is_none());
    let value = soon("the value", eve.session.values().get(&queue)).await.expect("it can be read");
    assert_eq!(&*value.expect("it was not removed").bytes, WORDS);
    release_all(held).await;
    soon("the answer", eve.session.values().set(&queue, Expected::Any, None)).await.expect("it can be removed");
}

/// Writes the counter as Curator's shared count is written.
async fn count(speaker: &Speaker, permits: i32) {
    write(speaker, Some(permits.to_be_bytes().to_vec())).await;
}

async fn write(speaker: &Speaker, bytes: Option<Vec<u8>>) {
    let bytes: Option<Arc<[u8]>> = bytes.map(Into::into);
    let written = speaker.session.values().set(&counter(), Expected::Any, bytes);
    assert!(soon("the answer", written).await.expect("it can be written").is_some());
}

fn counter() -> QueueName {
    line("pool size")
}

/// The semaphore that the counter bounds.
fn counted(party: &Party) -> Semaphore {
    party.semaphore("pool", Permits::Counter("pool size".to_owned()))
}

async fn raised(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    count(&eve, 1).await;
    let held = soon("the grant", counted(&ann).acquire()).await.expect("it is granted");
    let first = bob.queue_up_for(counted(&bob).acquire_many_owned(2)).await;
    let second = ann.queue_up_for(counted(&ann).acquire_many_owned(1)).await;
    count(&eve, 2).await;
    yield_now().await;
    assert!(!first.is_finished() && !second.is_finished(), "two more are wanted");
    count(&eve, 3).await;
    let first = granted(first).await;
    assert!(!second.is_finished());
    count(&eve, 4).await;
    let second = granted(second).await;
    assert!(held.hold().is_held() && first.iter().chain(&second).all(|permit| permit.hold().is_held()));
    release(held).await;
    release_all(first).await;
    release_all(second).await;
    write(&eve, None).await;
}

async fn lowered(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Speaker::enter(fixture).await);
    count(&eve, 3).await;
    let semaphore = counted(&ann);
    let mut held = soon("the grant", semaphore.acquire_many(3)).await.expect("they are granted");
    count(&eve, 1).await;
    assert!(held.iter().all(|permit| permit.hold().is_held()));
    let waiting = bob.queue_up_for(counted(&bob).acquire_many_owned(1)).await;
    for left in [2, 1] {
        release(held.pop().expect("there were three")).await;
        assert!(in_vain(async || semaphore.acquire_timeout(IN_VAIN).await).await);
        assert!(!waiting.is_finished(), "{left} are held, and one is the most");
    }
    release_all(held).await;
    release_all(granted(waiting).await).await;
    write(&eve, None).await;
}

async fn nothing_to_grant(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let semaphore = counted(&ann);
    let written = |counter: i32| Some(counter.to_be_bytes().to_vec());
    for counter in [None, Some(Vec::new()), written(0), written(-7)] {
        write(&eve, counter.clone()).await;
        assert!(soon("the answer", semaphore.try_acquire()).await.expect("busy is no error").is_none());
        assert!(in_vain(async || semaphore.acquire_timeout(IN_VAIN).await).await, "with {counter:?}");
    }
    let waiting = ann.queue_up_for(semaphore.acquire_many_owned(1)).await;
    count(&eve, 1).await;
    release_all(granted(waiting).await).await;
    write(&eve, None).await;
}

async fn no_counter(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let semaphore = counted(&ann);
    for bytes in [&b"3"[..], b"\0\0\0\0\x03"] {
        write(&eve, Some(bytes.to_vec())).await;
        let tried = soon("the refusal", semaphore.try_acquire()).await.err();
        for error in [tried, soon("the refusal", semaphore.acquire()).await.err()] {
            let error = error.expect("a counter has four bytes");
            assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
        }
    }
    ann.until_contenders("pool", 0).await;
    write(&eve, None).await;
}
