//! The harness of MariaDB against the real thing: each test needs Debian's packages, and skips by name without.

use lockkeeper_faults::mariadb::{Pooler, Server, Setup};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use crate::databases::{insert, make_a_row, rows};

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_replica_lacks_what_it_did_not_receive() {
    let setup = Setup::new().replicated().password("secret");
    let Some(mut source) = Server::start_or_skip(setup).await else { return };
    make_a_row(&source).await;
    let mut replica = source.replica().await.expect("a replica");
    replica.caught_up(&source).await.expect("it follows");
    assert_eq!(rows(&replica).await, "1");
    replica.fall_behind().await.expect("it falls behind");
    insert(&source, 3).await.expect("stored");
    source.kill();
    replica.promote().await.expect("promoted");
    replica.restart().await.expect("it serves");
    assert_eq!(
        (rows(&replica).await, replica.value("SELECT @@read_only").await.expect("told")),
        ("1".into(), "0".into())
    );
    insert(&replica, 4).await.expect("stored");
}

/// What the client of a server is told that ended within a statement (`CR_SERVER_LOST`).
const SERVER_LOST: u16 = 2013;

#[tokio::test(flavor = "multi_thread")]
async fn a_poolers_clients_keep_their_connections_and_settings_when_the_server_ends() {
    let Some(mut server) = Server::standalone_or_skip().await else { return };
    let other = Setup::new().start().await.expect("another server");
    let pooler = Pooler::start(&server).await.expect("a pooler");
    // Or it would find out the server's socket, and go around the pooler.
    let way = format!("mysql://root@{}?prefer_socket=false", pooler.address());
    let mut client = Conn::new(Opts::from_url(&way).expect("a URL")).await.expect("a connection");
    client.query_drop("SET SESSION wait_timeout = 77").await.expect("a setting");
    pooler.point_to(&other);
    for port in [server.address().port(), other.address().port()] {
        let question = "SELECT @@port, @@wait_timeout, CONNECTION_ID()";
        let found = match client.query_first(question).await {
            // It was sent to the server that was about to end.
            Err(mysql_async::Error::Server(lost)) if lost.code == SERVER_LOST => client.query_first(question).await,
            found => found,
        };
        let (found, silence_s, number): (u16, u64, u32) = found.expect("the same connection").expect("a row");
        assert_eq!((found, silence_s), (port, 77));
        assert_ne!(number, client.id(), "the number is the pooler's");
        server.kill();
    }
}
