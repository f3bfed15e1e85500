//! The harness of PostgreSQL against the real thing: each test needs Debian's package, and skips by name without.

use lockkeeper_faults::postgres::{Server, Setup};
use tokio_postgres::NoTls;

use crate::clocks::{HOUR_S, assert_ahead};
use crate::databases::{insert, make_a_row, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_lacks_what_it_did_not_receive() {
    let Some(mut primary) = Server::standalone_or_skip().await else { return };
    make_a_row(&primary).await;
    let mut standby = primary.standby().await.expect("a standby");
    standby.caught_up(&primary).await.expect("it follows");
    let refused = insert(&standby, 2).await.expect_err("it follows").to_string();
    assert!(refused.contains("25006"), "{refused}");
    standby.fall_behind().await.expect("it falls behind");
    insert(&primary, 3).await.expect("stored");
    primary.kill();
    standby.promote().await.expect("promoted");
    standby.restart().await.expect("it serves");
    assert_eq!(rows(&standby).await, "1");
    insert(&standby, 4).await.expect("stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_worked_before_the_clock_moved_tells_the_new_time() {
    let Some(moved) = Server::start_or_skip(Setup::new().movable_clock()).await else { return };
    let (client, connection) = tokio_postgres::connect(&moved.url("postgres"), NoTls).await.expect("connected");
    tokio::spawn(connection);
    for ahead_s in [HOUR_S, -HOUR_S] {
        moved.move_clock(ahead_s).await.expect("moved");
        let by_client = async || {
            let asked = "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint";
            client.query_one(asked, &[]).await.expect("told").get(0)
        };
        assert_ahead(0, &moved, by_client).await;
    }
}
