//! Turns of ours and of `etcdctl`, which keep each other out and stand in one order; what an operator and a follower
//! see of them; and a count that both bring up, of which a lost number shows two holders.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Answers, ErrorKind, Mode, Revocation, Wait};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::{figures, long};
use lockkeeper_trials::Onlooker;
use tempfile::tempdir;

use crate::service::ETCD;
use crate::{Etcdctl, etcdctl, keeper, until_contenders, until_there};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_etcdctl_holds_keeps_ours_out_and_all_are_served_in_one_order() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let notes = tempdir().expect("a folder");
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
    fs::write(&go, "").expect("written");
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
    let Some(server) = Server::standalone_or_skip().await else { return };
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
    fs::write(&go, "").expect("written");
    theirs.end().await;
    let guard = soon("our grant", waiting).await.expect("no panic").expect("it is granted");
    onlooker.until_equal().await;
    soon("the release", guard.release()).await.expect("it was held");
    onlooker.until_equal().await;
    assert!(onlooker.picture.locks().is_empty(), "{:?}", onlooker.picture);
}

/// How far they count in the long run; the plain one goes a tenth of it.
const COUNT: u32 = 200;

/// How many count at the same time: two of each kind.
const COUNTING: u32 = 4;

/// Reads, waits for the disk and writes, so that two at once lose a number.
const COUNT_UP: &str = r#"read number < "$0"; sync "$0"; echo $((number + 1)) > "$0""#;

async fn theirs(address: SocketAddr, file: &Path, turns: u32) {
    let file = file.display().to_string();
    for _ in 0..turns {
        etcdctl(address, &["lock", "count", "--", "sh", "-c", COUNT_UP, &file]).await;
    }
}

async fn ours(address: SocketAddr, file: &Path, turns: u32) {
    let mutex = keeper(address).mutex("count").expect("a name");
    for _ in 0..turns {
        let guard = soon("our grant", mutex.lock()).await.expect("it is granted");
        let number: u32 = fs::read_to_string(file).expect("the file").trim().parse().expect("a number");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        fs::write(file, format!("{}\n", number + 1)).expect("written");
        soon("the release", guard.release()).await.expect("it was held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_and_ours_lose_no_number_when_they_count_together() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let folder = tempdir().expect("a folder");
    let (address, file) = (server.address(), folder.path().join("count"));
    fs::write(&file, "0\n").expect("written");
    let turns = long::rounds(COUNT) / COUNTING;
    tokio::join!(
        theirs(address, &file, turns),
        theirs(address, &file, turns),
        ours(address, &file, turns),
        ours(address, &file, turns),
    );
    let counted = fs::read_to_string(&file).expect("the file");
    assert_eq!(counted, format!("{}\n", turns * COUNTING));
    figures::tell(&format!("etcdctl and ours: {} counted together, none lost", counted.trim()));
}
