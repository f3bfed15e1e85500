//! Tests of the ends of sessions.

use lockkeeper_core::{Liveness, LossReason};
use lockkeeper_session::{ClientTesting, Ending};

use super::memory::Database;
use super::{IDLE_BEAT, TIMEOUT, add_contender, begun, pass, pass_ms, session, session_for};
use crate::engine::WakeMethod;

#[tokio::test(start_paused = true)]
async fn a_session_ends_piece_by_piece_with_all_its_contenders() {
    let (database, core) = begun(WakeMethod::Polled).await;
    for bits in 1..=5 {
        add_contender(&database, &core, bits);
    }
    core.life.bond().lose(LossReason::Closed);
    assert!(matches!(core.life.ended().await, Ending::Certain));
    assert_eq!(database.count("close"), 3);
    assert!(database.data().sessions.is_empty() && database.data().contenders.is_empty());
    pass(TIMEOUT).await;
    assert_eq!(database.count("close"), 3);
}

#[tokio::test(start_paused = true)]
async fn one_whose_server_is_away_says_so_at_once_and_ends_it_later() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.data().is_stuck = true;
    core.life.bond().lose(LossReason::Closed);
    assert!(matches!(core.life.ended().await, Ending::Untold(_)));
    pass(TIMEOUT / 4).await;
    database.data().is_stuck = false;
    pass(TIMEOUT / 4).await;
    assert!(database.data().sessions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_the_service_has_ended_is_lost_at_the_next_beat_and_at_a_new_connection() {
    let database = Database::new(WakeMethod::Polled);
    let testing = ClientTesting::default();
    let (core, other) = (session_for(&database, testing.clone()).await, session(&database).await);
    database.data().sessions.remove(&core.id.0);
    pass(IDLE_BEAT).await;
    pass_ms(1).await;
    assert_eq!(core.life.bond().liveness(), Liveness::Lost(LossReason::Expired));
    assert!(matches!(core.life.ended().await, Ending::Certain));
    assert!(testing.knows_lost(&core.id.to_string()));
    database.data().sessions.remove(&other.id.0);
    database.cut();
    assert_eq!(other.life.bond().lost().await, LossReason::Expired);
}
