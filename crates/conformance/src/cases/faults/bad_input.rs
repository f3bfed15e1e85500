//! Requests that can never be granted, and holds that are over: refused with their kind of error, and nothing is left
//! held.

use lockkeeper_core::{Advice, ENTRIES_MAX, Error, ErrorKind, Modes, Wait};
use lockkeeper_recipes::Permits;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, parties, release_all};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a semaphore of no permits is refused when it is made", no_permits).uses(Modes::SEMAPHORE),
        Case::new("asking for no permit, or for more than there are, is refused at once", can_never_fit)
            .uses(Modes::SEMAPHORE),
        Case::new("guards of every kind used after their session's end say that they are lost", used_after_loss)
            .given_back()
            .uses(Modes::MUTEX.with(Modes::READ_WRITE).with(Modes::SEMAPHORE))
            .needs(&[FaultKind::ExpireSession]),
    ]
}

fn assert_invalid(error: Option<Error>) {
    let error = error.expect("it can never be granted");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
}

async fn no_permits(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    assert_invalid(ann.keeper.semaphore("pool", 0).err());
    for counter in ["", "a\nb"] {
        let error = ann.keeper.semaphore("pool", Permits::Counter(counter.to_owned())).err();
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::InvalidName), "{counter:?}");
    }
}

async fn can_never_fit(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let few = ann.semaphore("pool", 3);
    let many = ann.semaphore("lake", u32::MAX);
    let one_too_many = ENTRIES_MAX as u32 + 1;
    for (semaphore, wanted) in [(&few, 0), (&few, 4), (&few, u32::MAX), (&many, one_too_many), (&many, u32::MAX)] {
        assert_invalid(soon("the refusal", semaphore.acquire_many(wanted)).await.err());
        assert_invalid(soon("the refusal", semaphore.acquire_many_within(wanted, Wait::No)).await.err());
        let long = std::time::Duration::from_secs(3600);
        assert_invalid(soon("the refusal", semaphore.acquire_many_within(wanted, Wait::AtMost(long))).await.err());
    }
    assert_eq!((ann.tap.joins(), ann.journal.count(is_joined)), (0, 0), "the service need not be asked");
    let all = soon("the answer", few.acquire_many_within(3, Wait::No)).await.expect("it does not fail");
    release_all(all.expect("all are free")).await;
}

async fn used_after_loss(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mutex = ann.lock("door").await;
    let (reader, writer) = (ann.read("book").await, ann.write("page").await);
    let permit = soon("the grant", ann.semaphore("pool", 1).acquire()).await.expect("it is granted");
    ann.inflict(Fault::ExpireSession).await;
    for hold in [mutex.hold(), reader.hold(), writer.hold(), permit.hold()] {
        soon("the loss", hold.lost()).await;
        assert!(!hold.is_held() && hold.safe_for() == Some(std::time::Duration::ZERO));
    }
    // Others hold what was lost; the end of the lost guards takes nothing from them.
    let others = (bob.lock("door").await, bob.write("book").await, bob.write("page").await);
    let other = soon("the grant", bob.semaphore("pool", 1).acquire()).await.expect("it is granted");
    let errors = [
        soon("the release", mutex.release()).await.err(),
        soon("the release", reader.release()).await.err(),
        soon("the refusal", writer.downgrade()).await.err(),
        soon("the release", permit.release()).await.err(),
    ];
    for error in errors {
        let error = error.expect("it was lost");
        assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error:?}");
    }
    assert!(others.0.hold().is_held() && others.1.hold().is_held() && others.2.hold().is_held());
    assert!(other.hold().is_held());
    for lock in ["door", "book", "page", "pool"] {
        assert_eq!(bob.contenders(lock).await, 1, "{lock}");
    }
}
