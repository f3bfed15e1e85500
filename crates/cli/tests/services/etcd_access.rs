//! etcd: a cluster, and commands of a user with the least rights.

use lockkeeper_faults::etcd::{Cluster, Release, Server};

use crate::services::Service;
use crate::site::{SETTINGS, Site};

/// All keys below `/lockkeeper/q/`, as etcd's gateway wants them, counted.
const CONTENDERS: &str = r#"{"key":"L2xvY2trZWVwZXIvcS8=","range_end":"L2xvY2trZWVwZXIvcTA=","count_only":true}"#;

pub(crate) async fn cluster() -> Cluster {
    Cluster::start(Release::Debian, 3).await.expect("a cluster")
}

/// A machine that uses the cluster.
pub(crate) fn cluster_site(cluster: &Cluster, settings: &str) -> Site {
    let addresses: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    Site::of(&format!("etcd://{}?{settings}", addresses.join(",")))
}

/// Asserts that no contender is left, by the cluster's own account and by the command's.
pub(crate) async fn assert_nothing_left(cluster: &Cluster, site: &Site) {
    site.assert_nothing_left();
    let leader = cluster.leader().await.unwrap();
    let counted = Server::ask(cluster.addresses()[leader], "/v3/kv/range", CONTENDERS).await.unwrap();
    assert!(!counted.contains("count"), "{counted}");
}

/// What makes a server know `root`, and `ann`, who may read and write the keys below `/lockkeeper/`: paths and
/// requests, whose keys are in base64.
const USERS: [(&str, &str); 8] = [
    ("role/add", r#"{"name":"locks"}"#),
    ("role/grant", r#"{"name":"locks","perm":{"permType":2,"key":"L2xvY2trZWVwZXIv","range_end":"L2xvY2trZWVwZXIw"}}"#),
    ("user/add", r#"{"name":"ann","password":"s3cret"}"#),
    ("user/grant", r#"{"user":"ann","role":"locks"}"#),
    ("user/add", r#"{"name":"root","password":"s3cret"}"#),
    ("role/add", r#"{"name":"root"}"#),
    ("user/grant", r#"{"user":"root","role":"root"}"#),
    ("enable", "{}"),
];

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one() {
    if !Service::Etcd.can_start() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    for (path, request) in USERS {
        Server::ask(server.address(), &format!("/v3/auth/{path}"), request).await.expect(path);
    }
    Site::of(&format!("etcd://ann:s3cret@{}?{SETTINGS}", server.address())).fifty_count("etcd, least rights");
}
