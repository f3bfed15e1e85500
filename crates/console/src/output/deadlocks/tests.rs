//! Tests of the output for deadlocks that were seen once or twice.

use lockkeeper::backend::{Flow, ProcessId, Ticket};
use lockkeeper::{Answers, ContenderId, FencingToken, Mode, Owner, QueueName};
use lockkeeper_monitor::{CONFIRM_AFTER, Confirmation, ObservedLock, ServiceSnapshot, find};

use super::*;

const NOW: Duration = Duration::from_secs(100);

/// A contender that joined as many seconds after 0 as its number says, of this process and flow.
fn contender(number: u64, mode: Mode, process: u64, flow: &str) -> ContenderInfo {
    let mut info = ContenderInfo::new(ContenderId::new(format!("c{number}")), mode);
    info.ticket = Some(Ticket::from_bits(u128::from(number) << 64));
    info.token = FencingToken::new(number, 0);
    info.owner = Some(Owner::new("web-3", u32::try_from(process).unwrap(), "job"));
    info.since_unix = Some(Duration::from_secs(number));
    info.caller.process = ProcessId::parse(&format!("{process:016x}"));
    info.caller.flow = Flow::parse(flow);
    info.answers = Answers::Yes;
    info
}

fn lock(name: &str, contenders: Vec<ContenderInfo>) -> ObservedLock {
    ObservedLock::new(QueueName::new(name).unwrap(), contenders, None)
}

/// What two looks at these locks show.
fn seen_twice(locks: &[ObservedLock]) -> Deadlocks {
    let mut confirmation = Confirmation::default();
    let mut at = BootInstant::from_nanos(0);
    let mut found = None;
    for _ in 0..2 {
        let snapshot = ServiceSnapshot::new(locks.to_vec(), at, at, NOW);
        let judged = confirmation.judge(&snapshot, find(&snapshot));
        let orders = OrderCommands::new(None, None);
        found = Some(Deadlocks::new("file:/x".to_owned(), &snapshot, &judged, &orders));
        at = at.saturating_add(CONFIRM_AFTER);
    }
    found.expect("it was looked at")
}

/// Two flows of two processes that lock A and B in opposite orders.
fn crossed(flows: [&str; 2]) -> Vec<ObservedLock> {
    let one = |number, process: u64, flow| contender(number, Mode::Mutex, process, flow);
    vec![
        lock("A", vec![one(1, 1, flows[0]), one(4, 2, flows[1])]),
        lock("B", vec![one(2, 2, flows[1]), one(3, 1, flows[0])]),
    ]
}

#[test]
fn a_known_deadlock_is_told_with_its_chain_and_its_way_out() {
    let mut locks = crossed(["k1", "k2"]);
    locks[0].contenders.push(contender(5, Mode::Mutex, 3, "t1"));
    let found = seen_twice(&locks);
    assert_eq!(
        found.text(),
        "file:/x\n\
         deadlock, known by the same owner key; 1 waits behind it\n\
         \u{20} 1. web-3 pid 2 job waits for A for 1m36s; web-3 pid 1 job holds it, \
         and is of one owner key with 2.\n\
         \u{20} 2. web-3 pid 1 job waits for B for 1m37s; web-3 pid 2 job holds it, \
         and is of one owner key with 1.\n\
         \u{20} way out: ask web-3 pid 2 job to give B up\n\
         \u{20}   lockkeeper revoke B\n"
    );
    let json = serde_json::to_value(&found).unwrap();
    let deadlock = &json["deadlocks"][0];
    let told = ["verdict", "certainty", "stands_ms", "ends_ms", "behind"].map(|field| &deadlock[field]);
    assert_eq!(serde_json::json!(told), serde_json::json!(["known", "same-owner", 1_000, null, 1]));
    let link = ["lock", "state", "permits", "joined"].map(|field| &deadlock["chain"][0][field]);
    assert_eq!(serde_json::json!(link), serde_json::json!(["A", "holds", null, "owner-key"]));
    let way_out = ["action", "lock", "token", "command"].map(|field| &deadlock["way_out"][field]);
    assert_eq!(serde_json::json!(way_out), serde_json::json!(["revoke", "B", null, ["lockkeeper", "revoke", "B"]]));
}

#[test]
fn what_joins_two_waits_says_how_sure_a_deadlock_is() {
    for (flows, head, joined) in [
        (["h1", "h2"], "deadlock, known by the same thread", "is of one thread with 2."),
        (["t1", "t2"], "deadlock, known by the same task", "is of one task with 2."),
        (["k1", "t2"], "deadlock, known by the same task", "is of one owner key with 2."),
        (["", ""], "possible deadlock: no more is known than the same process", "is of one process with 2."),
    ] {
        let text = seen_twice(&crossed(flows)).text();
        assert!(text.lines().nth(1).unwrap() == head && text.contains(joined), "{text}");
    }
}

#[test]
fn a_wait_behind_a_waiter_and_one_for_a_permit_are_told() {
    let task = |number, mode, flow| contender(number, mode, 1, flow);
    let book = vec![task(1, Mode::Read, "t1"), task(2, Mode::Write, "t2"), task(3, Mode::Read, "t1")];
    let text = seen_twice(&[lock("book", book)]).text();
    assert!(text.contains("web-3 pid 1 job is ahead of it, and waits in 1.\n"), "{text}");
    assert!(text.contains("ask the holders of book to give it up, of which web-3 pid 1 job is in the way\n"), "{text}");
    for (permits, words) in
        [(1, "has its only permit, and"), (2, "has one of its 2 permits, of which none comes back, and")]
    {
        let mut gate = vec![task(2, Mode::Permit, "t2"), task(3, Mode::Acquire, "t1")];
        let mut door = vec![task(1, Mode::Mutex, "t1"), task(4, Mode::Mutex, "t2")];
        if permits == 2 {
            gate.insert(1, task(5, Mode::Permit, "t3"));
            door.push(task(6, Mode::Mutex, "t3"));
        }
        let mut gate = lock("gate", gate);
        gate.permits = Some(permits);
        let text = seen_twice(&[lock("door", door), gate]).text();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_contender_of_another_client_is_named_by_its_session_and_its_label_in_one_line() {
    let mut locks = crossed(["", ""]);
    for (lock, at, id) in [(0, 0, "x-0"), (1, 1, "x-1")] {
        let foreign = &mut locks[lock].contenders[at];
        foreign.id = ContenderId::new(id);
        (foreign.owner, foreign.ticket) = (None, None);
        foreign.caller.process = None;
        foreign.session = Some("0x1".to_owned());
        foreign.label = Some("job-7\n\u{1b}[2J".to_owned());
        foreign.answers = Answers::No;
        foreign.token = FencingToken::new(77, 0);
    }
    let text = seen_twice(&locks).text();
    let named = "x-0 of session 0x1, which says job-7\\n\\u{1b}[2J, holds it, and is of one session with 2.\n";
    assert!(text.contains(named) && text.lines().count() == 6, "{text}");
    assert!(text.contains("possible deadlock: no more is known than the same session\n"), "{text}");
    // None of ours: the foreign one is to be broken.
    locks[1].contenders[0].answers = Answers::No;
    locks[1].contenders[0].token = None;
    let text = seen_twice(&locks).text();
    assert!(text.contains("\n    lockkeeper break --token 77 A\n"), "{text}");
    locks[0].contenders[0].token = None;
    let text = seen_twice(&locks).text();
    assert!(text.contains("way out: end the process of one of them") && text.lines().count() == 5, "{text}");
}

#[test]
fn what_was_seen_once_is_not_told_as_known() {
    let now = BootInstant::from_nanos(0);
    let snapshot = ServiceSnapshot::new(crossed(["t1", "t2"]), now, now, NOW);
    let judged = Confirmation::default().judge(&snapshot, find(&snapshot));
    let text = Deadlocks::new("x".to_owned(), &snapshot, &judged, &OrderCommands::new(None, None)).text();
    assert!(text.contains("\ndeadlock by the same task, not confirmed: it was seen once, so look again\n"), "{text}");
}
