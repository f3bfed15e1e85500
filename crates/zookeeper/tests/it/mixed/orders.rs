//! An operator's orders to a lock that real Curator and kazoo share with ours: revoke, break and freeze it.
//!
//! How such orders are written into nodes, and read from them, the backend's unit tests show.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, soon, until};
use lockkeeper_core::{Owner, Revocation, Wait};
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_recipes::{Keeper, LockKind};

use crate::support::Bench;

/// How long a client that is kept out must have waited: clients list and watch in a few milliseconds.
const KEPT_OUT: Duration = Duration::from_millis(300);

const PATH: &str = "/orders/lock";

fn keeper(bench: &Bench, settings: &str) -> Keeper {
    bench.neighbour(settings).keeper
}

fn please() -> Revocation {
    Revocation::new(Some("deploy".to_owned()), Some(Duration::from_secs(30)))
}

async fn until_queued(keeper: &Keeper, path: &str, count: usize) {
    until("the length of the queue", async || keeper.contenders(path).await.unwrap().len() == count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_revoker_reaches_our_holder_and_curator_is_let_in() {
    let Some(bench) = Bench::beside(&[curator::availability]).await else { return };
    let (mut curator, keeper) = (bench.curator().await, keeper(&bench, ""));
    let guard = keeper.mutex(PATH).unwrap().lock().await.unwrap();
    curator.revoke(&format!("{PATH}/{}", guard.hold().contender())).await.unwrap();
    assert_eq!(soon("the request", guard.hold().revoked()).await, Revocation::default(), "Curator gives no reason");
    assert!(guard.hold().is_held(), "it was asked, not taken away");
    assert!(!curator.try_lock(Kind::Mutex, PATH).await.unwrap());
    guard.release().await.unwrap();
    assert!(curator.lock(Kind::Mutex, PATH, SOON).await.unwrap());
    curator.release(Kind::Mutex, PATH).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocable_holder_of_curators_sees_our_request_and_gives_up() {
    let Some(bench) = Bench::beside(&[curator::availability]).await else { return };
    let (mut curator, keeper) = (bench.curator().await, keeper(&bench, ""));
    curator.make_revocable(Kind::Mutex, PATH).await.unwrap();
    assert!(curator.lock(Kind::Mutex, PATH, SOON).await.unwrap());
    assert!(!curator.revoked(Kind::Mutex, PATH, Duration::ZERO).await.unwrap(), "there was no request yet");
    let (answer, ()) = tokio::join!(keeper.admin().revoke(PATH, please(), Wait::AtMost(SOON)), async {
        assert!(curator.revoked(Kind::Mutex, PATH, SOON).await.unwrap());
        curator.release(Kind::Mutex, PATH).await.unwrap();
    });
    assert!(answer.unwrap().is_some());
    assert!(keeper.mutex(PATH).unwrap().try_lock().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_sees_no_requests_just_stays() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let keeper = keeper(&bench, "");
    for (mut peer, path) in [(bench.curator().await, "/orders/curators"), (bench.kazoo().await, "/orders/kazoos")] {
        assert!(peer.lock(Kind::MixedMutex, path, SOON).await.unwrap());
        assert!(answered(async || keeper.admin().revoke(path, please(), Wait::AtMost(KEPT_OUT)).await).await.is_none());
        let shown = keeper.contenders(path).await.unwrap();
        assert_eq!(shown[0].revocation, Some(Revocation::default()), "that it was asked can be seen");
        assert!(keeper.mutex(path).unwrap().try_lock().await.unwrap().is_none());
        peer.release(Kind::MixedMutex, path).await.unwrap();
        assert!(keeper.admin().revoke(path, please(), Wait::No).await.unwrap().is_some(), "no holder is left to ask");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_holder_keeps_its_owner_when_ours_asks_and_the_queue_behind_it_is_not_disturbed() {
    let Some(bench) = Bench::beside(&[curator::availability, kazoo::availability]).await else { return };
    let (keeper, operator) = (keeper(&bench, ""), keeper(&bench, ""));
    let (mut curator, mut kazoo) = (bench.curator().await, bench.kazoo().await);
    let guard = keeper.mutex(PATH).unwrap().lock().await.unwrap();
    let theirs = async {
        assert!(curator.lock(Kind::MixedMutex, PATH, SOON).await.unwrap());
        curator.release(Kind::MixedMutex, PATH).await.unwrap();
    };
    let others = async {
        assert!(kazoo.lock(Kind::MixedMutex, PATH, SOON).await.unwrap());
        kazoo.release(Kind::MixedMutex, PATH).await.unwrap();
    };
    let ours = async {
        until_queued(&operator, PATH, 3).await;
        let (answer, ()) = tokio::join!(operator.admin().revoke(PATH, please(), Wait::AtMost(SOON)), async {
            assert_eq!(soon("the request", guard.hold().revoked()).await, please());
            let shown = operator.contenders(PATH).await.unwrap();
            assert_eq!(shown.len(), 3, "who waits for it waits on");
            assert_eq!(shown[0].owner.as_ref(), Some(&Owner::this_process()));
            assert_eq!(shown[0].revocation, Some(please()));
            guard.release().await.unwrap();
        });
        assert!(answer.unwrap().is_some());
    };
    tokio::join!(theirs, others, ours);
    until_queued(&operator, PATH, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_curators_is_broken_by_its_token_and_ours_is_next() {
    let Some(bench) = Bench::beside(&[curator::availability]).await else { return };
    let (keeper, operator, mut curator) = (keeper(&bench, ""), keeper(&bench, ""), bench.curator().await);
    assert!(curator.lock(Kind::Mutex, PATH, SOON).await.unwrap());
    let mutex = keeper.mutex(PATH).unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_queued(&operator, PATH, 2).await;
    let token = operator.contenders(PATH).await.unwrap()[0].token.expect("the service shows it");
    let broken = operator.admin().break_lock(PATH, token).await.unwrap();
    assert_eq!(curator.node(Kind::Mutex, PATH).await.unwrap(), format!("{PATH}/{}", broken.id));
    let guard = soon("our grant", waiting).await.unwrap().unwrap();
    assert!(guard.fencing_token() > token, "what Curator still writes is told apart by its token");
}

/// Freezes a lock by a client that goes away; a peer stays out, is told why by ours, and gets in when it is thawed.
async fn stays_out_of_a_frozen_lock(bench: &Bench, path: &str, ours: (&str, LockKind), peer: &mut Peer, theirs: Kind) {
    let what = format!("{ours:?} {theirs:?}");
    let (settings, kind) = ours;
    let operator = keeper(bench, settings);
    let frozen =
        operator.admin().freeze(path, kind, "moving disks", Wait::AtMost(SOON)).await.unwrap().expect("it is free");
    operator.close().await.unwrap();
    let operator = keeper(bench, settings);
    assert!(!peer.try_lock(theirs, path).await.unwrap(), "{what}");
    assert!(!peer.lock(theirs, path, KEPT_OUT).await.unwrap(), "{what}");
    let (granted, thawed) = tokio::join!(peer.lock(theirs, path, SOON), async {
        until_queued(&operator, path, 2).await;
        let shown = operator.contenders(path).await.unwrap();
        assert_eq!((&shown[0].id, shown[0].frozen.as_deref()), (&frozen.id, Some("moving disks")), "{what}");
        operator.admin().thaw(path).await.unwrap()
    });
    assert!(granted.unwrap(), "{what}");
    assert_eq!(thawed.iter().map(|thawed| &thawed.id).collect::<Vec<_>>(), [&frozen.id], "{what}");
    peer.release(theirs, path).await.unwrap();
    until_queued(&operator, path, 0).await;
    assert!(operator.admin().thaw(path).await.unwrap().is_empty(), "it is not frozen any more");
}

/// Each kind of lock, frozen in ours with these settings, is tried as the peer has it.
async fn stays_out_of_all(bench: &Bench, peer: &mut Peer, kinds: &[(&str, LockKind, Kind)]) {
    for (number, &(settings, kind, theirs)) in kinds.iter().enumerate() {
        stays_out_of_a_frozen_lock(bench, &format!("/orders/{number}"), (settings, kind), peer, theirs).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_stays_out_of_frozen_locks_of_every_kind_and_gets_in_after_the_thaw() {
    let kinds = [
        ("", LockKind::Mutex, Kind::Mutex),
        ("", LockKind::ReadWrite, Kind::Read),
        ("", LockKind::ReadWrite, Kind::Write),
        ("", LockKind::Semaphore, Kind::Semaphore { permits: 2 }),
        ("", LockKind::Semaphore, Kind::SemaphoreMutex),
        ("", LockKind::Election, Kind::LeaderLatch),
        ("?election=selector", LockKind::Election, Kind::LeaderSelector),
    ];
    let Some(bench) = Bench::beside(&[curator::availability]).await else { return };
    stays_out_of_all(&bench, &mut bench.curator().await, &kinds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_with_its_keyword_stays_out_of_frozen_locks_and_gets_in_after_the_thaw() {
    let kinds = [
        ("", LockKind::Mutex, Kind::MixedMutex),
        ("", LockKind::ReadWrite, Kind::MixedRead),
        ("", LockKind::ReadWrite, Kind::MixedWrite),
        ("?layout=kazoo", LockKind::Mutex, Kind::Mutex),
        ("?layout=kazoo", LockKind::ReadWrite, Kind::Read),
        ("?layout=kazoo", LockKind::ReadWrite, Kind::Write),
        ("?layout=kazoo", LockKind::Semaphore, Kind::Semaphore { permits: 2 }),
        ("?layout=kazoo", LockKind::Election, Kind::Election),
    ];
    let Some(bench) = Bench::beside(&[kazoo::availability]).await else { return };
    stays_out_of_all(&bench, &mut bench.kazoo().await, &kinds).await;
}
