//! Places that outlive every process.

use std::fs;

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{Backend, ConnectionNumber, Departure, ErrorKind, Liveness, LivenessAt, LossReason, Request};
use tempfile::tempdir;

use crate::one_lock::{directory_of, frozen, join, lock, names_in, sessions};
use crate::support::{Place, backend, session};

#[tokio::test]
async fn a_frozen_place_is_thawed_by_any_session_and_wakes_those_behind_it() {
    let directory = tempdir().unwrap();
    for breaks in [false, true] {
        let (maker, waiting) = (session(directory.path()), session(directory.path()));
        let entry = frozen("moving house");
        let ticket = entry.ticket;
        let ice = join(&maker, &lock(), entry).await;
        maker.close().await.unwrap();
        drop(maker);
        let mut behind = Place::join(&waiting, &lock()).await.unwrap();
        let granted = tokio::spawn(async move { behind.granted().await.map(|()| behind) });
        let infos = backend(directory.path()).admin().inspect(&lock()).await.unwrap();
        assert_eq!((&infos[0].id, infos[0].frozen.as_deref()), (&ice.id, Some("moving house")));
        assert_eq!((infos.len(), infos[1].frozen.as_deref()), (2, None));
        let other = session(directory.path());
        if breaks {
            assert!(
                soon("the break", other.request(&lock(), &ice.id, Request::Break { token: ice.token })).await.unwrap()
            );
        } else {
            soon("the withdrawal", other.withdraw(&lock(), ticket)).await.unwrap();
        }
        soon("the grant", granted).await.unwrap().unwrap().leave().await.unwrap();
        waiting.close().await.unwrap();
        assert_eq!(names_in(directory.path()), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_directory_goes_with_a_frozen_place_whose_maker_is_gone() {
    let (directory, [maker]) = sessions();
    let entry = frozen("moving house");
    let ticket = entry.ticket;
    join(&maker, &lock(), entry).await;
    maker.close().await.unwrap();
    assert_eq!(names_in(directory.path()).len(), 2);
    soon("the withdrawal", session(directory.path()).withdraw(&lock(), ticket)).await.unwrap();
    assert!(!directory_of(directory.path()).exists());
}

#[tokio::test]
async fn its_maker_is_told_why_it_is_gone_while_it_lives() {
    let (directory, [maker, other]) = sessions();
    for breaks in [false, true] {
        let ice = join(&maker, &lock(), frozen("")).await;
        assert!(lockkeeper_file::lifeline(&*ice.standing).is_none(), "no process keeps it");
        let lost = tokio::spawn(ice.standing.lost());
        tokio::task::yield_now().await;
        if breaks {
            assert!(
                soon("the break", other.request(&lock(), &ice.id, Request::Break { token: ice.token })).await.unwrap()
            );
        } else {
            fs::remove_file(directory_of(directory.path()).join(ice.id.as_str())).unwrap();
        }
        let reason = if breaks { LossReason::Broken } else { LossReason::Removed };
        assert_eq!(soon("the loss", lost).await.unwrap(), reason);
        assert_eq!(ice.standing.liveness(LivenessAt::Now), Liveness::Lost(reason));
    }
}

#[tokio::test]
async fn one_whose_breaker_died_meanwhile_is_removed_by_the_first_that_meets_it() {
    let (directory, [maker, waiting]) = sessions();
    let ice = join(&maker, &lock(), frozen("moving")).await;
    // The state after the breaker was killed right after it had set the mark.
    fs::write(directory_of(directory.path()).join(ice.id.as_str()), "").unwrap();
    assert!(backend(directory.path()).admin().inspect(&lock()).await.unwrap().is_empty());
    let departure =
        soon("the departure", waiting.departure(&lock(), None, &ice.id, ConnectionNumber(0))).await.unwrap();
    assert_eq!(departure, Departure::Gone);
    assert_eq!(ice.standing.liveness(LivenessAt::Now), Liveness::Lost(LossReason::Broken));
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_refused_and_nothing_made() {
    let directory = tempdir().unwrap();
    let error =
        soon("the place", session(directory.path()).enqueue_one(&lock(), frozen(&"x".repeat(5000)))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    assert_eq!(names_in(directory.path()), Vec::<String>::new());
}

#[tokio::test]
async fn one_that_is_kept_takes_no_file_descriptor_of_its_maker() {
    let (directory, [maker, other]) = sessions();
    let opened = || {
        let files = fs::read_dir("/proc/self/fd").unwrap();
        let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(directory.path())).count()
    };
    // The maker keeps open what its next join uses: the counter, the queue's directory, and the file of its flock.
    let expected = opened() + 3;
    for _ in 0..3 {
        let entry = frozen("moving house");
        let ticket = entry.ticket;
        join(&maker, &lock(), entry).await;
        maker.keep(&lock(), ticket);
        // The thread that made the entry may still be ending, with its own opening of the counter.
        until("the end of that thread", async || opened() == expected).await;
        soon("the withdrawal", other.withdraw(&lock(), ticket)).await.unwrap();
    }
    let entry = frozen("moving house");
    let ticket = entry.ticket;
    join(&maker, &lock(), entry).await;
    maker.keep(&lock(), ticket);
    maker.close().await.unwrap();
    assert_eq!(backend(directory.path()).admin().inspect(&lock()).await.unwrap().len(), 1, "it stays");
    soon("the withdrawal", other.withdraw(&lock(), ticket)).await.unwrap();
}
