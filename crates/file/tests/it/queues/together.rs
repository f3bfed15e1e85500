//! Parts of a lock, and entries that are made together.

use std::fs;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ErrorKind, Extent, Freshness, Mode, Part, Rank};

use crate::one_lock::{directory_of, entry, frozen, join, leave_dead, lock, names_in, sessions};
use crate::support::{Place, backend};

#[tokio::test]
async fn dead_contenders_of_another_kind_of_lock_do_not_count_as_a_lock_of_that_kind() {
    let (directory, [ours]) = sessions();
    let place = Place::join(&ours, &lock()).await.unwrap();
    for look in [false, true] {
        leave_dead(directory.path(), place.number() - 2, "permit@permits");
        leave_dead(directory.path(), place.number() - 1, "read");
        let view = match look {
            false => join(&ours, &lock(), entry(Mode::Mutex)).await.view,
            true => ours.view(&lock(), Freshness::Latest, Extent::Whole).await.unwrap(),
        };
        assert_eq!(view.elsewhere, None);
        assert!(view.contenders.iter().all(|contender| contender.mode == Mode::Mutex), "{view:?}");
        assert!(names_in(directory.path()).iter().all(|name| !name.contains("4121")), "dead contenders were left");
    }
}

#[tokio::test]
async fn dead_members_are_not_counted() {
    let (directory, [ours]) = sessions();
    let first = join(&ours, &lock(), entry(Mode::Member)).await;
    leave_dead(directory.path(), first.token.as_u64() - 1, "member");
    let second = join(&ours, &lock(), entry(Mode::Member)).await;
    assert_eq!(second.view.contenders.len(), 2);
}

#[tokio::test]
async fn what_was_being_made_together_when_its_maker_died_is_never_seen_and_tidied_up() {
    let (directory, [ours]) = sessions();
    let held = Place::join(&ours, &lock()).await.unwrap();
    let path = directory_of(directory.path());
    // The state after the maker was killed after the first of several, which would have outlived it.
    let first = held.number() + 1;
    fs::write(path.join(format!("{first:020}-{:032x}-mutex+frozen-4121-web-backup", 7)), "moving\n").unwrap();
    fs::write(path.join(format!(".new-batch-{first:020}")), "").unwrap();
    assert_eq!(ours.view(&lock(), Freshness::Latest, Extent::Whole).await.unwrap().contenders.len(), 1);
    assert_eq!(backend(directory.path()).admin().inspect(&lock()).await.unwrap().len(), 1);
    // The counter gives its number again, to another.
    let next = Place::join(&ours, &lock()).await.unwrap();
    assert_eq!((next.number(), next.joined.view.contenders.len()), (first, 2));
    assert_eq!(ours.view(&lock(), Freshness::Latest, Extent::Whole).await.unwrap().contenders.len(), 2);
    assert_eq!(names_in(directory.path()).len(), 3, "two places and the flock's file");
}

#[tokio::test]
async fn an_error_in_the_middle_leaves_none_of_those_made_together() {
    let (directory, [ours]) = sessions();
    let _held = Place::join(&ours, &lock()).await.unwrap();
    let before = names_in(directory.path());
    let good = [entry(Mode::Mutex), frozen("moving")];
    // A directory in the place of a file that has to be made.
    let bad = entry(Mode::Mutex);
    fs::create_dir(directory_of(directory.path()).join(format!(".new-{}", bad.ticket))).unwrap();
    let [first, second] = good;
    let error = soon("the places", ours.enqueue(&lock(), vec![first, second, bad])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    fs::remove_dir(directory_of(directory.path()).join(names_in(directory.path()).swap_remove(1))).unwrap();
    assert_eq!(names_in(directory.path()), before);
    assert_eq!(ours.view(&lock(), Freshness::Latest, Extent::Whole).await.unwrap().contenders.len(), 1);
}

#[tokio::test]
async fn many_made_together_are_one_step_for_an_observer() {
    let (_directory, [ours, theirs]) = sessions();
    let entries: Vec<_> = (0..200).map(|_| entry(Mode::Permit)).collect();
    let permits = lock().with_part(Part::Permits);
    let onlooker = tokio::task::spawn_blocking({
        let permits = permits.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            loop {
                match runtime
                    .block_on(theirs.view(&permits, Freshness::Latest, Extent::Whole))
                    .unwrap()
                    .contenders
                    .len()
                {
                    0 => {}
                    seen => return seen,
                }
            }
        }
    });
    let joined = soon("the places", ours.enqueue(&permits, entries)).await.unwrap();
    assert_eq!((joined.len(), soon("the change", onlooker).await.unwrap()), (200, 200));
    assert!(joined.is_sorted_by(|earlier, later| earlier.token < later.token));
}

#[tokio::test]
async fn a_place_is_shared_only_with_one_of_the_same_session_in_the_same_queue() {
    let (_directory, [ours, theirs]) = sessions();
    let anchor = join(&ours, &lock(), entry(Mode::Write)).await;
    let with = || {
        let mut entry = entry(Mode::Read);
        entry.rank = Rank::With(anchor.id.clone());
        entry
    };
    let elsewhere = lock().with_part(Part::Waiters);
    for (session, queue) in [(&theirs, &lock()), (&ours, &elsewhere)] {
        assert_eq!(soon("the place", session.enqueue_one(queue, with())).await.unwrap_err().kind(), ErrorKind::Removed);
    }
    assert_eq!(join(&ours, &lock(), with()).await.token, anchor.token);
}
