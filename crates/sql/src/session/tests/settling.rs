//! After a promotion or a restore no lock is granted until all sessions of before have run out.

use std::time::Duration;

use lockkeeper_core::{Liveness, LossReason, Operation, Ticket};
use lockkeeper_session::{ClientTesting, News};

use super::memory::Database;
use super::{IDLE_BEAT, TIMEOUT, add_contender, begun, pass, pass_ms, session, try_open};
use crate::engine::WakeMethod;

/// Has another server take over.
fn promote(database: &Database) {
    database.data().instance = "two".to_owned();
    database.cut();
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_the_greatest_timeout_and_beats_go_on() {
    let (database, core) = begun(WakeMethod::Polled).await;
    // Another session, with a greater timeout; it is removed meanwhile.
    database.add_session(1, TIMEOUT * 2);
    promote(&database);
    pass_ms(100).await;
    assert!(core.life.present_link().is_none());
    assert!(matches!(core.life.bond().liveness(), Liveness::Held { .. }), "it is kept all the same");
    let why = core.life.trouble().unwrap().to_string();
    assert!(why.contains("grants no lock for 25 s"), "{why}");
    pass(TIMEOUT * 2).await;
    assert!(core.life.present_link().is_none());
    assert!(database.count("beat") > 5);
    pass(Duration::from_millis(580)).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.data().settled.as_deref(), Some("two"));
    assert!(core.life.trouble().is_none());
    assert!(core.life.bond().liveness().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_new_session_opens_and_its_calls_are_late_until_then() {
    let database = Database::new(WakeMethod::Polled);
    database.add_session(1, TIMEOUT);
    database.data().instance = "two".to_owned();
    let core = try_open(&database, "postgres://h1/db?session_timeout=12s", ClientTesting::default()).await.unwrap();
    let mut call = core.life.call::<()>(std::sync::Arc::new(|_| Box::pin(std::future::ready(Ok(())))));
    let deadline = core.life.deadline();
    let failure = core.life.answer(&mut call, deadline).await.unwrap_err();
    let error = core.life.fail(failure, Operation::Join, true);
    assert!(error.is_transient() && error.to_string().contains("promotion"), "{error}");
    core.life.next_link().await.unwrap();
    call.answer().await.unwrap();
}

/// How long a state is waited for that seems to have lost nothing.
const BRIEF: Duration = Duration::from_secs(5);

/// Has the server start again behind a clean end, maybe with older data.
fn restart(database: &Database) {
    database.data().brief = Some(BRIEF);
    promote(database);
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_start_calls_wait_for_a_short_time() {
    let (database, core) = begun(WakeMethod::Polled).await;
    core.contenders.add(Ticket::from_bits(7), ());
    database.data().contenders.insert(7, core.id.0);
    restart(&database);
    pass(BRIEF).await;
    assert!(core.life.present_link().is_none());
    pass_ms(300).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.count("doubt"), 0, "its contender is there");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_misses_its_session_or_its_contender_has_all_wait_for_the_greatest_timeout() {
    for misses_session in [true, false] {
        let database = Database::new(WakeMethod::Polled);
        let (holder, other) = (session(&database).await, session(&database).await);
        holder.contenders.add(Ticket::from_bits(7), ());
        if misses_session {
            database.data().sessions.remove(&holder.id.0);
        }
        restart(&database);
        pass(BRIEF + Duration::from_millis(300)).await;
        assert_eq!(database.data().doubts, 1, "{misses_session}");
        assert_eq!(holder.life.bond().liveness().is_held(), !misses_session);
        pass(TIMEOUT - BRIEF - Duration::from_secs(1)).await;
        assert!(other.life.present_link().is_none(), "{misses_session}");
        pass(BRIEF + Duration::from_secs(2)).await;
        assert!(other.life.present_link().is_some(), "{misses_session}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_was_broken_is_not_missed() {
    let (database, core) = begun(WakeMethod::Polled).await;
    core.contenders.add(Ticket::from_bits(7), ());
    database.data().broken.insert(7, core.id.0);
    restart(&database);
    pass(BRIEF + Duration::from_millis(300)).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.count("doubt"), 0);
}

#[tokio::test(start_paused = true)]
async fn it_ends_once_another_client_has_settled_it() {
    let (database, core) = begun(WakeMethod::Polled).await;
    promote(&database);
    pass(TIMEOUT / 4).await;
    database.data().settled = Some("two".to_owned());
    pass(TIMEOUT / 6).await;
    pass_ms(1).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.count("settle"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_wait_goes_on_over_a_new_connection_to_the_same_and_begins_anew_at_another() {
    let (database, core) = begun(WakeMethod::Polled).await;
    promote(&database);
    pass(TIMEOUT - Duration::from_secs(1)).await;
    database.cut();
    pass(Duration::from_millis(1_500)).await;
    assert!(core.life.present_link().is_some());
    database.data().instance = "three".to_owned();
    database.cut();
    pass(TIMEOUT / 2).await;
    database.data().instance = "four".to_owned();
    database.cut();
    pass(TIMEOUT - Duration::from_secs(1)).await;
    assert!(core.life.present_link().is_none());
    pass(Duration::from_secs(2)).await;
    assert!(core.life.present_link().is_some());
}

/// Has the server lose what it had acknowledged behind connections that outlive that.
fn change_behind_a_proxy(database: &Database) {
    database.data().instance = "two".to_owned();
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_was_withdrawn_and_came_back_goes_at_the_next_beat_over_a_connection_that_outlived_a_loss() {
    let (database, core) = begun(WakeMethod::Polled).await;
    change_behind_a_proxy(&database);
    database.data().contenders.insert(7, core.id.0);
    pass(IDLE_BEAT).await;
    pass_ms(1).await;
    assert!(!database.data().contenders.contains_key(&7), "its session does not know it any more");
    assert!(core.life.bond().liveness().is_held());
    assert!(core.life.present_link().is_none(), "no lock is granted there yet");
    pass(TIMEOUT + Duration::from_secs(1)).await;
    assert_eq!(database.data().settled.as_deref(), Some("two"));
    assert_eq!(core.life.present_link().expect("it is settled").number, 2);
    let beats = database.count("beat");
    pass(TIMEOUT).await;
    assert!(database.count("beat") > beats);
    assert_eq!(core.life.present_link().expect("it stays settled").number, 2, "it connects once");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_found_out_as_well_if_another_client_has_settled_it_before_the_next_beat() {
    let (database, core) = begun(WakeMethod::Polled).await;
    let lost = add_contender(&database, &core, 8);
    let mut told = core.contenders.told();
    change_behind_a_proxy(&database);
    {
        let mut data = database.data();
        data.settled = Some("two".to_owned());
        data.contenders.remove(&8);
        data.contenders.insert(7, core.id.0);
    }
    pass(IDLE_BEAT).await;
    assert_eq!(told.try_recv(), Ok(News::Missing(lost)));
    assert_eq!(core.reason_of_absence(lost), LossReason::Displaced);
    assert!(!database.data().contenders.contains_key(&7));
    assert_eq!(core.life.present_link().expect("it is settled").number, 2);
}

#[tokio::test(start_paused = true)]
async fn a_beat_of_functions_that_say_nothing_of_the_state_of_the_data_is_as_good_as_before() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.data().is_older = true;
    change_behind_a_proxy(&database);
    pass(TIMEOUT).await;
    assert!(core.life.bond().liveness().is_held());
    assert_eq!(core.life.present_link().expect("it goes on").number, 1);
}

#[tokio::test(start_paused = true)]
async fn a_longest_timeout_that_older_data_do_not_know_is_set_again_and_waited_for() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.data().timeout_max_ms = i64::try_from((TIMEOUT * 3).as_millis()).unwrap();
    pass(IDLE_BEAT + Duration::from_millis(1)).await;
    // The copy is from before it was set.
    database.data().timeout_max_ms = 0;
    promote(&database);
    pass(TIMEOUT * 3).await;
    assert!(core.life.present_link().is_none(), "a session with that timeout may believe yet");
    pass(Duration::from_secs(4)).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.count("limit"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_longest_timeout_that_was_lowered_is_not_raised_again() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.data().timeout_max_ms = i64::try_from((TIMEOUT * 3).as_millis()).unwrap();
    pass(IDLE_BEAT + Duration::from_millis(1)).await;
    database.data().timeout_max_ms = 0;
    pass(IDLE_BEAT + Duration::from_millis(1)).await;
    promote(&database);
    pass(TIMEOUT + Duration::from_secs(1)).await;
    assert!(core.life.present_link().is_some());
    assert_eq!(database.count("limit"), 0);
}
