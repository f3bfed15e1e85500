//! The service's clock, as scripts keep it: jumps of the server's, its loss, and what sessions make of it.

use super::{BASE, CLOCK, GUARD_MS, HOUR_MS, Runs, TIMEOUT_MS, connect, mutex, opened, session, start, text};
use crate::layout::QueueMember;
use crate::script::{COMMON, Script};
use crate::session::Timing;
use crate::url::SESSION_TIMEOUT_MIN;

#[test]
fn no_jump_of_the_servers_clock_ends_a_session() {
    let Some((_server, mut runs)) = opened() else { return };
    let before = runs.now_ms();
    runs.pass(HOUR_MS);
    let after = runs.now_ms();
    assert!((GUARD_MS..=before + GUARD_MS).contains(&after), "{before} ms and {after} ms");
    assert_eq!(runs.renew(0)[0], "ok");
    // The clock is set back: nothing goes back.
    let kept = runs.now_ms();
    runs.set_back(HOUR_MS);
    assert!((after..=kept).contains(&runs.now_ms()));
    assert_eq!(runs.renew(0)[0], "ok");
    for _ in 0..=TIMEOUT_MS / GUARD_MS {
        runs.pass(GUARD_MS);
        runs.open(9);
    }
    assert_eq!(runs.renew(0), ["gone"], "it ends once its timeout has passed in steps");
}

#[test]
fn a_session_that_a_look_has_left_out_as_dead_stays_dead_if_the_clock_is_set_back() {
    let Some((_server, mut runs)) = opened() else { return };
    let (_, members, _) = runs.join(0, 1, &[mutex(1)]).unwrap();
    assert_eq!(runs.line(), members);
    // All but the last moments of its timeout pass, and are kept; then those pass too.
    for _ in 0..TIMEOUT_MS / GUARD_MS {
        runs.pass(GUARD_MS);
        runs.open(9);
    }
    assert_eq!(runs.line(), members);
    runs.pass(GUARD_MS);
    assert_eq!(runs.line(), Vec::<String>::new());
    runs.set_back(HOUR_MS);
    assert_eq!(runs.renew(0), ["gone"]);
}

/// What one with the shortest timeout lets the clock go on by.
const GUARD_MIN_MS: u64 = 666;

#[test]
fn the_clock_goes_on_by_the_least_guard_of_the_sessions_that_are_left() {
    let least = Timing { timeout: SESSION_TIMEOUT_MIN }.guard().as_millis();
    assert_eq!(least, u128::from(GUARD_MIN_MS));
    assert!(COMMON.contains(&format!("GUARD_MIN = {GUARD_MIN_MS}\n")));
    let Some((_server, mut runs)) = opened() else { return };
    assert_eq!(runs.answer(Script::Open, &[&session(1), "3000", "1000", "test"]), ["ok", "1000"]);
    assert_eq!(runs.renew(0)[1], "1000");
    runs.answer(Script::Close, &[&session(1)]);
    assert_eq!(runs.renew(0)[1], "2500", "a short timeout has no effect beyond its session");
    runs.command("DEL", &["{test}:g"]);
    assert_eq!(runs.answer(Script::Open, &[&session(1), "10500", "2500", "test"]), ["ok", "666"]);
    assert_eq!(runs.renew(0)[1], "666", "the guard of another one is not known");
}

#[test]
fn the_loss_of_the_clock_alone_ends_no_session_early_and_none_much_later() {
    let Some((_server, mut runs)) = opened() else { return };
    runs.open(1);
    for _ in 0..3 {
        runs.pass(GUARD_MS);
        runs.renew(0);
    }
    runs.command("DEL", &[BASE]);
    assert_eq!(runs.renew(1)[..2], ["ok", "666"], "it had not ended, and it is not to renew without a pause");
    let mut passed_ms = 0;
    while text(&runs.command("EXISTS", &[&format!("{{test}}:s:{}", session(1))])) == "1" {
        runs.pass(GUARD_MIN_MS);
        assert_eq!(runs.renew(0)[0], "ok");
        passed_ms += GUARD_MIN_MS;
        assert!(passed_ms < 2 * TIMEOUT_MS, "it died and stays");
    }
}

#[test]
fn after_the_loss_of_the_clock_alone_no_contender_comes_ahead_of_a_holder_though_the_clock_was_set_back() {
    let Some((_server, mut runs)) = opened() else { return };
    runs.open(1);
    let (_, holder, _) = runs.join(0, 1, &[mutex(1)]).expect("an answer");
    runs.command("DEL", &[BASE]);
    runs.command("HSET", &[CLOCK, "s", "1000", "us", "0"]);
    assert_eq!(runs.renew(1)[0], "ok");
    let (_, next, view) = runs.join(1, 1, &[mutex(2)]).expect("an answer");
    assert_eq!(view[2..], [&holder[0][..], &next[0][..]], "the holder stands first");
}

#[test]
fn a_clock_centuries_ahead_spends_no_tokens() {
    let Some(server) = start() else { return };
    let mut runs = Runs(connect(&server));
    let centuries_ahead = COMMON.replacen("redis.call('TIME')", "{ '10413792000', '0' }", 1);
    let script = format!("{centuries_ahead}\nkeep_clock()\nnext_token()\nkeep_token()\nreturn whole(token)");
    let spent: String = redis::cmd("EVAL").arg(script).arg(1).arg(BASE).query(&mut runs.0).expect("a token");
    assert_eq!(spent, "1");
    runs.open(0);
    let (_, members, _) = runs.join(0, 1, &[mutex(1)]).expect("an answer");
    let grant = QueueMember::parse(&members[0]).expect("a member").grant;
    assert!((1 << 50..1 << 52).contains(&grant), "{grant} is the clock's");
}
