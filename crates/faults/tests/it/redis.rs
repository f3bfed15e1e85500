//! The harness of Redis against the real thing: each test needs Debian's packages or PyPI, and skips by name without.

use lockkeeper_faults::redis::{Release, Server, Setup};

use crate::clocks::{HOUR_S, assert_follows};

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_running_server_of_each_release_follows_its_clock_both_ways() {
    for release in Release::ALL {
        let setup = Setup::new().release(release).movable_clock();
        let Some(mut moved) = Server::start_or_skip(setup).await else { return };
        let usual = Server::standalone().await.expect("a server");
        assert_follows(&usual, &mut moved).await;
        // An expiry goes by that clock.
        moved.ask::<()>(&["SET", "key", "value", "EX", "1800"]).await.expect("stored");
        moved.move_clock(2 * HOUR_S).await.expect("moved");
        assert_eq!(moved.ask::<u64>(&["EXISTS", "key"]).await.expect("an answer"), 0, "{release:?}");
    }
}
