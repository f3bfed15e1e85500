//! Access to a lock's nodes: all users, or only the URL's user.

use lockkeeper_conformance::{soon, until};
use lockkeeper_core::{ErrorKind, QueueName};
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_proto::message::{Acl, ErrorCode};
use lockkeeper_zookeeper::Client;

use super::SERVER;
use crate::support::{Bench, way};

fn keeper_of(user: &str, bench: &Bench, settings: &str) -> Keeper {
    way::party(format!("{user}{}", bench.servers()), settings).keeper
}

async fn acls(operator: &Client, path: &str) -> Vec<Acl> {
    operator.get_acl(path).await.unwrap().0
}

async fn contender(keeper: &Keeper, lock: &str) -> String {
    keeper.contenders(lock).await.unwrap()[0].id.to_string()
}

#[tokio::test]
async fn nodes_are_open_to_all_users_unless_the_url_says_otherwise() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let operator = bench.operator().await;
    let ann = keeper_of("ann:secret@", &bench, "");
    let guard = ann.mutex("door").unwrap().lock().await.unwrap();
    let node = contender(&ann, "door").await;
    for path in ["/lockkeeper", "/lockkeeper/door", &format!("/lockkeeper/door/{node}")] {
        assert_eq!(acls(&operator, path).await, [Acl::open()], "{path}");
    }
    let stranger = keeper_of("", &bench, "");
    assert!(stranger.mutex("door").unwrap().try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_lock_of_its_creators_is_shared_by_them_and_refused_to_strangers() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let operator = bench.operator().await;
    operator.add_auth("digest", b"ann:secret").await.unwrap();
    let [ann, twin] = [(); 2].map(|()| keeper_of("ann:secret@", &bench, "?acl=creator"));
    let stranger = keeper_of("bob:other@", &bench, "?acl=creator");
    let guard = ann.mutex("door").unwrap().lock().await.unwrap();
    let permit = ann.semaphore("pool", 1).unwrap().acquire().await.unwrap();
    let node = contender(&ann, "door").await;
    // The nodes above the locks are for all users who have other locks there.
    assert_eq!(acls(&operator, "/lockkeeper").await, [Acl::open()]);
    for path in ["door", &format!("door/{node}"), "pool", "pool/leases"] {
        let acl = acls(&operator, &format!("/lockkeeper/{path}")).await;
        assert!(acl.len() == 1 && acl[0].id.id.starts_with("ann:"), "{path}: {acl:?}");
    }
    assert_eq!(
        bench.operator().await.delete("/lockkeeper/door", None).await.unwrap_err().code(),
        Some(ErrorCode::NotEmpty)
    );
    for error in [
        soon("the refusal", stranger.mutex("door").unwrap().lock()).await.unwrap_err(),
        soon("the refusal", stranger.semaphore("pool", 1).unwrap().acquire()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    }
    let waits = tokio::spawn({
        let twin = twin.clone();
        async move { twin.mutex("door").unwrap().lock().await.unwrap().release().await }
    });
    guard.release().await.unwrap();
    soon("the twin's grant", waits).await.unwrap().unwrap();
    permit.release().await.unwrap();
    // Another user's lock belongs to that user.
    let other = stranger.mutex("window").unwrap().lock().await.unwrap();
    assert_eq!(other.hold().name(), &QueueName::new("window").unwrap());
}

#[tokio::test]
async fn a_waiter_behind_a_contender_that_it_may_not_read_is_granted_the_lock_after_it() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let [ann, bob] = ["ann:secret@", "bob:other@"].map(|user| keeper_of(user, &bench, ""));
    let guard = ann.mutex("door").unwrap().lock().await.unwrap();
    let operator = bench.operator().await;
    operator.add_auth("digest", b"ann:secret").await.unwrap();
    let node = format!("/lockkeeper/door/{}", contender(&ann, "door").await);
    operator.set_acl(&node, vec![Acl::creator()], None).await.unwrap();
    let waiter = {
        let bob = bob.clone();
        tokio::spawn(async move { bob.mutex("door").unwrap().lock().await })
    };
    until("the waiter's join", async || bob.contenders("door").await.unwrap().len() == 2).await;
    assert!(bob.contenders("door").await.unwrap()[0].owner.is_none(), "it may not be read");
    assert!(bob.mutex("door").unwrap().try_lock().await.unwrap().is_none());
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    soon("the grant", waiter).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn an_election_of_its_creators_is_theirs() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = keeper_of("ann:secret@", &bench, "?acl=creator");
    let leads = ann.election("boss").unwrap().campaign().await.unwrap();
    let operator = bench.operator().await;
    operator.add_auth("digest", b"ann:secret").await.unwrap();
    let node = contender(&ann, "boss").await;
    for path in ["/lockkeeper/boss".to_owned(), format!("/lockkeeper/boss/{node}")] {
        let acl = acls(&operator, &path).await;
        assert!(acl.len() == 1 && acl[0].id.id.starts_with("ann:"), "{path}: {acl:?}");
    }
    let stranger = keeper_of("", &bench, "");
    let error = soon("the refusal", stranger.election("boss").unwrap().campaign()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    leads.resign().await.unwrap();
}
