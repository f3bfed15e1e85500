//! The harness of MariaDB against the real thing: each test needs Debian's packages, and skips by name without.

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::mariadb::{
    Pooler, Server, Setup, availability, clock_availability, disk_availability, galera_availability,
};
use lockkeeper_faults::namespaces::{self, Network};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};

use crate::clocks::assert_ahead;

const HOUR_S: i64 = 3_600;

/// What a client connects with; it stays with TCP.
fn way(url: &str) -> OptsBuilder {
    let opts = Opts::from_url(&url.replace("mariadb:", "mysql:")).expect("a URL");
    OptsBuilder::from_opts(opts).prefer_socket(false)
}

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

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_lacks_what_it_did_not_receive() {
    if !availability().or_skip("mariadb::a_promoted_replica_lacks_what_it_did_not_receive") {
        return;
    }
    let mut source = Setup::new().replicated().password("secret").start().await.expect("a server");
    make_a_row(&source).await;
    let mut replica = source.replica().await.expect("a replica");
    replica.caught_up(&source).await.expect("it follows");
    assert_eq!(rows(&replica).await, "1");
    replica.fall_behind().await.expect("it falls behind");
    source.ask_in("kept", "INSERT INTO kept VALUES (3)").await.expect("stored");
    source.kill();
    replica.promote().await.expect("promoted");
    replica.restart().await.expect("it serves");
    assert_eq!(
        (rows(&replica).await, replica.value("SELECT @@read_only").await.expect("told")),
        ("1".into(), "0".into())
    );
    replica.ask_in("kept", "INSERT INTO kept VALUES (4)").await.expect("stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poolers_clients_keep_their_connections_and_settings_when_the_server_ends() {
    if !availability().or_skip("mariadb::a_poolers_clients_keep_their_connections_and_settings_when_the_server_ends") {
        return;
    }
    let mut server = Setup::new().start().await.expect("a server");
    let other = Setup::new().start().await.expect("another server");
    let pooler = Pooler::start(&server).await.expect("a pooler");
    let mut client = Conn::new(way(&format!("mysql://root@{}", pooler.address()))).await.expect("a connection");
    client.query_drop("SET SESSION wait_timeout = 77").await.expect("a setting");
    pooler.point_to(&other);
    for port in [server.address().port(), other.address().port()] {
        let found = client.query_first("SELECT @@port, @@wait_timeout, CONNECTION_ID()").await;
        let (found, silence_s, number): (u16, u64, u32) = found.expect("the same connection").expect("a row");
        assert_eq!((found, silence_s), (port, 77));
        assert_ne!(number, client.id(), "the number is the pooler's");
        server.kill();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_users_and_encodings_are_set_up() {
    if !availability().or_skip("mariadb::settings_users_and_encodings_are_set_up") {
        return;
    }
    let server = Setup::new().password("it's@/").setting("wait_timeout", "77").start().await.expect("a server");
    assert_eq!(server.value("SELECT @@global.wait_timeout").await.expect("told"), "77");
    server.create_database("odd", "latin1").await.expect("made");
    assert_eq!(
        server
            .value(
                "SELECT default_character_set_name FROM information_schema.schemata \
        WHERE schema_name = 'odd'"
            )
            .await
            .expect("told"),
        "latin1"
    );
    server.create_user("ann", "hers").await.expect("made");
    server.ask("GRANT SELECT ON odd.* TO ann").await.expect("granted");
    let in_as =
        async |user: &str, password: &str| Conn::new(way(&server.url_as(user, Some(password), "odd"))).await.is_ok();
    assert!(in_as("ann", "hers").await && in_as("root", "it's@/").await);
    assert!(!in_as("ann", "it's@/").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_node_of_galera_says_that_it_is_one() {
    if !galera_availability().or_skip("mariadb::the_only_node_of_galera_says_that_it_is_one") {
        return;
    }
    let mut server = Setup::new().galera().start().await.expect("a server");
    make_a_row(&server).await;
    server.restart().await.expect("it serves");
    assert_eq!(server.value("SELECT @@wsrep_on").await.expect("told"), "1");
    let size = "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'wsrep_cluster_size'";
    assert_eq!((server.value(size).await.expect("told"), rows(&server).await), ("1".into(), "1".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_server_follows_its_clock_both_ways() {
    let test = "mariadb::the_time_of_a_running_server_follows_its_clock_both_ways";
    if !availability().and(clock_availability).or_skip(test) {
        return;
    }
    let (usual, moved) = (Setup::new().start(), Setup::new().movable_clock().start());
    let (usual, mut moved) = (usual.await.expect("a server"), moved.await.expect("a server"));
    for ahead_s in [HOUR_S, -HOUR_S, 0, HOUR_S] {
        moved.move_clock(ahead_s).await.expect("moved");
        let moved = async || moved.time_s().await.expect("told");
        assert_ahead(ahead_s, async || usual.time_s().await.expect("told"), moved).await;
    }
    moved.restart().await.expect("it serves");
    assert_ahead(HOUR_S, async || usual.time_s().await.expect("told"), async || moved.time_s().await.expect("told"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_papers_lets_none_in_without_and_its_superuser_still_reaches_it() {
    let test = "mariadb::a_server_with_papers_lets_none_in_without_and_its_superuser_still_reaches_it";
    if !availability().or_skip(test) {
        return;
    }
    let authority = Authority::new("server.example").expect("an authority");
    let server = Setup::new().tls(authority.server_papers()).start().await.expect("a server");
    assert_eq!(server.value("SELECT @@have_ssl").await.expect("told"), "YES");
    assert!(Conn::new(way(&server.url(""))).await.is_err());
    let client = |papers: &[String]| {
        let address = server.address();
        let mut command = std::process::Command::new("mariadb");
        command.args(["--no-defaults", "--protocol=tcp", "--user=root", "--batch", "--skip-column-names"]);
        command.arg(format!("--host={}", address.ip())).arg(format!("--port={}", address.port()));
        command.arg(format!("--ssl-ca={}", authority.file("ca").display())).args(papers).arg("--execute=SELECT 7");
        command.output().expect("a client").stdout
    };
    assert_eq!(client(&[]), b"");
    let papers = [("cert", "client"), ("key", "client-key")];
    let papers = papers.map(|(name, file)| format!("--ssl-{name}={}", authority.file(file).display()));
    assert_eq!(client(&papers), b"7\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why() {
    if !availability().or_skip("mariadb::a_server_that_cannot_start_says_why") {
        return;
    }
    let error = Setup::new().setting("no-such-setting", "1").start().await.expect_err("no such setting").to_string();
    assert!(error.contains("has ended") && error.contains("no-such-setting"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_a_namespace_is_reached_from_here_and_from_the_others() {
    let test = "mariadb::a_server_in_a_namespace_is_reached_from_here_and_from_the_others";
    if !availability().and(namespaces::availability).or_skip(test) {
        return;
    }
    let network = Network::new(2).expect("a network");
    let server = Setup::new().in_network(&network, 0).start().await.expect("a server");
    assert!(Conn::new(way(&server.url(""))).await.is_ok());
    let address = server.peer_address().expect("it is in a network");
    let mut command = network.command(1, "mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "--user=root", "--batch", "--skip-column-names"]);
    command.arg(format!("--host={}", address.ip())).arg(format!("--port={}", address.port()));
    assert_eq!(command.arg("--execute=SELECT 7").output().expect("a client").stdout, b"7\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    let test = "mariadb::a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room";
    if !availability().and(disk_availability).or_skip(test) {
        return;
    }
    let server = Setup::new().room_bytes(200 << 20).start().await.expect("a server");
    make_a_row(&server).await;
    server.fill_disk().expect("filled");
    let much = "INSERT INTO kept SELECT seq FROM seq_1_to_200000";
    let full = server.ask_in("kept", much).await.expect_err("no room").to_string();
    assert!(full.contains("full"), "{full}");
    assert_eq!(rows(&server).await, "1");
    server.free_disk().expect("freed");
    server.ask_in("kept", much).await.expect("stored");
}
