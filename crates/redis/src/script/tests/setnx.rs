//! The scripts with plain locks in a real server, where no client hears of a change before they are called.

use redis::{Connection, Value};

use super::{connect, member_alone, session, start, texts, ticket};
use crate::script::{BODIES, KeyScheme, Script, text};

const BASE: &str = "{test}:setnx";

fn run(connection: &mut Connection, script: Script, arguments: &[&str]) -> Vec<Value> {
    let source = text(KeyScheme::Setnx, BODIES[script as usize].1);
    let answer = redis::cmd("EVAL").arg(source).arg(1).arg(BASE).arg(arguments).query(connection).expect("an answer");
    match answer {
        Value::Array(values) => values,
        one => vec![one],
    }
}

fn command<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    redis::cmd(words[0]).arg(&words[1..]).query(connection).expect("an answer")
}

/// Joins the lock `Lock-0`; returns the member.
fn join(connection: &mut Connection, number: usize, bits: u128) -> String {
    let (sid, ticket) = (session(number), ticket(bits));
    let place = [&sid, "1", "10500", "l", "Lock-0", "Lock-0", "around", "m", &ticket, "", "s", "{}"];
    match &run(connection, Script::Join, &place)[..] {
        [alone] => member_alone(&texts(alone).remove(0)),
        answer => texts(&answer[1]).remove(0),
    }
}

#[test]
fn a_renewal_leaves_the_key_of_another_client_alone_and_says_whose_was_lost() {
    let Some(server) = start() else { return };
    let mut connection = connect(&server);
    run(&mut connection, Script::Open, &[&session(0), "10500", "2500", "test"]);
    join(&mut connection, 0, 1);
    let _: u64 = command(&mut connection, &["PEXPIRE", "Lock-0", "4000"]);
    run(&mut connection, Script::Renew, &[&session(0), "10500"]);
    assert!(command::<u64>(&mut connection, &["PTTL", "Lock-0"]) > 9_000, "it is ours and renewed");
    let _: String = command(&mut connection, &["SET", "Lock-0", "theirs", "PX", "4000"]);
    let renewed = run(&mut connection, Script::Renew, &[&session(0), "10500"]);
    assert_eq!(texts(&renewed[3]), [ticket(1)]);
    assert!(command::<u64>(&mut connection, &["PTTL", "Lock-0"]) <= 4_000, "it is theirs");
    assert_eq!(run(&mut connection, Script::Renew, &[&session(0), "10500"]).len(), 3, "it is told once");
}

#[test]
fn a_contender_that_lost_its_key_is_not_given_it_again_by_a_look() {
    let Some(server) = start() else { return };
    let mut connection = connect(&server);
    run(&mut connection, Script::Open, &[&session(0), "10500", "2500", "test"]);
    let member = join(&mut connection, 0, 1);
    let _: u64 = command(&mut connection, &["DEL", "Lock-0"]);
    let view = run(&mut connection, Script::Look, &["l", "Lock-0", &member, "around"]);
    assert_eq!(view.len(), 2, "another client may have had it since: {view:?}");
    assert_eq!(command::<u64>(&mut connection, &["EXISTS", "Lock-0"]), 0);
}

#[test]
fn only_the_first_contender_is_given_the_key_and_a_look_of_another_leaves_it_free() {
    let Some(server) = start() else { return };
    let mut connection = connect(&server);
    run(&mut connection, Script::Open, &[&session(0), "10500", "2500", "test"]);
    let _: String = command(&mut connection, &["SET", "Lock-0", "theirs"]);
    let members = [1, 2].map(|bits| join(&mut connection, 0, bits));
    let _: u64 = command(&mut connection, &["DEL", "Lock-0"]);
    for place in [&members[1], ""] {
        run(&mut connection, Script::Look, &["l", "Lock-0", place, "around"]);
        assert_eq!(command::<u64>(&mut connection, &["EXISTS", "Lock-0"]), 0);
    }
    run(&mut connection, Script::Look, &["l", "Lock-0", &members[0], "around"]);
    let value: String = command(&mut connection, &["GET", "Lock-0"]);
    assert_eq!(value, format!("{BASE}:c:{}", ticket(1)));
}
