//! A cluster, and the URL by which a simulated machine uses it.

use lockkeeper_faults::etcd::{Cluster, Release, Server, availability};

use crate::machine::Site;

/// All keys below `/lockkeeper/q/`, as etcd's gateway wants them, counted.
const CONTENDERS: &str = r#"{"key":"L2xvY2trZWVwZXIvcS8=","range_end":"L2xvY2trZWVwZXIvcTA=","count_only":true}"#;

/// Whether real servers can be started; if not, the test is skipped by name.
pub(crate) fn can_start(test: &str) -> bool {
    availability().or_skip(test)
}

pub(crate) async fn cluster() -> Cluster {
    Cluster::start(Release::Debian, 3).await.expect("a cluster")
}

/// A machine that uses the cluster; `settings` from the question mark on.
pub(crate) fn site(cluster: &Cluster, settings: &str) -> Site {
    let addresses: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
    Site::of(&format!("etcd://{}{settings}", addresses.join(",")))
}

/// Asserts that no contender is left, by the cluster's own account and by the command's.
pub(crate) async fn assert_nothing_left(cluster: &Cluster, site: &Site) {
    site.assert_nothing_left();
    let leader = cluster.leader().await.unwrap();
    let counted = Server::ask(cluster.addresses()[leader], "/v3/kv/range", CONTENDERS).await.unwrap();
    assert!(!counted.contains("count"), "{counted}");
}
