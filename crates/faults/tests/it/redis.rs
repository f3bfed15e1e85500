//! The harness of Redis against the real thing: each test needs Debian's packages, and skips by name without.

use lockkeeper_faults::redis::{Server, availability};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_persistence_starts_again_without_its_data() {
    if !availability().or_skip("redis::a_server_without_persistence_starts_again_without_its_data") {
        return;
    }
    let mut server = Server::standalone().await.expect("a server");
    server.ask::<()>(&["SET", "key", "value"]).await.expect("stored");
    server.pause().expect("it runs");
    server.resume().expect("it runs");
    assert_eq!(server.ask::<String>(&["GET", "key"]).await.expect("an answer"), "value");
    let port = server.address().port().to_string();
    assert_eq!(server.info("tcp_port").await.expect("told"), port);
    server.kill();
    server.start().expect("started");
    server.serving().await.expect("it serves");
    assert_eq!(server.info("tcp_port").await.expect("told"), port);
    assert_eq!(server.ask::<Option<String>>(&["GET", "key"]).await.expect("an answer"), None);
}
