//! A planted fault of the embedded server: it goes on serving the former connection of a session that has moved.

use super::SERVER;
use super::both::late_writes::late_value;
use crate::support::Bench;
use crate::support::server::BenchServer;

/// How often it is tried at most until a write was late.
const TRIES_MAX: u32 = 100;

#[tokio::test]
async fn where_a_former_connection_is_served_a_late_value_replaces_one_that_was_made_anew() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let BenchServer::Embedded(server) = &bench.server else { unreachable!("it is the embedded one") };
    server.keep_former_connections();
    for _ in 0..TRIES_MAX {
        if late_value(&bench).await.is_some() {
            return;
        }
    }
    panic!("none of {TRIES_MAX} came late enough to tell anything");
}
