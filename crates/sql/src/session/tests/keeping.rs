//! A session is kept: by beats, and over new connections.

use std::time::Duration;

use lockkeeper_core::{Liveness, LossReason, Ticket};
use lockkeeper_session::{Bug, ClientTesting, FailureKind, Link as _, News};
use tokio::sync::mpsc::error::TryRecvError;

use super::memory::Database;
use super::{IDLE_BEAT, TIMEOUT, add_contender, begun, pass, pass_ms, safe_for, session, session_for, try_open};
use crate::engine::{Hint, WakeMethod};
use crate::session::WaitEnd;
use crate::statement::Argument;

#[tokio::test(start_paused = true)]
async fn an_idle_session_beats_each_quarter_of_its_timeout_and_asks_nothing_else() {
    let (database, core) = begun(WakeMethod::Notified).await;
    pass(TIMEOUT * 10).await;
    assert!(core.life.bond().liveness().is_held());
    let asked: Vec<_> = database.data().log.iter().map(|statement| statement.function).collect();
    let beats = asked.iter().filter(|function| **function == "beat").count();
    assert!((38..=40).contains(&beats), "{beats}");
    assert_eq!(asked.len(), beats + 2, "{asked:?}");
    assert!(safe_for(&core) > TIMEOUT / 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_holds_beats_each_sixth_of_its_timeout_and_listens_after_a_while() {
    let (database, core) = begun(WakeMethod::Notified).await;
    add_contender(&database, &core, 1);
    pass_ms(90).await;
    assert_eq!(database.count("listen"), 0);
    pass_ms(20).await;
    assert_eq!(database.count("listen"), 1);
    pass(TIMEOUT * 10).await;
    assert!((58..=60).contains(&database.count("beat")), "{}", database.count("beat"));
    core.contenders.remove(Ticket::from_bits(1));
    pass(Duration::from_secs(80)).await;
    assert_eq!(database.count("listen"), 2, "it listens no more");
    assert_eq!(database.asked("listen")[1].arguments[1], Argument::Flag(false));
}

#[tokio::test(start_paused = true)]
async fn short_holds_ask_for_nothing() {
    let (database, core) = begun(WakeMethod::Notified).await;
    for bits in 0..1_000 {
        let ticket = add_contender(&database, &core, bits);
        pass_ms(1).await;
        core.contenders.remove(ticket);
    }
    assert_eq!(database.count("listen"), 0);
}

#[tokio::test(start_paused = true)]
async fn belief_counts_from_the_sending_of_a_beat_and_ends_before_others_may_remove_the_session() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.data().is_stuck = true;
    assert_eq!(safe_for(&core), TIMEOUT - Duration::from_millis(340));
    let reason = core.life.bond().lost().await;
    assert_eq!(reason, LossReason::Lapsed);
}

#[tokio::test(start_paused = true)]
async fn a_grant_waits_for_a_beat_if_little_of_the_belief_is_left() {
    let (database, core) = begun(WakeMethod::Polled).await;
    core.life.until_believable().await.unwrap();
    assert_eq!(database.count("beat"), 0);
    database.data().is_busy = true;
    pass(TIMEOUT / 2).await;
    assert!(safe_for(&core) < TIMEOUT / 2);
    let tries = database.count("beat");
    assert!(tries > 3, "a server that turns us away is asked again: {tries}");
    let waiting = tokio::spawn({
        let core = core.clone();
        async move { core.life.until_believable().await }
    });
    pass_ms(10).await;
    assert!(!waiting.is_finished());
    database.data().is_busy = false;
    waiting.await.unwrap().unwrap();
    assert!(safe_for(&core) > TIMEOUT / 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_takes_the_session_over_and_tells_what_became_of_its_contenders() {
    let (database, core) = begun(WakeMethod::Polled).await;
    let mut told = core.contenders.told();
    for bits in 1..=5 {
        add_contender(&database, &core, bits);
    }
    let link = core.life.present_link().unwrap();
    core.contenders.remove(Ticket::from_bits(3));
    core.contenders.expect(Ticket::from_bits(6));
    {
        let mut data = database.data();
        data.contenders.insert(6, core.id.0);
        data.contenders.remove(&2);
        data.contenders.remove(&4);
        data.broken.insert(4, core.id.0);
        data.asked.insert(5, "please".to_owned());
    }
    database.cut();
    link.connection.wire.over().await;
    let next = core.life.next_link().await.unwrap();
    assert_eq!((link.number, next.number), (1, 2));
    let resumed = database.asked("resume").remove(0).arguments;
    assert_eq!(resumed[1], Argument::Int(2));
    assert_eq!(resumed[3], Argument::Ids(vec![1, 2, 4, 5, 6]));
    let mut news = Vec::new();
    while let Ok(one) = told.try_recv() {
        news.push(one);
    }
    let ticket = Ticket::from_bits;
    let asked = News::Asked(ticket(5), "please".to_owned());
    assert_eq!(news, [News::Broken(ticket(4)), asked, News::Missing(ticket(2)), News::Missing(ticket(4))]);
    let left: Vec<_> = database.data().contenders.keys().copied().collect();
    assert_eq!(left, [1, 5, 6], "one that was withdrawn is removed, one whose join is under way is not");
    assert!(matches!(core.life.bond().liveness(), Liveness::Held { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_beat_tells_which_contenders_are_gone_and_a_hint_asks_for_one_at_once() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let mut told = core.contenders.told();
    let gone = add_contender(&database, &core, 1);
    add_contender(&database, &core, 2);
    core.contenders.expect(Ticket::from_bits(3));
    pass_ms(200).await;
    database.data().contenders.remove(&1);
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
    database.hint(core.id, Hint::Asked);
    pass_ms(1).await;
    assert_eq!(told.try_recv(), Ok(News::Missing(gone)));
    assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_beat_is_left_for_another() {
    let (database, core) = begun(WakeMethod::Polled).await;
    assert_eq!(database.data().connected, [0]);
    database.data().is_stuck = true;
    pass(IDLE_BEAT + TIMEOUT / 6).await;
    pass_ms(200).await;
    assert!(matches!(core.life.bond().liveness(), Liveness::Jeopardy { .. }));
    {
        let mut data = database.data();
        data.is_stuck = false;
        data.down.insert(0, FailureKind::ReadOnly);
    }
    let link = core.life.next_link().await.unwrap();
    assert_eq!(link.server().to_string(), "h2:5432");
    assert_eq!(database.data().sessions[&core.id.0].epoch, i64::try_from(link.number).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_ends_the_connection_and_not_the_session() {
    let database = Database::new(WakeMethod::Polled);
    let testing = ClientTesting::default();
    let core = session_for(&database, testing.clone()).await;
    assert_eq!(testing.session(), core.id.to_string());
    testing.lose_reply("beat");
    testing.lose_reply("resume");
    pass(IDLE_BEAT * 2).await;
    let link = core.life.present_link().unwrap();
    assert_eq!(link.number, 3);
    let statement = crate::statement::Statement::new("missing", vec![Argument::Ids(vec![1])]);
    assert_eq!(core.ask(&link, statement).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_given_up_while_it_opens_is_ended() {
    let database = Database::new(WakeMethod::Polled);
    // The answer to `open` does not come.
    database.data().is_busy = true;
    try_open(&database, "postgres://h1/db", ClientTesting::default()).await.map(drop).unwrap_err();
    pass_ms(1).await;
    assert_eq!(database.count("close"), 1);
    assert_eq!(database.asked("close")[0].arguments, database.asked("open")[0].arguments[..1]);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_stand_still_are_removed_and_living_ones_are_not() {
    let database = Database::new(WakeMethod::Polled);
    let (core, other) = (session(&database).await, session(&database).await);
    database.add_session(1, TIMEOUT);
    database.add_session(2, TIMEOUT * 2);
    database.add_session(3, TIMEOUT);
    database.data().pinned.insert(3);
    pass(TIMEOUT + TIMEOUT / 4 + Duration::from_secs(1)).await;
    assert!(!database.data().sessions.contains_key(&1));
    assert!(database.data().sessions.contains_key(&2));
    database.data().pinned.clear();
    pass(TIMEOUT + Duration::from_secs(1)).await;
    let left: Vec<_> = database.data().sessions.keys().copied().collect();
    let mut living = [core.id.0, other.id.0];
    living.sort_unstable();
    assert_eq!(left, living);
    assert!(core.life.bond().liveness().is_held() && other.life.bond().liveness().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_dead_session_ends_when_that_is_removed() {
    let (database, core) = begun(WakeMethod::Notified).await;
    database.add_session(1, TIMEOUT);
    database.data().contenders.insert(5, 1);
    // It listens already, and nothing tells it of this one.
    let other = core.waits.departure(&core.life.present_link().unwrap(), Ticket::from_bits(6), 7, None);
    database.data().contenders.insert(6, core.id.0);
    pass(TIMEOUT).await;
    let told = core.waits.departure(&core.life.present_link().unwrap(), Ticket::from_bits(5), 0, None);
    let begun = tokio::time::Instant::now();
    assert_eq!(told.await, WaitEnd::Departed);
    assert!(begun.elapsed() <= TIMEOUT / 4 + Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn many_that_die_at_once_go_in_one_timeout() {
    let (database, core) = begun(WakeMethod::Polled).await;
    (1..=500).for_each(|id| database.add_session(id, TIMEOUT));
    pass(TIMEOUT * 2 + Duration::from_secs(4)).await;
    assert_eq!(database.data().sessions.len(), 1);
    assert!(core.life.bond().liveness().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_planted_bug_removes_living_sessions() {
    let database = Database::new(WakeMethod::Polled);
    let testing = ClientTesting::default();
    testing.plant(Bug::DoubtsEarly);
    let _core = session_for(&database, testing).await;
    database.add_session(1, TIMEOUT);
    pass(TIMEOUT).await;
    assert!(!database.data().sessions.contains_key(&1), "it was to stand for its whole timeout");
}
