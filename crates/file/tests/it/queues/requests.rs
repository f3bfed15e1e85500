//! Requests to give up, and breaking.

use std::fs;
use std::io::Write;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ErrorKind, Liveness, LivenessAt, LossReason, Request, Revocation};

use crate::one_lock::{directory_of, leave_dead, lock, names_in, sessions};
use crate::support::{Place, backend, lock as hold};

fn yield_for(why: &str) -> Request {
    Request::Yield(Revocation::new(Some(why.to_owned()), Some(Duration::from_secs(90))))
}

#[tokio::test]
async fn of_two_requests_the_second_is_told_and_gone_with_the_contender_that_was_asked() {
    let (directory, [ours, theirs]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    for why in ["the first", "the second"] {
        assert!(soon("the answer", theirs.request(&lock(), &held.joined.id, yield_for(why))).await.unwrap());
        assert_eq!(soon("the request", held.joined.standing.revoked()).await.why.as_deref(), Some(why));
    }
    let infos = backend(directory.path()).admin().inspect(&lock()).await.unwrap();
    assert_eq!(infos[0].revocation.as_ref().unwrap().why.as_deref(), Some("the second"));
    held.leave().await.unwrap();
    let next = hold(&theirs, &lock()).await.unwrap();
    assert!(names_in(directory.path()).iter().all(|name| !name.starts_with(".ask-")), "the request was left");
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_left_when_the_last_contender_goes_goes_too() {
    let (directory, [ours]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    assert!(soon("the answer to the request", ours.request(&lock(), &held.joined.id, yield_for("x"))).await.unwrap());
    held.leave().await.unwrap();
    ours.close().await.unwrap();
    assert!(!directory_of(directory.path()).exists());
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_refused() {
    let (_directory, [ours]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    let error = soon("the answer to the request", ours.request(&lock(), &held.joined.id, yield_for(&"x".repeat(5000))))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
}

#[tokio::test]
async fn a_broken_holder_says_so_before_the_next_is_granted_the_lock() {
    let (_directory, [ours, theirs]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    // The holder's process does not end, and another one has the write end as well.
    let _lifeline = lockkeeper_file::lifeline(&*held.joined.standing).unwrap();
    let mut behind = Place::join(&theirs, &lock()).await.unwrap();
    let standing = held.joined.standing.clone();
    let granted = tokio::spawn(async move { behind.granted().await.map(|()| standing.liveness(LivenessAt::Now)) });
    let lost = tokio::spawn(held.joined.standing.lost());
    tokio::task::yield_now().await;
    let request = Request::Break { token: held.joined.token };
    assert!(soon("the answer to the request", theirs.request(&lock(), &held.joined.id, request)).await.unwrap());
    assert_eq!(soon("the grant", granted).await.unwrap().unwrap(), Liveness::Lost(LossReason::Broken));
    assert_eq!(soon("the loss", lost).await.unwrap(), LossReason::Broken);
}

#[tokio::test]
async fn one_whose_breaker_died_meanwhile_is_removed_before_the_next_is_granted_the_lock() {
    let (directory, [ours, theirs]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    let mut behind = Place::join(&theirs, &lock()).await.unwrap();
    let standing = held.joined.standing.clone();
    let granted = tokio::spawn(async move { behind.granted().await.map(|()| standing.liveness(LivenessAt::Now)) });
    tokio::task::yield_now().await;
    // The state after the breaker was killed right after it had set the mark.
    let path = directory_of(directory.path()).join(held.joined.id.as_str());
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all(&[2]).unwrap();
    assert_eq!(soon("the grant", granted).await.unwrap().unwrap(), Liveness::Lost(LossReason::Broken));
}

#[tokio::test]
async fn those_behind_one_that_was_removed_by_hand_are_told_when_it_notices() {
    let (directory, [ours, theirs]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    let mut behind = Place::join(&theirs, &lock()).await.unwrap();
    let granted = tokio::spawn(async move { behind.granted().await });
    tokio::task::yield_now().await;
    fs::remove_file(directory_of(directory.path()).join(held.joined.id.as_str())).unwrap();
    tokio::task::yield_now().await;
    assert!(!granted.is_finished(), "the holder has not noticed");
    assert_eq!(soon("the loss", held.joined.standing.lost()).await, LossReason::Removed);
    soon("the grant", granted).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dead_contender_can_neither_be_asked_nor_broken() {
    let (directory, [ours]) = sessions();
    let held = hold(&ours, &lock()).await.unwrap();
    let dead = lockkeeper_core::ContenderId::new(leave_dead(directory.path(), held.number() - 1, "mutex"));
    let token = lockkeeper_core::FencingToken::new(held.number() - 1, 0).unwrap();
    for request in [yield_for("x"), Request::Break { token }] {
        assert!(!soon("the answer to the request", ours.request(&lock(), &dead, request)).await.unwrap());
    }
    assert!(names_in(directory.path()).iter().all(|name| !name.starts_with(".ask-")));
}
