//! `etcdctl` and ours count one file up under one lock: a number that is lost shows two holders.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use lockkeeper_conformance::soon;
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::{figures, long};
use tempfile::tempdir;

use crate::etcdctl::etcdctl;
use crate::keeper;

/// How far they count in the long run; the plain one goes a tenth of it.
const COUNT: u32 = 200;

/// How many count at the same time: two of each kind.
const COUNTING: u32 = 4;

/// Reads, waits for the disk and writes, so that two at once lose a number.
const SCRIPT: &str = r#"read number < "$0"; sync "$0"; echo $((number + 1)) > "$0""#;

async fn theirs(address: SocketAddr, file: &Path, turns: u32) {
    let file = file.display().to_string();
    for _ in 0..turns {
        etcdctl(address, &["lock", "count", "--", "sh", "-c", SCRIPT, &file]).await;
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
