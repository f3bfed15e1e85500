//! How many round trips a command costs.

use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::Proxy;

use crate::few_round_trips::{Most, assert_at_most};
use crate::site::can_start;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_a_free_lock_starts_within_four_round_trips() {
    if !can_start("round_trips::a_command_on_a_free_lock_starts_within_four_round_trips") {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let proxy = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let most = Most { until_start: 3, until_end: 2 };
    assert_at_most(most, &proxy, &format!("etcd://{}", proxy.address()), "etcd").await;
}
