//! The harness's promises about PostgreSQL and MariaDB alike; each test needs Debian's packages, and skips by name
//! without.

use lockkeeper_faults::server::Server;
use lockkeeper_faults::sql::{Setup, Sql};
use lockkeeper_faults::{mariadb, postgres};

use crate::clocks::assert_follows;

/// The database that has the table `kept`.
const KEPT: &str = "kept";

pub(crate) async fn make_a_row<Own>(server: &Server<Setup<Own>>)
where
    Setup<Own>: Sql,
{
    server.create_database(KEPT, "UTF8").await.expect("made");
    server.ask_in(KEPT, "CREATE TABLE kept (number int); INSERT INTO kept VALUES (1)").await.expect("stored");
}

pub(crate) async fn insert<Own>(server: &Server<Setup<Own>>, number: u8) -> lockkeeper_faults::Result<()>
where
    Setup<Own>: Sql,
{
    server.ask_in(KEPT, &format!("INSERT INTO kept VALUES ({number})")).await.map(drop)
}

pub(crate) async fn rows<Own>(server: &Server<Setup<Own>>) -> String
where
    Setup<Own>: Sql,
{
    let told = server.ask_in(KEPT, "SELECT count(*) FROM kept").await.expect("an answer");
    told[0][0].clone().expect("a number")
}

async fn tells_the_time_of_its_clock<Own>(setup: fn() -> Setup<Own>)
where
    Setup<Own>: Sql,
{
    let Some(mut moved) = Server::start_or_skip(setup().movable_clock()).await else { return };
    let usual = setup().start().await.expect("a server");
    assert_follows(&usual, &mut moved).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_postgres_follows_its_clock_both_ways() {
    tells_the_time_of_its_clock(postgres::Setup::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_mariadb_follows_its_clock_both_ways() {
    tells_the_time_of_its_clock(mariadb::Setup::new).await;
}

/// All kinds of server start alike.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_says_why() {
    if !postgres::availability().or_skip_here() {
        return;
    }
    let error = postgres::Setup::new().setting("no_such_setting", "1").start().await;
    let error = error.expect_err("no such setting").to_string();
    assert!(error.contains("has ended") && error.contains("no_such_setting"), "{error}");
}
