//! Nodes that move from `lockkeeper server` to Apache ZooKeeper and back, by `contrib/zookeeper/move.py`.

use std::process::Command;

use lockkeeper_faults::peers::kazoo;
use lockkeeper_zk_server::EmbeddedServer;

use crate::support::{Running, can_run, finish};
use crate::zookeeper::server;

/// The program that users run.
const PROGRAM: &str = include_str!("../../../../contrib/zookeeper/move.py");
/// Nodes with what a copy must keep: data that is no text, access lists, depth; and what it leaves out.
const MAKE: &str = r#"
import sys
from kazoo.client import KazooClient
from kazoo.security import make_acl, make_digest_acl
client = KazooClient(sys.argv[1])
client.start()
client.set("/", b"root")
for number in range(200):
    client.create(f"/a/n{number}", bytes([number, 0, 255]), makepath=True)
client.create("/empty")
client.create("/read", b"x", acl=[make_acl("world", "anyone", read=True), make_digest_acl("u", "p", all=True)])
client.create("/mine", b"", ephemeral=True)
print("made", flush=True)
sys.stdin.readline()
client.stop()
"#;
/// Prints every node that stays, with its data and access list.
const SHOW: &str = r#"
import sys
from kazoo.client import KazooClient
client = KazooClient(sys.argv[1])
client.start()
def walk(path):
    data, stat = client.get(path)
    print(path, data, [] if path == "/" else client.get_acls(path)[0], stat.ephemeralOwner)
    for child in sorted(client.get_children(path)):
        if (path, child) != ("/", "zookeeper"):
            walk(path.rstrip("/") + "/" + child)
walk("/")
client.stop()
"#;

fn python(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", program]).args(arguments).env("PYTHONPATH", kazoo::packages().unwrap());
    command
}

fn printed(program: &str, arguments: &[&str]) -> String {
    let ended = finish(&mut python(program, arguments));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_move_to_apache_and_back_with_their_data_and_access_lists() {
    if !can_run(kazoo::availability()) {
        return;
    }
    let Some(apache) = server().await else { return };
    let (first, last) = (EmbeddedServer::start().await.unwrap(), EmbeddedServer::start().await.unwrap());
    let (ours, theirs, back) =
        (first.address().unwrap().to_string(), apache.address().to_string(), last.address().unwrap().to_string());
    let mut making = Running::with_input(&mut python(MAKE, &[&ours]));
    assert_eq!(making.line(), "made\n");

    let said = printed(PROGRAM, &[&ours, &theirs]);
    assert_eq!(said, "copied 204 nodes, left out 1 of sessions or with a time to live\n");
    making.close_input();
    assert_eq!(making.end().code, Some(0));
    let original = printed(SHOW, &[&ours]);
    assert_eq!(original.lines().count(), 204);
    assert_eq!(printed(SHOW, &[&theirs]), original);
    let said = printed(PROGRAM, &[&theirs, &back]);
    assert_eq!(said, "copied 204 nodes, left out 0 of sessions or with a time to live\n");
    assert_eq!(printed(SHOW, &[&back]), original);
    // Apache's own directory is not taken.
    let data = apache.data_folder();
    let refused = EmbeddedServer::builder().data_dir(&data).start().await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("Apache ZooKeeper"), "{cause}");
}
