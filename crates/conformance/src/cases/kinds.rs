//! Queues of another kind of lock: refused, and never waited in.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::{Advice, Entry, ErrorKind, Mode, Owner, QueueName, Session, Ticket};

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{Party, release, soon};

const LONG: Duration = Duration::from_secs(3600);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a mutex that meets a read/write lock's queue is refused and leaves nothing", refused),
        Case::new("a reader behind a mutex's holder does not disturb it", reader_behind),
    ]
}

/// Puts a contender of another kind into the queue, over the waist.
async fn enqueue(session: &Arc<dyn Session>, mode: Mode) -> Ticket {
    let queue = QueueName::new("door").expect("the name is one");
    let ticket = Ticket::mint().expect("the system gives randomness");
    let entry = Entry::new(ticket, mode, Arc::new(Owner::this_process()));
    soon("the place", session.enqueue(&queue, entry)).await.expect("the place is given");
    ticket
}

async fn withdraw(session: &Arc<dyn Session>, ticket: Ticket) {
    let queue = QueueName::new("door").expect("the name is one");
    soon("the withdrawal", session.withdraw(&queue, ticket)).await.expect("the place is left");
}

async fn refused(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let session = soon("the session", bob.client.backend().session()).await.expect("a session is opened");
    for mode in [Mode::Read, Mode::Write] {
        let ticket = enqueue(&session, mode).await;
        let shown = ann.keeper.contenders("door").await.expect("the queue can be looked at");
        assert_eq!(shown[0].mode, mode);
        let mutex = ann.mutex("door");
        let errors = [
            soon("the refusal", mutex.lock()).await.err(),
            soon("the refusal", mutex.try_lock()).await.err(),
            soon("the refusal", mutex.lock_timeout(LONG)).await.err(),
        ];
        for error in errors {
            let error = error.expect("it is another kind of lock");
            assert_eq!((error.kind(), error.advice()), (ErrorKind::KindMismatch, Advice::Permanent));
        }
        ann.until_contenders("door", 1).await;
        withdraw(&session, ticket).await;
        release(ann.lock("door").await).await;
    }
}

async fn reader_behind(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let session = soon("the session", bob.client.backend().session()).await.expect("a session is opened");
    let guard = ann.lock("door").await;
    let ticket = enqueue(&session, Mode::Read).await;
    assert!(guard.hold().is_held());
    withdraw(&session, ticket).await;
    release(guard).await;
}
