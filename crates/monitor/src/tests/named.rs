//! Deadlocks as they happen, each with its chain and its way out.

use std::time::Duration;

use lockkeeper::{Answers, ContenderInfo, Mode, QueueName};

use super::scene::{contender, foreign, lock, of, seen, within};
use crate::deadlock::{AheadRole, Certainty, ChainLink, Deadlock, Dependence, WayOut};
use crate::find;
use crate::snapshot::ObservedLock;

fn found(locks: Vec<ObservedLock>) -> Vec<Deadlock> {
    find(&seen(locks, 0, 0))
}

/// Those of them that are sure enough for an alarm.
fn known(locks: Vec<ObservedLock>) -> Vec<Deadlock> {
    found(locks).into_iter().filter(|deadlock| deadlock.certainty.is_known()).collect()
}

/// The one deadlock among these locks.
fn the_one(locks: Vec<ObservedLock>) -> Deadlock {
    the_only_of(known(locks))
}

/// The same, where it is only possible.
fn the_only(locks: Vec<ObservedLock>) -> Deadlock {
    the_only_of(found(locks))
}

fn the_only_of(mut found: Vec<Deadlock>) -> Deadlock {
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

/// Each link: the lock, who waits, who is ahead, what that does, and what joins it with the next.
fn chain(deadlock: &Deadlock) -> Vec<(&str, &str, &str, AheadRole, Dependence)> {
    let links = deadlock.chain.iter();
    links
        .map(|ChainLink { lock, waiter, ahead, state, joined, .. }| {
            (lock.as_str(), waiter.id.as_str(), ahead.id.as_str(), *state, *joined)
        })
        .collect()
}

fn revokes(deadlock: &Deadlock) -> (&str, &str) {
    match &deadlock.way_out {
        WayOut::Revoke { lock, holder } => (lock.as_str(), holder.id.as_str()),
        other => panic!("{other:?}"),
    }
}

const HOLDS: AheadRole = AheadRole::Holds;

/// A contender of a process that runs it as a command.
fn run(number: u64, process: u64) -> ContenderInfo {
    of(contender(number, Mode::Mutex), process, "h1")
}

/// A contender of a flow of the first process.
fn one(number: u64, mode: Mode, flow: &str) -> ContenderInfo {
    of(contender(number, mode), 1, flow)
}

fn mutex(number: u64, flow: &str) -> ContenderInfo {
    one(number, Mode::Mutex, flow)
}

#[test]
fn two_commands_that_run_under_each_others_lock() {
    let deadlock = the_one(vec![
        lock("A", vec![run(1, 1), within(run(4, 4), 2), run(5, 5)]),
        lock("B", vec![run(2, 2), within(run(3, 3), 1)]),
    ]);
    assert_eq!(deadlock.certainty, Certainty::SameOwner);
    let expected = [("A", "4", "1", HOLDS, Dependence::Within), ("B", "3", "2", HOLDS, Dependence::Within)];
    assert_eq!(chain(&deadlock), expected);
    assert_eq!((deadlock.core.len(), deadlock.behind), (4, 1));
    assert_eq!(revokes(&deadlock), ("B", "2"), "it came last");
}

#[test]
fn those_who_came_between_are_counted_and_not_told_one_by_one() {
    let deadlock = the_one(vec![
        lock("A", vec![run(1, 1), run(3, 3), run(4, 4), within(run(8, 8), 2)]),
        lock("B", vec![run(2, 2), run(5, 5), within(run(7, 7), 1)]),
    ]);
    let expected = [("B", "7", "2", HOLDS, Dependence::Within), ("A", "8", "1", HOLDS, Dependence::Within)];
    assert_eq!(chain(&deadlock), expected);
    let between: Vec<_> = deadlock.chain.iter().map(|link| link.between).collect();
    assert_eq!((between, deadlock.core.len()), (vec![1, 2], 7), "they block each other too");
}

#[test]
fn two_commands_beside_each_other_under_one_lock_are_no_deadlock_for_certain() {
    // Under the lock of 1, one command holds B and goes on, and another one waits for C, whose holder waits for B.
    let deadlock = the_only(vec![
        lock("A", vec![run(1, 1)]),
        lock("B", vec![within(run(2, 2), 1), within(run(5, 5), 4)]),
        lock("C", vec![run(4, 4), within(run(3, 3), 1)]),
    ]);
    assert_eq!(deadlock.certainty, Certainty::SameRun);
    let joined: Vec<_> = deadlock.chain.iter().map(|link| link.joined).collect();
    assert_eq!(joined, [Dependence::Run, Dependence::Within]);
}

#[test]
fn a_reader_behind_a_writer_that_waits() {
    let deadlock = the_one(vec![lock(
        "book",
        vec![one(1, Mode::Read, "t1"), one(2, Mode::Write, "t2"), one(3, Mode::Read, "t1")],
    )]);
    let expected =
        [("book", "2", "1", HOLDS, Dependence::Task), ("book", "3", "2", AheadRole::Waits, Dependence::Itself)];
    assert_eq!(chain(&deadlock), expected);
}

#[test]
fn a_reader_waits_for_a_writer_whose_token_is_as_unknown_as_its_own() {
    let mut book = [one(1, Mode::Write, "t1"), one(4, Mode::Read, "t2")];
    book.iter_mut().for_each(|unread| unread.token = None);
    let deadlock = the_one(vec![lock("book", book.into()), lock("door", vec![mutex(2, "t2"), mutex(3, "t1")])]);
    assert!(chain(&deadlock).contains(&("book", "4", "1", HOLDS, Dependence::Task)), "{deadlock:#?}");
}

#[test]
fn a_thread_that_waits_for_what_it_holds() {
    let deadlock = the_one(vec![lock("A", vec![mutex(1, "h7"), mutex(2, "h7")])]);
    assert_eq!((deadlock.certainty, deadlock.core.len()), (Certainty::SameOwner, 2));
    assert_eq!(chain(&deadlock), [("A", "2", "1", HOLDS, Dependence::Thread)]);
}

#[test]
fn of_one_process_or_session_it_is_possible_if_the_wait_is_later_and_for_another_lock() {
    let program = |number, session| foreign(contender(number, Mode::Mutex), session);
    // Held by one task, and awaited by another one of the same process.
    let mixed = |first: u64, second: u64| {
        vec![
            lock("A", vec![mutex(first, "t1"), program(4, "s1")]),
            lock("B", vec![program(2, "s1"), mutex(second, "t2")]),
        ]
    };
    let deadlock = the_only(mixed(1, 3));
    assert_eq!(deadlock.certainty, Certainty::SameSession);
    let joined: Vec<_> = deadlock.chain.iter().map(|link| link.joined).collect();
    assert_eq!(joined, [Dependence::Process, Dependence::Session]);
    assert!(found(mixed(5, 3)).is_empty(), "the wait is older than the hold");
    let both = [mutex(1, "t1"), mutex(2, "t2"), mutex(3, "t3")].to_vec();
    assert!(found(vec![lock("A", both)]).is_empty(), "several tasks for one lock");
}

#[test]
fn a_task_that_waits_keeps_what_it_holds_though_another_wait_of_its_process_is_over() {
    let task = |number, process, task| of(contender(number, Mode::Mutex), process, task);
    let program = |number| foreign(contender(number, Mode::Mutex), "s1");
    // The task has waited for B already when it got A; another one waits for C, which comes back.
    let deadlock = the_only(vec![
        lock("A", vec![task(3, 1, "t1"), program(5)]),
        lock("B", vec![program(1), task(2, 1, "t1")]),
        lock("C", vec![task(4, 2, "t9"), task(6, 1, "t2")]),
    ]);
    assert_eq!(deadlock.certainty, Certainty::SameSession);
    let expected = [("A", "5", "3", HOLDS, Dependence::Task), ("B", "2", "1", HOLDS, Dependence::Session)];
    assert_eq!(chain(&deadlock), expected);
}

#[test]
fn a_frozen_lock_is_no_deadlock_and_a_holder_that_does_not_wait_ends_the_search() {
    let mut freezing = mutex(1, "t1");
    freezing.frozen = Some("new disks".to_owned());
    let frozen = vec![lock("A", vec![freezing, mutex(4, "t2")]), lock("B", vec![mutex(2, "t2"), mutex(3, "t1")])];
    assert!(found(frozen).is_empty());
    let held = vec![
        lock("A", vec![mutex(1, "t1"), mutex(4, "t2")]),
        lock("B", vec![mutex(2, "t2"), mutex(5, "t3")]),
        lock("C", vec![mutex(3, "t3")]),
    ];
    assert!(known(held).is_empty());
}

#[test]
fn the_surest_is_named_first_and_nothing_twice() {
    let other = |number, key| of(contender(number, Mode::Mutex), 2, key);
    let deadlocks = found(vec![
        lock("A", vec![mutex(1, "t1"), mutex(4, "t2")]),
        lock("B", vec![mutex(2, "t2"), mutex(3, "t1")]),
        lock("C", vec![other(5, "k1"), other(8, "k2")]),
        lock("D", vec![other(6, "k2"), other(7, "k1")]),
    ]);
    let found: Vec<_> = deadlocks.iter().map(|deadlock| deadlock.certainty).collect();
    assert_eq!(found, [Certainty::SameOwner, Certainty::SameTask]);
}

#[test]
fn who_answers_is_asked_and_else_the_one_with_a_token_is_broken() {
    let locks = |answers: [Answers; 2], has_token: bool| {
        let owner = |number, owner| {
            let mut info = of(contender(number, Mode::Mutex), 1, owner);
            info.token = info.token.filter(|_| has_token);
            info
        };
        let mut holders = [owner(1, "k1"), owner(2, "k2")];
        for (holder, answers) in holders.iter_mut().zip(answers) {
            holder.answers = answers;
        }
        let [first, second] = holders;
        vec![lock("A", vec![first, owner(4, "k2")]), lock("B", vec![second, owner(3, "k1")])]
    };
    use Answers::{No, Unknown, Yes};
    for (answers, asked) in [([Yes, No], "A"), ([Yes, Yes], "B"), ([Unknown, No], "A"), ([Unknown, Yes], "B")] {
        assert_eq!(revokes(&the_one(locks(answers, true))).0, asked, "{answers:?}");
    }
    let deadlock = the_one(locks([No, No], true));
    let WayOut::Break { lock, token, .. } = &deadlock.way_out else { panic!("{deadlock:?}") };
    assert_eq!((lock, token.as_u64()), (&QueueName::new("B").unwrap(), 2));
    assert!(matches!(the_one(locks([No, No], false)).way_out, WayOut::EndProcess));
}

#[test]
fn the_first_who_gives_up_ends_it() {
    let until = |number, owner, seconds| {
        let mut info = of(contender(number, Mode::Mutex), 1, owner);
        info.caller.until_unix = Some(Duration::from_secs(seconds));
        info
    };
    // What a holder has waited for is over.
    let deadlock = the_one(vec![
        lock("A", vec![until(1, "k1", 5), until(4, "k2", 90)]),
        lock("B", vec![until(2, "k2", 6), until(3, "k1", 70)]),
    ]);
    assert_eq!(deadlock.ends_unix, Some(Duration::from_secs(70)));
}
