//! The harness of PostgreSQL against the real thing: each test needs Debian's package, and skips by name without.

use lockkeeper_faults::postgres::{Server, Setup, availability};

async fn make_a_row(server: &Server) {
    server.ask("CREATE TABLE kept (number int); INSERT INTO kept VALUES (1)").await.expect("stored");
}

async fn rows(server: &Server) -> String {
    server.value("SELECT count(*) FROM kept").await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_keeps_its_port_and_its_data_when_it_is_stopped_killed_or_paused() {
    if !availability().or_skip("postgres::a_server_keeps_its_port_and_its_data_when_it_is_stopped_killed_or_paused") {
        return;
    }
    for setup in [Setup::new(), Setup::new().durable().on_disk()] {
        let mut server = setup.start().await.expect("a server");
        let address = server.address();
        make_a_row(&server).await;
        server.restart().await.expect("it serves");
        server.pause().expect("it runs");
        server.resume().expect("it runs");
        assert_eq!(rows(&server).await, "1");
        server.pause().expect("it runs");
        server.kill();
        server.start().expect("started");
        server.serving().await.expect("it serves");
        assert_eq!((rows(&server).await.as_str(), server.address()), ("1", address));
        assert_eq!(server.value("SHOW port").await.expect("told"), address.port().to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_lacks_what_it_did_not_receive() {
    if !availability().or_skip("postgres::a_promoted_standby_lacks_what_it_did_not_receive") {
        return;
    }
    let mut primary = Server::standalone().await.expect("a server");
    make_a_row(&primary).await;
    let mut standby = primary.standby().await.expect("a standby");
    standby.caught_up(&primary).await.expect("it follows");
    let refused = standby.ask("INSERT INTO kept VALUES (2)").await.expect_err("it follows").to_string();
    assert!(refused.contains("25006"), "{refused}");
    standby.fall_behind().await.expect("it falls behind");
    primary.ask("INSERT INTO kept VALUES (3)").await.expect("stored");
    primary.kill();
    standby.promote().await.expect("promoted");
    standby.restart().await.expect("it serves");
    assert_eq!(rows(&standby).await, "1");
    standby.ask("INSERT INTO kept VALUES (4)").await.expect("it is a primary");
}
