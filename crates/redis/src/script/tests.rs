//! The scripts in a real server, against the model and against what no model shows: memory, time and pieces.

mod clock;
mod model;
mod setnx;

use std::sync::LazyLock;

use lockkeeper_faults::redis::Server;
use proptest::prelude::*;
use proptest::sample::Index;
use redis::{Connection, RedisResult, Value};

use self::model::{Model, Stored};
use super::{KeyScheme, Script, joined};
use crate::layout::{QueueMember, RedisSessionId};

const BASE: &str = "{test}";
const LOCK: &str = "door";
const TIMEOUT_MS: u64 = 10_500;
const GUARD_MS: u64 = 2_500;
const HOUR_MS: u64 = 3_600_000;

/// How many cases the model is played with: some thousands of calls.
const CASES: u32 = 64;

/// Starts a server without persistence; `None` where there is none to start: then the test is skipped.
pub(super) fn start() -> Option<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(Server::standalone_or_skip())
}

pub(super) fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(format!("redis://{}", server.address())).expect("a URL");
    client.get_connection().expect("a connection")
}

struct Runs(Connection);

/// A server with one session; `None` as for [`start`].
fn opened() -> Option<(Server, Runs)> {
    let server = start()?;
    let mut runs = Runs(connect(&server));
    runs.open(0);
    Some((server, runs))
}

/// A key that is the server's clock while it is there, in seconds and microseconds: a clock that stands still between
/// two steps, so that a busy machine ends no session that a model takes for alive.
const CLOCK: &str = "{test}:clock";

/// The scripts that read [`CLOCK`], in the order of their declaration: making one takes longer than a call.
static WITH_CLOCK: LazyLock<Vec<String>> =
    LazyLock::new(|| super::BODIES.iter().map(|(_, body)| with_clock(&super::text(KeyScheme::Ours, body))).collect());

/// The script that tells the service's time.
static NOW: LazyLock<String> = LazyLock::new(|| format!("{}\nreturn whole(vt)", with_clock(super::COMMON)));

fn with_clock(script: &str) -> String {
    let read = format!("(redis.call('EXISTS', '{CLOCK}') == 1 and redis.call('HMGET', '{CLOCK}', 's', 'us') or");
    script.replace("redis.call('TIME')", &format!("{read} redis.call('TIME'))"))
}

pub(super) fn session(number: usize) -> String {
    RedisSessionId::from_random(number as u128 + 1).to_string()
}

pub(super) fn ticket(bits: u128) -> String {
    format!("{bits:032x}")
}

fn text(value: &Value) -> String {
    redis::from_redis_value_ref(value).expect("a text")
}

/// Reads the answer to the join of the only contender of a lock.
pub(super) fn member_alone(answer: &str) -> String {
    let words: Vec<_> = answer.split(' ').collect();
    assert!(words.len() == 3 && words[0] == "ok" && words[2].parse::<u64>().is_ok(), "{answer}");
    words[1].to_owned()
}

pub(super) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

impl Runs {
    fn run(&mut self, script: Script, arguments: &[&str]) -> RedisResult<Value> {
        redis::cmd("EVAL").arg(&WITH_CLOCK[script as usize]).arg(1).arg(BASE).arg(arguments).query(&mut self.0)
    }

    fn answer(&mut self, script: Script, arguments: &[&str]) -> Vec<String> {
        texts(&self.run(script, arguments).expect("an answer"))
    }

    fn command(&mut self, command: &str, arguments: &[&str]) -> Value {
        redis::cmd(command).arg(arguments).query(&mut self.0).expect("an answer")
    }

    fn open(&mut self, number: usize) {
        let answer = self.answer(Script::Open, &[&session(number), "10500", "2500", "test"]);
        assert_eq!(answer, ["ok", "2500"]);
    }

    fn renew(&mut self, number: usize) -> Vec<String> {
        self.answer(Script::Renew, &[&session(number), "10500"])
    }

    /// Joins; returns the word of the answer, the members and the view.
    fn join(
        &mut self,
        number: usize,
        epoch: u64,
        entries: &[Wanted],
    ) -> RedisResult<(String, Vec<String>, Vec<String>)> {
        let (sid, epoch) = (session(number), epoch.to_string());
        let mut arguments =
            vec![sid, epoch, TIMEOUT_MS.to_string(), "l".into(), LOCK.into(), LOCK.into(), "whole".into()];
        for Wanted { mode, bits, anchor, outlives } in entries {
            let lifetime = if *outlives { "p" } else { "s" };
            arguments.extend([mode.to_string(), ticket(*bits), anchor.clone(), lifetime.to_owned(), "{}".to_owned()]);
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let answer = match self.run(Script::Join, &arguments)? {
            Value::Array(answer) => answer,
            alone => {
                let member = member_alone(&text(&alone));
                return Ok(("ok".into(), vec![member.clone()], vec!["0".into(), String::new(), member]));
            }
        };
        // Behind them comes the least guard.
        let lists: Vec<_> = answer[1..].iter().take(2).map(texts).collect();
        let [members, view] = if lists.is_empty() { [vec![], vec![]] } else { lists.try_into().expect("two lists") };
        Ok((text(&answer[0]), members, view))
    }

    fn leave(&mut self, number: usize, bits: u128, member: &str) -> String {
        self.leave_by(Script::LeaveJudged, number, bits, member)
    }

    fn leave_by(&mut self, script: Script, number: usize, bits: u128, member: &str) -> String {
        self.answer(script, &[&session(number), "l", LOCK, &ticket(bits), member]).remove(0)
    }

    fn line(&mut self) -> Vec<String> {
        let mut view = self.answer(Script::Look, &["l", LOCK, "", "whole"]).split_off(2);
        view.sort_by_key(|member| QueueMember::parse(member).expect("a member").place());
        view
    }

    /// Lets this much time pass on the service's clock, as far as one call may go.
    fn pass(&mut self, time_ms: u64) {
        self.see(|seen| seen - time_ms);
    }

    /// Sets the server's clock back, as far as the service can tell.
    fn set_back(&mut self, time_ms: u64) {
        self.see(|seen| seen + time_ms);
    }

    fn see(&mut self, change: impl FnOnce(u64) -> u64) {
        let seen = text(&self.command("HGET", &[BASE, "seen"])).parse().expect("a number");
        self.command("HSET", &[BASE, "seen", &change(seen).to_string()]);
    }

    fn now_ms(&mut self) -> u64 {
        let now = redis::cmd("EVAL").arg(&*NOW).arg(1).arg(BASE).query::<String>(&mut self.0).expect("the clock");
        now.parse().expect("a number")
    }

    fn keys(&mut self) -> Vec<String> {
        let mut keys = texts(&self.command("KEYS", &["*"]));
        keys.sort();
        keys
    }
}

#[derive(Clone, Debug)]
struct Wanted {
    mode: char,
    bits: u128,
    anchor: String,
    outlives: bool,
}

fn mutex(bits: u128) -> Wanted {
    Wanted { mode: 'm', bits, anchor: String::new(), outlives: false }
}

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Attach(usize, u64),
    Renew(usize),
    Join { by: usize, late: bool, mode: char, anchor: Option<Index>, outlives: bool },
    Leave(Index),
    Break(Index),
    Close(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let mode = proptest::sample::select(vec!['m', 'r', 'w', 'c', 'b']);
    let anchor = proptest::option::weighted(0.2, any::<Index>());
    prop_oneof![
        2 => (0..3_usize).prop_map(Step::Open),
        1 => (0..3_usize, 1..5_u64).prop_map(|(by, epoch)| Step::Attach(by, epoch)),
        2 => (0..3_usize).prop_map(Step::Renew),
        8 => (0..3_usize, proptest::bool::weighted(0.1), mode, anchor, proptest::bool::weighted(0.1)).prop_map(
            |(by, late, mode, anchor, outlives)| Step::Join { by, late, mode, anchor, outlives }
        ),
        4 => any::<Index>().prop_map(Step::Leave),
        1 => any::<Index>().prop_map(Step::Break),
        1 => (0..3_usize).prop_map(Step::Close),
        3 => (1..=2_u64).prop_map(Step::Pass),
    ]
}

type Made = Vec<(u128, usize, String)>;

fn play(runs: &mut Runs, model: &mut Model, made: &mut Made, step: &Step) {
    let now_ms = runs.now_ms();
    model.pass(now_ms);
    let ends_ms = now_ms + TIMEOUT_MS;
    match step {
        Step::Open(by) if model.sessions.contains_key(by) => {}
        Step::Open(by) => {
            // What is dead is removed first, so that its number can be used again.
            runs.open(9);
            runs.open(*by);
            model.open(*by, ends_ms);
        }
        Step::Attach(by, epoch) => {
            let answer = runs.answer(Script::Attach, &[&session(*by), "10500", &epoch.to_string()]);
            assert_eq!(answer[0], model.attach(*by, *epoch, ends_ms));
        }
        Step::Renew(by) => assert_eq!(runs.renew(*by)[0], model.renew(*by, ends_ms)),
        Step::Join { by, late, mode, anchor, outlives } => {
            let bits = made.len() as u128 + 1;
            let epoch = model.sessions.get(by).map_or(1, |session| session.epoch) - u64::from(*late);
            let anchor = anchor.as_ref().filter(|_| !made.is_empty()).map(|at| at.get(made).clone());
            let member = anchor.as_ref().map_or_else(String::new, |(_, _, member)| member.clone());
            let wanted = Wanted { mode: *mode, bits, anchor: member, outlives: *outlives };
            let (word, members, _) = runs.join(*by, epoch, &[wanted]).expect("an answer");
            let read = members.first().map(|member| QueueMember::parse(member).expect("a member"));
            let place = read.map_or((0, 0), |member| member.place());
            let anchor = anchor.map(|(bits, ..)| bits);
            let beside = anchor.and_then(|bits| model.find(bits)).map(|stored| stored.place.0);
            let entry = Stored { place, mode: *mode, ticket: bits, session: (!outlives).then_some(*by) };
            assert_eq!(word, model.join(entry, epoch, anchor, *by, ends_ms));
            if let Some(member) = members.first() {
                match beside {
                    Some(grant) => assert_eq!(place.0, grant, "it has the grant of the one beside which it stands"),
                    None => assert!(model.grows(place.0), "a token that does not grow"),
                }
                made.push((bits, *by, member.clone()));
            }
        }
        Step::Leave(at) if !made.is_empty() => {
            let (bits, by, member) = at.get(made).clone();
            let outlives = member.ends_with('-');
            assert_eq!(runs.leave(by, bits, &member), model.leave(bits, by, outlives));
        }
        Step::Break(at) if !made.is_empty() => {
            let (bits, _, member) = at.get(made).clone();
            let answer = runs.answer(Script::Request, &["l", LOCK, &member, "break"]);
            assert_eq!(answer[0] == "1", model.break_it(bits));
        }
        Step::Leave(_) | Step::Break(_) => {}
        Step::Close(by) => {
            assert_eq!(runs.answer(Script::Close, &[&session(*by)]), ["0"]);
            model.close(*by);
        }
        Step::Pass(seconds) => {
            runs.pass(seconds * 1_000);
            // A session that nothing else is done with keeps the clock.
            runs.open(9);
        }
    }
    model.pass(runs.now_ms());
    let shown: Vec<_> =
        runs.line().iter().map(|member| QueueMember::parse(member).expect("a member").place()).collect();
    let expected: Vec<_> = model.line.iter().map(|stored| stored.place).collect();
    assert_eq!(shown, expected, "after {step:?}");
}

#[test]
fn the_line_is_that_of_the_model_in_any_order_of_calls() {
    let Some(server) = start() else { return };
    let config = ProptestConfig { source_file: Some(file!()), cases: CASES, ..ProptestConfig::default() };
    let steps = proptest::collection::vec(step(), 0..60);
    let outcome = proptest::test_runner::TestRunner::new(config).run(&steps, |steps| {
        let (mut model, mut made) = (Model::default(), Made::new());
        let mut runs = Runs(connect(&server));
        runs.command("FLUSHALL", &[]);
        runs.command("HSET", &[CLOCK, "s", "1800000000", "us", "0"]);
        runs.open(9);
        for step in &steps {
            play(&mut runs, &mut model, &mut made, step);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn one_that_is_left_in_belief_leaves_nothing_behind_and_why_another_was_gone_is_still_to_be_asked() {
    let Some((_server, mut runs)) = opened() else { return };
    let before = runs.keys();
    let (_, members, _) = runs.join(0, 1, &[mutex(1), mutex(2)]).expect("an answer");
    assert_eq!(runs.answer(Script::Request, &["l", LOCK, &members[1], "break"]), ["1"]);
    assert_eq!(runs.leave_by(Script::LeaveBelieved, 0, 1, &members[0]), "left");
    assert_eq!(runs.leave_by(Script::LeaveBelieved, 0, 2, &members[1]), "absent");
    assert_eq!(runs.keys(), before);
    assert_eq!(runs.leave(0, 2, &members[1]), "broken");
    assert_eq!(runs.leave(0, 1, &members[0]), "removed");
}

#[test]
fn a_dead_session_is_removed_in_pieces_and_counts_as_gone_from_the_first() {
    const ENTRIES: usize = 1_000;
    let Some((_server, mut runs)) = opened() else { return };
    runs.open(1);
    let many: Vec<_> = (1..=ENTRIES as u128).map(mutex).collect();
    let (_, members, _) = runs.join(0, 1, &many).expect("an answer");
    assert_eq!(members.len(), ENTRIES);
    let (_, mine, _) = runs.join(1, 1, &[mutex(5_000)]).expect("an answer");
    while runs.now_ms() < text(&runs.command("ZSCORE", &["{test}:ss", &session(0)])).parse().expect("a number") {
        runs.pass(GUARD_MS);
        if runs.renew(1)[2] == "1" {
            break;
        }
    }
    assert_eq!(runs.line(), mine, "views leave out the dead before they are removed");
    assert_eq!(runs.answer(Script::Look, &["l", LOCK, &mine[0], "around"])[2..], mine[..]);
    let mut pieces = 1;
    while runs.renew(1)[2] == "1" {
        pieces += 1;
    }
    assert!((5..=6).contains(&pieces), "{pieces} calls");
    assert_eq!(text(&runs.command("ZCARD", &["{test}:q:l:door:m"])), "1");
}

#[test]
fn holders_renew_and_leave_where_the_servers_memory_is_full_and_joins_say_so() {
    let Some((_server, mut runs)) = opened() else { return };
    let (_, members, _) = runs.join(0, 1, &[mutex(1)]).expect("an answer");
    runs.command("CONFIG", &["SET", "maxmemory-policy", "noeviction"]);
    runs.command("CONFIG", &["SET", "maxmemory", "1"]);
    let refused = runs.join(0, 1, &[mutex(2)]).expect_err("there is no room");
    assert_eq!(refused.code(), Some("OOM"), "{refused}");
    assert_eq!(runs.renew(0)[0], "ok");
    assert_eq!(runs.answer(Script::Attach, &[&session(0), "10500", "2"])[0], "ok");
    assert_eq!(runs.answer(Script::Request, &["l", LOCK, &members[0], "yield", "{}"]), ["1"]);
    assert_eq!(runs.leave(0, 1, &members[0]), "left");
    assert_eq!(runs.answer(Script::Close, &[&session(0)]), ["0"]);
}

#[test]
fn what_sessions_have_left_whose_ends_were_lost_is_in_no_ones_way() {
    let Some((_server, mut runs)) = opened() else { return };
    let (_, _, before) = runs.join(0, 1, &[mutex(1)]).expect("an answer");
    assert_eq!(before.len(), 2 + 1, "{before:?}");
    runs.command("DEL", &["{test}:ss"]);
    runs.open(1);
    let (_, members, view) = runs.join(1, 1, &[mutex(2)]).expect("an answer");
    assert_eq!(view[2..], members, "it is the first");
    assert_eq!(runs.leave(1, 2, ""), "left");
    assert_eq!(runs.renew(0), ["gone"]);
    assert_eq!(runs.answer(Script::Close, &[&session(0)]), ["0"], "its client removes what is left of it");
    assert_eq!(runs.answer(Script::Close, &[&session(1)]), ["0"]);
    assert_eq!(runs.keys(), [BASE]);
}

#[test]
fn the_only_contender_of_a_lock_is_told_so_and_takes_the_number_of_permits_with_it() {
    let Some((_server, mut runs)) = opened() else { return };
    let before = runs.keys();
    let join = |runs: &mut Runs, mode: &str, bits| {
        let (sid, ticket, part) = (session(0), ticket(bits), if mode == "p" { "p" } else { "l" });
        let place = [&sid, "1", "10500", part, LOCK, LOCK, "whole", mode, &ticket, "", "s", "{}"];
        runs.run(Script::Join, &place).expect("an answer")
    };
    let first = join(&mut runs, "p", 1);
    let first = member_alone(&text(&first));
    assert_eq!(runs.answer(Script::SetValue, &[&session(0), "1", "p", LOCK, "absent", "set", "3"])[0], "ok");
    let Value::Array(second) = join(&mut runs, "m", 2) else { panic!("there is one of another part") };
    assert_eq!(texts(&second[2]), ["0", "p", &texts(&second[1])[0]]);
    assert_eq!(runs.answer(Script::LeaveBelieved, &[&session(0), "p", LOCK, &ticket(1), &first]), ["left"]);
    assert_eq!(text(&runs.command("EXISTS", &["{test}:v:p:door"])), "1", "one has not left");
    assert_eq!(runs.leave(0, 2, ""), "left");
    assert_eq!(runs.keys(), before);
}

const BEGINNING: &str = "-- What is here.

local one, two = 1, 2
if one then
  two = 3
end

-- Adds.
local function add() return two + 1 end
local function other() return add() end
";

#[test]
fn a_script_has_what_it_names_and_what_that_names_and_no_more() {
    assert_eq!(joined(BEGINNING, "return 7"), "return 7");
    let with_add = joined(BEGINNING, "-- Not other.\nreturn add()");
    assert!(with_add.contains("local one, two = 1, 2\nif one then\n  two = 3\nend\n"), "{with_add}");
    assert!(with_add.contains("-- Adds.\nlocal function add()"), "{with_add}");
    assert!(!with_add.contains("function other"), "{with_add}");
}
