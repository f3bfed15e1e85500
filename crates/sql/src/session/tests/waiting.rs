//! Tests of the ends of waits.

use std::time::Duration;

use lockkeeper_core::{FencingToken, QueueName, Ticket};
use tokio::time::{Instant, timeout};

use super::memory::Database;
use super::{TIMEOUT, add_contender, begun, pass, pass_ms, session};
use crate::engine::{Hint, WakeMethod};
use crate::session::{Core, WaitEnd, WaitHandle};
use crate::statement::Argument;

fn wait(database: &Database, core: &Core, bits: u128, nearness: usize) -> WaitHandle {
    database.data().contenders.entry(bits).or_insert(77);
    core.waits.departure(&core.life.present_link().unwrap(), Ticket::from_bits(bits), nearness, None)
}

async fn took(told: WaitHandle) -> (WaitEnd, Duration) {
    let begun = Instant::now();
    (timeout(Duration::from_secs(60), told).await.expect("it ends"), begun.elapsed())
}

fn queue() -> QueueName {
    QueueName::new("a").unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_that_listens_is_told_at_once_after_one_look() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let told = wait(&database, &core, 1, 0);
    pass_ms(10).await;
    assert_eq!((database.count("listen"), database.count("missing")), (1, 1));
    pass_ms(900).await;
    assert_eq!(database.count("missing"), 1);
    database.remove(Ticket::from_bits(1));
    assert_eq!(took(told).await, (WaitEnd::Departed, Duration::ZERO));
    pass(TIMEOUT * 2).await;
    let told = wait(&database, &core, 2, 0);
    pass_ms(900).await;
    assert_eq!(database.count("missing"), 1, "it has listened for long");
    database.remove(Ticket::from_bits(2));
    assert_eq!(took(told).await.0, WaitEnd::Departed);
}

#[tokio::test(start_paused = true)]
async fn a_departure_that_was_told_before_its_wait_began_is_not_missed() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let _other = wait(&database, &core, 1, 0);
    pass_ms(10).await;
    database.hint(core.id, Hint::Departed(Ticket::from_bits(2)));
    pass_ms(10).await;
    assert_eq!(took(wait(&database, &core, 2, 0)).await, (WaitEnd::Departed, Duration::ZERO));
}

/// A wait far from its turn, in a queue where a turn takes about 10 ms, after the session has found that out.
async fn wait_in_crowd(database: &Database, core: &Core) -> WaitHandle {
    database.data().contenders.insert(1, 77);
    database.data().ahead = 99;
    let line = (queue(), FencingToken::new(7, 0).unwrap());
    let told = core.waits.departure(&core.life.present_link().unwrap(), Ticket::from_bits(1), 98, Some(line));
    pass_ms(50).await;
    assert_eq!((database.count("rest"), database.tells(core.id)), (1, true), "it is not known how quickly turns come");
    database.data().ahead = 89;
    pass_ms(200).await;
    assert_eq!((database.count("rest"), database.tells(core.id)), (3, false));
    told
}

#[tokio::test(start_paused = true)]
async fn in_a_crowd_that_moves_quickly_it_is_told_only_while_its_turn_is_near() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let told = wait_in_crowd(&database, &core).await;
    pass_ms(400).await;
    assert!(!database.tells(core.id));
    // Sooner than it had to be. It is found after it listens again.
    database.remove(Ticket::from_bits(1));
    let (wake, after) = took(told).await;
    assert_eq!(wake, WaitEnd::Departed);
    assert!((200..=400).contains(&after.as_millis()), "{after:?}");
    assert_eq!((database.count("rest"), database.tells(core.id)), (3, true));
    pass_ms(500).await;
    assert!(!database.tells(core.id), "it waits no more");
}

#[tokio::test(start_paused = true)]
async fn another_wait_ends_the_rest_of_a_session_and_one_behind_the_first_does_not() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let told = wait_in_crowd(&database, &core).await;
    let line = (queue(), FencingToken::new(9, 0).unwrap());
    let behind = core.waits.departure(&core.life.present_link().unwrap(), Ticket::from_bits(1), 99, Some(line));
    pass_ms(10).await;
    assert!(!database.tells(core.id));
    let other = wait(&database, &core, 2, 0);
    pass_ms(10).await;
    assert!(database.tells(core.id));
    database.remove(Ticket::from_bits(2));
    assert_eq!(took(other).await, (WaitEnd::Departed, Duration::ZERO));
    drop((told, behind));
}

#[tokio::test(start_paused = true)]
async fn a_beat_beside_a_question_for_rest_does_not_take_the_session_for_deaf() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let told = wait_in_crowd(&database, &core).await;
    for _ in 0..200 {
        core.life.urge();
        pass_ms(10).await;
    }
    assert!(database.tells(core.id), "it listens again");
    database.remove(Ticket::from_bits(1));
    assert_eq!(took(told).await, (WaitEnd::Departed, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn where_too_many_listen_each_wait_is_looked_at_by_its_nearness() {
    let (database, core) = begun(WakeMethod::Notified).await;
    database.data().is_full = true;
    let (near, far) = (wait(&database, &core, 1, 0), wait(&database, &core, 2, 9));
    let (wake, after) = took(far).await;
    assert_eq!(wake, WaitEnd::Look, "it is to find its place anew");
    assert!((500..=650).contains(&after.as_millis()), "{after:?}");
    pass(Duration::from_secs(10)).await;
    let near_looks = looks_at(&database, 1);
    assert!((160..=215).contains(&near_looks), "{near_looks}");
    database.data().is_full = false;
    pass(Duration::from_secs(10)).await;
    let before = looks_at(&database, 1);
    pass(Duration::from_secs(10)).await;
    assert!(looks_at(&database, 1) <= before + 1, "it listens in the end");
    drop(near);
    assert!(database.count("listen") <= 3, "it asks seldom");
}

fn looks_at(database: &Database, bits: u128) -> usize {
    let has_it = |argument: &Argument| matches!(argument, Argument::Ids(ids) if ids.contains(&bits));
    database.asked("missing").iter().filter(|look| look.arguments.iter().any(has_it)).count()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_once_all_waits_ended() {
    let (database, core) = begun(WakeMethod::Polled).await;
    drop(wait(&database, &core, 1, 0));
    drop(core.waits.change(&core.life.present_link().unwrap(), &queue()));
    pass(TIMEOUT).await;
    assert_eq!(database.count("missing"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_question_looks_at_all_waits_and_no_more_than_sixty_four() {
    let (database, core) = begun(WakeMethod::Polled).await;
    let waits: Vec<_> = (1..=1_000).map(|bits| wait(&database, &core, bits, 0)).collect();
    pass(Duration::from_secs(1)).await;
    let asked = database.count("missing");
    assert!((250..=640).contains(&asked), "{asked}");
    for look in database.asked("missing") {
        assert!(matches!(&look.arguments[0], Argument::Ids(ids) if (1..=64).contains(&ids.len())));
    }
    (1..=1_000).for_each(|bits| database.remove(Ticket::from_bits(bits)));
    for told in waits {
        assert_eq!(took(told).await.0, WaitEnd::Departed);
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_pooler_that_does_not_let_it_listen_it_looks_from_the_next_beat_on() {
    let (database, core) = begun(WakeMethod::Notified).await;
    database.data().is_pooled = true;
    let told = wait(&database, &core, 1, 0);
    pass_ms(100).await;
    database.remove(Ticket::from_bits(1));
    let (wake, after) = took(told).await;
    assert_eq!(wake, WaitEnd::Departed);
    assert!(after <= TIMEOUT / 6, "{after:?}");
    let (wake, after) = {
        let told = wait(&database, &core, 2, 0);
        database.remove(Ticket::from_bits(2));
        took(told).await
    };
    assert_eq!(wake, WaitEnd::Departed);
    assert!(after <= Duration::from_millis(64), "{after:?}");
    pass(Duration::from_secs(100)).await;
    assert_eq!(database.count("listen"), 1, "it does not try again");
}

#[tokio::test(start_paused = true)]
async fn all_waits_end_with_their_connection() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let link = core.life.present_link().unwrap();
    let (departure, change) = (wait(&database, &core, 1, 0), core.waits.change(&link, &queue()));
    database.cut();
    assert_eq!(took(departure).await.0, WaitEnd::ConnectionOver);
    assert_eq!(took(change).await.0, WaitEnd::ConnectionOver);
    assert_eq!(took(core.waits.change(&link, &queue())).await, (WaitEnd::ConnectionOver, Duration::ZERO));
    let next = core.life.next_link().await.unwrap();
    let late = core.waits.departure(&link, Ticket::from_bits(1), 0, None);
    assert_eq!(took(late).await, (WaitEnd::ConnectionOver, Duration::ZERO));
    drop(core.waits.departure(&next, Ticket::from_bits(1), 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_to_those_who_wait_for_that_queue() {
    let (database, core) = begun(WakeMethod::Notified).await;
    let link = core.life.present_link().unwrap();
    // What happened before it listened may have been missed.
    assert_eq!(took(core.waits.change(&link, &queue())).await, (WaitEnd::Look, Duration::ZERO));
    pass(TIMEOUT).await;
    let (mine, other) = (core.waits.change(&link, &queue()), core.waits.change(&link, &QueueName::new("b").unwrap()));
    pass_ms(500).await;
    database.hint(core.id, Hint::Changed { name: "a".to_owned(), part: 0 });
    assert_eq!(took(mine).await, (WaitEnd::Look, Duration::ZERO));
    assert!(timeout(TIMEOUT, other).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_told_a_wait_for_a_change_ends_in_a_look() {
    for wake_method in [WakeMethod::Polled, WakeMethod::NamedLocks] {
        let (_, core) = begun(wake_method).await;
        let (wake, after) = took(core.waits.change(&core.life.present_link().unwrap(), &queue())).await;
        assert_eq!(wake, WaitEnd::Look);
        assert!((200..=251).contains(&after.as_millis()), "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_that_is_nearest_its_turn_waits_for_the_named_lock_and_the_others_are_looked_at() {
    let (database, core) = begun(WakeMethod::NamedLocks).await;
    let far = wait(&database, &core, 1, 15);
    pass_ms(100).await;
    assert_eq!(named_locks(&database), [1]);
    let near = wait(&database, &core, 2, 0);
    pass_ms(100).await;
    assert_eq!(named_locks(&database), [1, 2], "a nearer one takes the turn");
    pass_ms(107).await;
    database.remove(Ticket::from_bits(2));
    assert_eq!(took(near).await, (WaitEnd::Departed, Duration::ZERO));
    pass_ms(10).await;
    assert_eq!(named_locks(&database), [1, 2, 1]);
    drop(far);
    pass(TIMEOUT).await;
    assert_eq!(named_locks(&database), [1, 2, 1]);
}

fn named_locks(database: &Database) -> Vec<u128> {
    let ticket = |argument: &Argument| match argument {
        Argument::Id(bits) => *bits,
        other => panic!("{other:?}"),
    };
    database.asked("door").iter().map(|named_lock| ticket(&named_lock.arguments[0])).collect()
}

/// A wait for a contender of a session that has died, or lives, or whose end is kept from being.
fn wait_if_dead(core: &Core, bits: u128) -> WaitHandle {
    let wait = core.waits.departure_if_dead(&core.life.present_link().unwrap(), Ticket::from_bits(bits));
    core.life.urge();
    wait
}

#[tokio::test(start_paused = true)]
async fn a_contender_of_a_session_that_beats_seems_to_stay_and_a_silent_one_departs_when_it_is_proven_dead() {
    let (database, core) = begun(WakeMethod::Polled).await;
    let other = session(&database).await;
    add_contender(&database, &other, 1);
    // Its first beat has no time yet: the second one shows that it lives.
    let (end, after) = took(wait_if_dead(&core, 1)).await;
    assert_eq!(end, WaitEnd::Stays);
    assert!(after <= TIMEOUT / 2, "{after:?}");
    assert_eq!(took(wait_if_dead(&core, 1)).await, (WaitEnd::Stays, Duration::ZERO));

    database.add_session(77, TIMEOUT);
    database.data().contenders.insert(2, 77);
    let (end, after) = took(wait_if_dead(&core, 2)).await;
    assert_eq!(end, WaitEnd::Departed);
    assert!(after >= TIMEOUT && after < TIMEOUT * 5 / 4, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_contender_that_cannot_be_removed_seems_to_stay() {
    let (database, core) = begun(WakeMethod::Polled).await;
    database.add_session(77, TIMEOUT);
    database.data().contenders.insert(1, 77);
    database.data().pinned.insert(77);
    assert_eq!(took(wait_if_dead(&core, 1)).await.0, WaitEnd::Stays);
}
