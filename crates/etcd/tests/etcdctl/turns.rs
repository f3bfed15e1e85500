//! Who goes when: ours and `etcdctl` keep each other out, and stand in one order.

use lockkeeper_conformance::soon;
use lockkeeper_core::Mode;
use lockkeeper_faults::etcd::Server;
use tempfile::tempdir;

use crate::client::can_run;

use crate::etcdctl::Etcdctl;
use crate::{keeper, until_contenders, until_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_ours_holds_keeps_etcdctl_out_until_it_is_given_back() {
    if !can_run() {
        return;
    }
    let (server, notes) = (Server::standalone().await.expect("a server"), tempdir().expect("a folder"));
    let (keeper, entered) = (keeper(server.address()), notes.path().join("entered"));
    let mutex = keeper.mutex("mutex1").expect("a name");
    let guard = soon("our grant", mutex.lock()).await.expect("it is free");
    let shown = entered.display().to_string();
    let theirs = Etcdctl::start(server.address(), &["lock", "mutex1", "--", "touch", &shown]);
    until_contenders(&keeper, "mutex1", 2).await;
    assert!(guard.hold().is_held() && !entered.exists(), "we hold it");
    soon("the release", guard.release()).await.expect("it was held");
    theirs.end().await;
    assert!(entered.exists(), "it was granted to etcdctl");
    until_contenders(&keeper, "mutex1", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_etcdctl_holds_keeps_ours_out_and_all_are_served_in_one_order() {
    if !can_run() {
        return;
    }
    let (server, notes) = (Server::standalone().await.expect("a server"), tempdir().expect("a folder"));
    let keeper = keeper(server.address());
    let mutex = keeper.mutex("jobs/nightly").expect("a name");
    let [entered, go, last] = ["entered", "go", "last"].map(|name| notes.path().join(name));
    let script = format!("touch {}; until [ -e {} ]; do sleep 0.02; done", entered.display(), go.display());
    let first = Etcdctl::start(server.address(), &["lock", "jobs/nightly", "--", "sh", "-c", &script]);
    until_there(&entered).await;
    assert!(soon("the look", mutex.try_lock()).await.expect("a look").is_none(), "etcdctl holds it");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_contenders(&keeper, "jobs/nightly", 2).await;
    let third = Etcdctl::start(server.address(), &["lock", "jobs/nightly", "--", "touch", &last.display().to_string()]);
    until_contenders(&keeper, "jobs/nightly", 3).await;
    let shown = keeper.contenders("jobs/nightly").await.expect("a look");
    let is_ours: Vec<_> = shown.iter().map(|contender| contender.ticket.is_some()).collect();
    assert_eq!(is_ours, [false, true, false]);
    let (named, _) = shown[0].id.as_str().split_once(':').expect("an identity");
    assert_eq!(Some(named), shown[0].session.as_deref(), "it is named by its lease");
    assert!(shown.windows(2).all(|pair| pair[0].token < pair[1].token), "{shown:?}");
    assert!(!waiting.is_finished());
    std::fs::write(&go, "").expect("written");
    first.end().await;
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    assert_eq!(Some(guard.fencing_token()), shown[1].token);
    assert!(!last.exists(), "we hold it");
    soon("the release", guard.release()).await.expect("it was held");
    third.end().await;
    assert!(last.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_of_etcdctl_and_one_of_ours_lead_one_after_the_other() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let keeper = keeper(server.address());
    let election = keeper.election("leader").expect("a name");
    let leading = soon("our lead", election.campaign()).await.expect("no one leads");
    let theirs = Etcdctl::start(server.address(), &["elect", "leader", "theirs"]);
    until_contenders(&keeper, "leader", 2).await;
    assert_eq!(theirs.printed(), "", "we lead");
    soon("the end of our lead", leading.resign()).await.expect("it was held");
    let elected = async || theirs.printed().contains("theirs").then_some(());
    lockkeeper_faults::wait::until("their lead", crate::SOON, elected).await.expect("they lead");
    let again = keeper.election("leader").expect("a name");
    let campaigning = tokio::spawn(async move { again.campaign().await });
    until_contenders(&keeper, "leader", 2).await;
    assert!(!campaigning.is_finished(), "etcdctl leads");
    theirs.interrupt().await;
    let leading = soon("our lead", campaigning).await.expect("no panic").expect("they resigned");
    // A mutex of etcdctl looks like a candidate, to it and to us: the later one waits.
    let mutex = keeper.mutex("leader").expect("a name");
    assert!(soon("the look", mutex.try_lock()).await.expect("they look alike").is_none());
    assert_eq!(keeper.contenders("leader").await.expect("a look")[0].mode, Mode::Mutex);
    soon("the end of our lead", leading.resign()).await.expect("it was held");
}
