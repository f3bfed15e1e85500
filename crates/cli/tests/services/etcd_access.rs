//! etcd: a cluster, and commands of users with the least rights and without access.

use lockkeeper_faults::etcd::{Cluster, Release, Server};
use lockkeeper_faults::ports::ReservedPort;
use serde_json::Value;

use crate::services::Service;
use crate::site::{SETTINGS, Site, assert_refused};

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

/// A server that knows these users.
async fn guarded() -> Option<Server> {
    if !Service::Etcd.can_start() {
        return None;
    }
    let server = Server::standalone().await.expect("a server");
    for (path, request) in USERS {
        Server::ask(server.address(), &format!("/v3/auth/{path}"), request).await.expect(path);
    }
    Some(server)
}

/// Asserts that a server has no session, by the account of `root`.
async fn assert_no_session(server: &Server) {
    let login = r#"{"name":"root","password":"s3cret"}"#;
    let answer = Server::ask(server.address(), "/v3/auth/authenticate", login).await.expect("root");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let token = answer["token"].as_str().expect("a token");
    let leases = Server::ask_as(server.address(), token, "/v3/lease/leases", "{}").await.expect("a look");
    let leases: Value = serde_json::from_str(&leases).expect("JSON");
    assert_eq!(leases["leases"].as_array().map_or(0, Vec::len), 0, "{leases}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_commands_of_a_user_with_the_least_rights_count_without_losing_one() {
    let Some(server) = guarded().await else { return };
    Site::of(&format!("etcd://ann:s3cret@{}?{SETTINGS}", server.address())).fifty_count("etcd, least rights");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_without_access_says_why_in_one_line_and_leaves_nothing() {
    let Some(server) = guarded().await else { return };
    let address = server.address();
    let unused = ReservedPort::take().expect("a port");
    for (url, words) in [
        (format!("etcd://ann:wrong@{address}"), ["invalid user ID or password", "/lockkeeper/"]),
        (format!("etcd://ann:s3cret@{address}/app"), ["permission denied", "/app/"]),
        (format!("etcd://{address}"), ["user name is empty", "/lockkeeper/"]),
        (format!("etcd://{}", unused.address()), ["refused", "cannot be reached"]),
    ] {
        assert_refused(&url, &words);
    }
    assert_no_session(&server).await;
}
