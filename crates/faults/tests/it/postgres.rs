//! The harness of PostgreSQL against the real thing: each test needs Debian's package, and skips by name without.

use std::os::unix::fs::PermissionsExt;

use lockkeeper_faults::authority::Authority;
use lockkeeper_faults::namespaces::{self, Network};
use lockkeeper_faults::postgres::{Server, Setup, availability, clock_availability, disk_availability};
use lockkeeper_faults::wait::PATIENCE;
use tokio_postgres::NoTls;

use crate::clocks::assert_ahead;

const HOUR_S: i64 = 3_600;

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

#[tokio::test(flavor = "multi_thread")]
async fn settings_users_and_encodings_are_set_up() {
    if !availability().or_skip("postgres::settings_users_and_encodings_are_set_up") {
        return;
    }
    let setup = Setup::new().password("it's@/").setting("default_transaction_isolation", "repeatable read");
    let server = setup.setting("deadlock_timeout", "5s").start().await.expect("a server");
    for (setting, value) in [("default_transaction_isolation", "repeatable read"), ("deadlock_timeout", "5s")] {
        assert_eq!(server.value(&format!("SHOW {setting}")).await.expect("told"), value);
    }
    server.create_database("odd", "LATIN1").await.expect("made");
    assert_eq!(server.value_in("odd", "SHOW server_encoding").await.expect("told"), "LATIN1");
    server.create_user("ann", "hers").await.expect("made");
    let in_as = async |user: &str, password: &str| {
        let way = server.url_as(user, Some(password), "postgres");
        tokio_postgres::connect(&way, NoTls).await.is_ok()
    };
    assert!(in_as("ann", "hers").await && in_as("postgres", "it's@/").await);
    assert!(!in_as("ann", "it's@/").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_server_follows_its_clock_both_ways() {
    let test = "postgres::the_time_of_a_running_server_follows_its_clock_both_ways";
    if !availability().and(clock_availability).or_skip(test) {
        return;
    }
    let (usual, moved) = (Setup::new().start(), Setup::new().movable_clock().start());
    let (usual, mut moved) = (usual.await.expect("a server"), moved.await.expect("a server"));
    // A process that has worked before the clock moves.
    let (client, connection) = tokio_postgres::connect(&moved.url("postgres"), NoTls).await.expect("connected");
    tokio::spawn(connection);
    for ahead_s in [HOUR_S, -HOUR_S, 0, HOUR_S] {
        moved.move_clock(ahead_s).await.expect("moved");
        let by_client = async || {
            let asked = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";
            client.query_one(asked, &[]).await.expect("told").get(0)
        };
        assert_ahead(ahead_s, async || usual.time_s().await.expect("told"), by_client).await;
    }
    moved.restart().await.expect("it serves");
    assert_ahead(HOUR_S, async || usual.time_s().await.expect("told"), async || moved.time_s().await.expect("told"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_papers_lets_none_in_without_and_its_superuser_still_reaches_it() {
    let test = "postgres::a_server_with_papers_lets_none_in_without_and_its_superuser_still_reaches_it";
    if !availability().or_skip(test) {
        return;
    }
    let authority = Authority::new("server.example").expect("an authority");
    let server = Setup::new().tls(authority.server_papers()).start().await.expect("a server");
    assert_eq!(server.value("SHOW ssl").await.expect("told"), "on");
    let Err(refused) = tokio_postgres::connect(&server.url("postgres"), NoTls).await else { panic!("let in") };
    assert!(format!("{refused:?}").contains("no encryption"), "{refused:?}");
    let way = format!(
        "host=server.example hostaddr={} port={} user=postgres sslmode=verify-full sslrootcert={}",
        server.address().ip(),
        server.address().port(),
        authority.file("ca").display()
    );
    // Its key must be for its owner alone.
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key.pem");
    std::fs::copy(authority.file("client-key"), &key).expect("copied");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("set");
    let psql = lockkeeper_faults::postgres::program("psql").expect("it comes with the server");
    let said = async |more: String| {
        let output = std::process::Command::new(&psql).arg(format!("{way} {more}")).args(["-Atc", "SELECT 7"]).output();
        let output = output.expect("psql");
        (
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (_, refused) = said("sslcert=none sslkey=none".to_owned()).await;
    assert!(refused.contains("certificate"), "{refused}");
    let papers = format!("sslcert={} sslkey={}", authority.file("client").display(), key.display());
    assert_eq!(said(papers).await.0, "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why() {
    if !availability().or_skip("postgres::a_server_that_cannot_start_says_why") {
        return;
    }
    let error = Setup::new().setting("no_such_setting", "1").start().await.expect_err("no such setting").to_string();
    assert!(error.contains("has ended") && error.contains("no_such_setting"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_namespace_does_not_reach_the_server_and_this_process_does() {
    let test = "postgres::a_cut_off_namespace_does_not_reach_the_server_and_this_process_does";
    if !availability().and(namespaces::availability).or_skip(test) {
        return;
    }
    let network = Network::new(2).expect("a network");
    let server = Setup::new().in_network(&network, 0).start().await.expect("a server");
    let psql = lockkeeper_faults::postgres::program("psql").expect("it comes with the server");
    let address = server.peer_address().expect("it is in a network");
    let way = format!("host={} port={} user=postgres", address.ip(), address.port());
    let is_let_in = |seconds: u64| {
        let mut command = network.command(1, &psql);
        command.arg(format!("{way} connect_timeout={seconds}")).args(["-Atc", "SELECT 7"]);
        command.output().expect("psql").stdout == b"7\n"
    };
    assert!(is_let_in(PATIENCE.as_secs()));
    network.isolate(1).expect("cut off");
    assert!(!is_let_in(2));
    network.heal(1).expect("healed");
    assert!(is_let_in(PATIENCE.as_secs()));
    assert!(tokio_postgres::connect(&server.url("postgres"), NoTls).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    let test = "postgres::a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room";
    if !availability().and(disk_availability).or_skip(test) {
        return;
    }
    let server = Setup::new().room_bytes(100 << 20).start().await.expect("a server");
    make_a_row(&server).await;
    server.fill_disk().expect("filled");
    let much = "INSERT INTO kept SELECT generate_series(1, 100000)";
    let full = server.ask(much).await.expect_err("no room").to_string();
    assert!(full.contains("53100"), "{full}");
    assert_eq!(rows(&server).await, "1");
    server.free_disk().expect("freed");
    server.ask(much).await.expect("stored");
}
