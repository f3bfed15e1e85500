//! A follower sees `etcdctl` come and go, as it does ours.

use lockkeeper_conformance::soon;
use lockkeeper_core::Answers;
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::Onlooker;
use tempfile::tempdir;

use crate::etcdctl::{Etcdctl, etcdctl};
use crate::service::ETCD;
use crate::{keeper, until_contenders, until_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_is_told_of_etcdctl_and_of_a_stray_key_as_a_look_shows_them() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let notes = tempdir().expect("a folder");
    let (address, keeper) = (server.address(), keeper(server.address()));
    etcdctl(address, &["put", "jobs/stray", "no contender"]).await;
    etcdctl(address, &["put", "else/stray", "no contender"]).await;
    let mut onlooker = Onlooker::begin(ETCD.backend(&[address], "layout=etcdctl")).await;
    onlooker.until_equal().await;
    assert!(onlooker.picture.locks().is_empty(), "{:?}", onlooker.picture);

    let [entered, go] = ["entered", "go"].map(|name| notes.path().join(name));
    etcdctl(address, &["del", "jobs/stray"]).await;
    let script = format!("touch {}; until [ -e {} ]; do sleep 0.02; done", entered.display(), go.display());
    let theirs = Etcdctl::start(address, &["lock", "jobs", "--", "sh", "-c", &script]);
    until_there(&entered).await;
    let mutex = keeper.mutex("jobs").expect("a name");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_contenders(&keeper, "jobs", 2).await;
    etcdctl(address, &["put", "jobs/stray", "no contender"]).await;
    onlooker.until_equal().await;
    let (name, shown) = onlooker.picture.locks().first_key_value().expect("a lock");
    assert_eq!((name.as_str(), onlooker.picture.locks().len()), ("jobs", 1));
    let answers: Vec<_> = shown.iter().map(|info| info.answers).collect();
    assert_eq!(answers, [Answers::No, Answers::Yes, Answers::No], "{shown:?}");

    etcdctl(address, &["del", "jobs/stray"]).await;
    std::fs::write(&go, "").expect("written");
    theirs.end().await;
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    onlooker.until_equal().await;
    soon("the release", guard.release()).await.expect("it was held");
    onlooker.until_equal().await;
    assert!(onlooker.picture.locks().is_empty(), "{:?}", onlooker.picture);
}
