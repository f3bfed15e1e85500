//! An operator's view of a shared queue, and what it can do to it.

use lockkeeper_conformance::soon;
use lockkeeper_core::{ErrorKind, Revocation, Wait};
use lockkeeper_faults::etcd::Server;
use tempfile::tempdir;

use crate::etcdctl::{Etcdctl, etcdctl};
use crate::{keeper, until_contenders, until_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_hears_no_request_and_its_hold_can_be_broken_though_its_command_goes_on() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let notes = tempdir().expect("a folder");
    let (keeper, entered) = (keeper(server.address()), notes.path().join("entered"));
    let script = format!("touch {}; exec sleep 600", entered.display());
    let mut theirs = Etcdctl::start(server.address(), &["lock", "mutex1", "--", "sh", "-c", &script]);
    until_there(&entered).await;
    let asked = soon("the answer", keeper.admin().revoke("mutex1", Revocation::new(None, None), Wait::No)).await;
    let error = asked.expect_err("etcdctl hears nothing");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let token = keeper.contenders("mutex1").await.expect("a look")[0].token.expect("a token");
    soon("the breaking", keeper.admin().break_lock("mutex1", token)).await.expect("it held");
    let guard = soon("our grant", keeper.mutex("mutex1").expect("a name").lock()).await.expect("it is free");
    assert!(guard.fencing_token() > token);
    assert!(theirs.is_running(), "etcdctl does not look after its key");
    soon("the release", guard.release()).await.expect("it was held");
}

#[tokio::test]
async fn locks_are_found_among_other_programs_keys_and_nested_names_are_locks_of_their_own() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address());
    etcdctl(server.address(), &["put", "config/colour", "red"]).await;
    let theirs = Etcdctl::start(server.address(), &["lock", "jobs"]);
    until_contenders(&keeper, "jobs", 1).await;
    let nested = soon("our grant", keeper.mutex("jobs/nightly").expect("a name").lock()).await.expect("it is free");
    let found = keeper.admin().queues("").await.expect("a look");
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["jobs", "jobs/nightly"]);
    assert_eq!(keeper.admin().queues("jobs/").await.expect("a look").len(), 1);
    assert_eq!(keeper.contenders("jobs").await.expect("a look").len(), 1, "the nested one is none of this lock");
    soon("the release", nested.release()).await.expect("it was held");
    theirs.interrupt().await;
    until_contenders(&keeper, "jobs", 0).await;
}

#[tokio::test]
async fn a_name_among_our_own_keys_is_refused() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let keeper = keeper(server.address());
    let error = keeper.mutex("/lockkeeper/s").expect("a name").try_lock().await.expect_err("our keys lie there");
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    assert_eq!(keeper.contenders("/lockkeeper").await.expect_err("the same").kind(), ErrorKind::InvalidName);
    assert_eq!(keeper.rw_lock("jobs").expect_err("etcdctl has none").kind(), ErrorKind::Unsupported);
}
