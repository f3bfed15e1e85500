//! The harness of MariaDB against the real thing: each test needs Debian's packages, and skips by name without.

use lockkeeper_faults::mariadb::{Server, Setup, availability};

async fn make_a_row(server: &Server) {
    server.create_database("kept", "utf8mb4").await.expect("made");
    server.ask_in("kept", "CREATE TABLE kept (number int); INSERT INTO kept VALUES (1)").await.expect("stored");
}

async fn rows(server: &Server) -> String {
    server.value("SELECT count(*) FROM kept.kept").await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_keeps_its_port_and_its_data_when_it_is_stopped_killed_or_paused() {
    if !availability().or_skip("mariadb::a_server_keeps_its_port_and_its_data_when_it_is_stopped_killed_or_paused") {
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
        assert_eq!(server.value("SELECT @@port").await.expect("told"), address.port().to_string());
    }
}
