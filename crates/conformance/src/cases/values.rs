//! The one small value of a queue, and the shared counter that is kept in one: compared, set and watched.

use std::sync::Arc;

use lockkeeper_core::{
    Advice, ErrorKind, Expected, Mode, Modes, Part, QueueName, VALUE_BYTES_MAX, Value, ValueVersion,
};
use lockkeeper_recipes::{Count, SharedCounter};
use tokio::task::yield_now;

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, enter_all, parties};
use crate::speaker::{Speaker, line, part_of, speakers};
use crate::waiting::{at_most, soon};

const WRITERS: usize = 6;
const WRITES: u64 = 60;

pub(super) fn cases() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("a value is read as it was written, by every client, until it is removed", read_as_written),
        Case::new("a value that was changed, or removed and made anew, is in another state", states_differ),
        Case::new("of clients that expect the same state of a value one writes", one_writes),
        Case::new("the values of a lock's parts are separate, and no contenders", separate).uses(Modes::SEMAPHORE),
        Case::new("a value that is too long is refused and changes nothing", too_long),
        Case::new("a value that is in another state already is shown at once", shown_at_once),
        Case::new("of many writes in a row the last is always seen", last_seen),
        cutting(Case::new("a value written while the connection was cut is shown after healing", written_while_cut)),
    ]
}

fn number() -> QueueName {
    line("number")
}

fn bytes(text: &str) -> Option<Arc<[u8]>> {
    Some(text.as_bytes().into())
}

impl Speaker {
    async fn value_of(&self, queue: &QueueName) -> Option<Value> {
        soon("the value", self.session.values().get(queue)).await.expect("it can be read")
    }

    async fn set(&self, expected: Expected, value: Option<Arc<[u8]>>) -> Option<ValueVersion> {
        soon("the answer", self.session.values().set(&number(), expected, value)).await.expect("it can be written")
    }

    async fn text(&self) -> Option<String> {
        let value = self.value_of(&number()).await?;
        Some(String::from_utf8(value.bytes.to_vec()).expect("it is text"))
    }

    async fn remove(&self) {
        assert!(self.set(Expected::Any, None).await.is_some(), "anything is expected");
    }
}

async fn read_as_written(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    assert_eq!(bob.value_of(&number()).await, None);
    let full = vec![0xa5; VALUE_BYTES_MAX];
    for written in [&b"7"[..], b"", &[0, 255, 128, 10], &full] {
        let version = ann.set(Expected::Any, Some(written.into())).await.expect("anything is expected");
        let read = bob.value_of(&number()).await.expect("there is one");
        assert_eq!((&*read.bytes, read.version), (written, version));
    }
    ann.remove().await;
    assert_eq!(bob.value_of(&number()).await, None, "a removed value is absent, and an empty one is not");
    ann.remove().await;
}

async fn states_differ(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let first = ann.set(Expected::Absent, bytes("same")).await.expect("there is none yet");
    assert_eq!(bob.set(Expected::Absent, bytes("other")).await, None, "there is one");
    let second = ann.set(Expected::Version(first), bytes("same")).await.expect("it is in this state");
    assert_ne!(second, first, "the same text written again is another state");
    assert_eq!(bob.set(Expected::Version(first), bytes("other")).await, None, "that state is over");
    assert_eq!(bob.set(Expected::Version(first), None).await, None, "nor is it removed");
    assert_eq!(bob.text().await.as_deref(), Some("same"));
    assert!(bob.set(Expected::Version(second), None).await.is_some());
    assert_eq!(ann.set(Expected::Version(second), bytes("other")).await, None, "it is gone");
    let third = ann.set(Expected::Absent, bytes("same")).await.expect("there is none any more");
    assert!(third != first && third != second, "made anew it is in a new state");
    for stale in [first, second] {
        assert_eq!(bob.set(Expected::Version(stale), bytes("other")).await, None);
    }
    assert_eq!(bob.text().await.as_deref(), Some("same"));
    ann.remove().await;
}

async fn one_writes(fixture: &dyn Fixture) {
    let speakers: [Speaker; WRITERS] = speakers(fixture).await;
    let mut expected = Expected::Absent;
    for round in 0..5 {
        let writing: Vec<_> = speakers
            .iter()
            .enumerate()
            .map(|(writer, speaker)| {
                let text = bytes(&format!("{writer} in round {round}"));
                tokio::spawn(speaker.session.values().set(&number(), expected, text))
            })
            .collect();
        let mut wrote = Vec::new();
        for (writer, task) in writing.into_iter().enumerate() {
            let outcome = soon("the answer", task).await.expect("the task does not panic");
            wrote.extend(outcome.expect("it can be written").map(|version| (writer, version)));
        }
        let [(writer, version)] = wrote[..] else {
            panic!("{} of {WRITERS} wrote, who all expected {expected:?}", wrote.len());
        };
        assert_eq!(speakers[0].text().await, Some(format!("{writer} in round {round}")));
        expected = Expected::Version(version);
    }
    speakers[0].remove().await;
}

async fn separate(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let parts = [Part::Line, Part::Permits, Part::Waiters].map(|part| part_of("number", part));
    for (at, queue) in parts.iter().enumerate() {
        let written = ann.session.values().set(queue, Expected::Absent, bytes(&at.to_string()));
        assert!(soon("the answer", written).await.expect("it can be written").is_some(), "{:?}", queue.part());
    }
    let place = ann.take(&parts[1], Mode::Permit).await;
    for (at, queue) in parts.iter().enumerate() {
        let value = bob.value_of(queue).await.expect("there is one");
        assert_eq!(*value.bytes, *at.to_string().as_bytes(), "{:?}", queue.part());
        assert_eq!(bob.ids(queue).await.len(), usize::from(at == 1), "a value is no contender");
    }
    ann.withdraw(&parts[1], place.ticket).await;
    assert!(bob.inspect(&parts[0]).await.is_empty());
    assert_eq!(bob.value_of(&line("numbers")).await, None);
    for queue in &parts {
        let removed = soon("the answer", ann.session.values().set(queue, Expected::Any, None)).await;
        assert!(removed.expect("it can be removed").is_some());
        assert_eq!(bob.value_of(queue).await, None);
    }
}

async fn too_long(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    ann.set(Expected::Absent, bytes("short")).await;
    let long = Some(vec![b'x'; VALUE_BYTES_MAX + 1].into());
    let refusal = ann.session.values().set(&number(), Expected::Any, long);
    let error = soon("the refusal", refusal).await.expect_err("it is too long");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::LimitReached, Advice::Permanent), "{error:?}");
    assert_eq!(ann.text().await.as_deref(), Some("short"));
    ann.remove().await;
}

async fn shown_at_once(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let version = ann.set(Expected::Absent, bytes("one")).await.expect("there is none yet");
    let value = soon("the value", bob.session.values().until_changed(&number(), None)).await.expect("it can be read");
    assert_eq!(value.map(|value| value.version), Some(version));
    ann.remove().await;
    let gone = soon("the event", bob.session.values().until_changed(&number(), Some(version))).await;
    assert_eq!(gone.expect("it can be read"), None);
}

/// Two writes follow each other, and the second must be seen before the third. Sometimes it comes before the watcher
/// waits again.
async fn last_seen(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let (see, mut seen_last) = tokio::sync::watch::channel(0);
    let watching = async {
        let mut seen = None;
        while *see.borrow() < WRITES {
            let told = bob.session.values().until_changed(&number(), seen).await.expect("it can be read");
            let value = told.expect("it is never removed");
            let read = std::str::from_utf8(&value.bytes).expect("it is text").parse().expect("it is a number");
            let before = see.send_replace(read);
            assert!(read > before, "{read} after {before}");
            seen = Some(value.version);
            // Time for the second write to come first.
            for _ in 0..3 {
                yield_now().await;
            }
        }
    };
    let writing = async {
        for first in (1..WRITES).step_by(2) {
            ann.set(Expected::Any, bytes(&first.to_string())).await;
            soon("a value", seen_last.wait_for(|&last| last == first)).await.expect("the watcher is there");
            ann.set(Expected::Any, bytes(&(first + 1).to_string())).await;
            soon("the next value", seen_last.wait_for(|&last| last == first + 1)).await.expect("the watcher is there");
        }
    };
    // Each value has a bound: the time of them all is that of so many flushes of a server's disk.
    tokio::join!(watching, writing);
    ann.remove().await;
}

async fn written_while_cut(fixture: &dyn Fixture) {
    let [ann, bob] = speakers(fixture).await;
    let mut seen = ann.set(Expected::Absent, bytes("before")).await;
    assert_eq!(bob.value_of(&number()).await.map(|value| value.version), seen);
    let waiting = tokio::spawn(bob.session.values().until_changed(&number(), seen));
    bob.value_of(&number()).await;
    bob.inflict(Fault::Cut).await;
    ann.set(Expected::Any, bytes("after")).await;
    assert!(!waiting.is_finished(), "no event can have reached it");
    bob.inflict(Fault::Heal).await;
    let mut told = soon("the event", waiting).await.expect("the task does not panic").expect("it can be read");
    while told.as_ref().is_none_or(|value| *value.bytes != *b"after") {
        seen = told.map(|value| value.version);
        told = soon("the event", bob.session.values().until_changed(&number(), seen)).await.expect("it can be read");
    }
    ann.remove().await;
}

pub(super) fn counters() -> Vec<Case> {
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("a counter that was never set reads 0, and of several first writers one succeeds", first_set),
        Case::new("a counter is set only as it was seen, also by another client", as_seen),
        Case::new("each of several clients sees every change of a counter that it waits for", seen_by_all),
        Case::new("a counter incremented by comparing and setting loses no increment", incremented),
        Case::new("a counter is laid out as four bytes, the highest first", layout),
        cutting(Case::new(
            "a counter's change while cut off is told after healing, and a reconnection is not a change",
            cut_off,
        )),
    ]
}

fn counter(party: &Party) -> SharedCounter {
    party.keeper.shared_counter("number").expect("the name is valid")
}

async fn get(party: &Party) -> Count {
    soon("the number", counter(party).get()).await.expect("it can be read")
}

async fn set(party: &Party, number: i32) -> Count {
    soon("the answer", counter(party).set(number)).await.expect("it can be written")
}

async fn compare_and_set(party: &Party, seen: Count, number: i32) -> Option<Count> {
    soon("the answer", counter(party).compare_and_set(seen, number)).await.expect("it can be written")
}

async fn remove(party: &Party) {
    let value = party.keeper.shared_value("number").expect("the name is valid");
    soon("the answer", value.remove()).await.expect("it can be removed");
}

async fn first_set(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let (unset, also_unset) = (get(&ann).await, get(&bob).await);
    assert_eq!((unset.number(), unset.version()), (0, None));
    assert!(compare_and_set(&ann, unset, 10).await.is_some());
    assert!(compare_and_set(&bob, also_unset, 20).await.is_none(), "another was first");
    assert_eq!((get(&ann).await.number(), get(&bob).await.number()), (10, 10));
    remove(&ann).await;
    assert_eq!(get(&bob).await, unset);
}

async fn as_seen(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut seen = set(&ann, 0).await;
    let first = seen;
    for number in [1, 5, i32::MAX, i32::MIN, 10] {
        seen = compare_and_set(&ann, seen, number).await.expect("no other client has set it");
        assert_eq!((seen.number(), get(&bob).await), (number, seen));
    }
    assert!(compare_and_set(&ann, first, 7).await.is_none(), "it was in that state once");
    set(&bob, 88).await;
    assert!(compare_and_set(&ann, seen, 234).await.is_none(), "another has set it");
    let (of_ann, of_bob) = (get(&ann).await, get(&bob).await);
    assert!(compare_and_set(&bob, of_bob, 30).await.is_some());
    assert!(compare_and_set(&ann, of_ann, 40).await.is_none());
    let of_ann = get(&ann).await;
    assert!(compare_and_set(&ann, of_ann, 40).await.is_some());
    assert_eq!(get(&bob).await.number(), 40);
    remove(&ann).await;
}

async fn seen_by_all(fixture: &dyn Fixture) {
    const CHANGES: i32 = 30;
    let parties = enter_all(fixture, 5).await;
    let start = set(&parties[0], 0).await;
    let seen_by = Arc::new(tokio::sync::Barrier::new(parties.len()));
    let mut tasks = Vec::new();
    for party in &parties[1..] {
        let (counter, seen_by, mut seen) = (counter(party), seen_by.clone(), start);
        tasks.push(tokio::spawn(async move {
            for number in 1..=CHANGES {
                seen = counter.changed(seen).await.expect("it can be read");
                assert_eq!(seen.number(), number);
                seen_by.wait().await;
            }
        }));
    }
    let all = async {
        for number in 1..=CHANGES {
            set(&parties[0], number).await;
            seen_by.wait().await;
        }
        for task in tasks {
            task.await.expect("each has seen them all");
        }
    };
    soon("all changes", all).await;
    remove(&parties[0]).await;
}

async fn incremented(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let mut tasks = Vec::new();
    for party in &parties {
        let counter = counter(party);
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let seen = counter.get().await.expect("it can be read");
                    yield_now().await;
                    let next = counter.compare_and_set(seen, seen.number() + 1).await;
                    if next.expect("it can be written").is_some() {
                        break;
                    }
                }
            }
        }));
    }
    for task in tasks {
        soon("the increments", task).await.expect("the task does not panic");
    }
    assert_eq!(get(&parties[0]).await.number(), 40);
    remove(&parties[0]).await;
}

async fn layout(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    for (number, bytes) in [(1, [0, 0, 0, 1]), (-2, [255, 255, 255, 254]), (0x0102_0304, [1, 2, 3, 4])] {
        set(&ann, number).await;
        let value = soon("the value", eve.session.values().get(&line("number"))).await.expect("it can be read");
        assert_eq!(*value.expect("it was set").bytes, bytes);
    }
    let words = eve.session.values().set(&line("number"), Expected::Any, Some(b"seven".as_slice().into()));
    soon("the answer", words).await.expect("it can be written");
    let error = soon("the refusal", counter(&ann).get()).await.expect_err("it is not a counter");
    assert_eq!((error.kind(), error.advice()), (ErrorKind::InvalidRequest, Advice::Permanent), "{error}");
    remove(&ann).await;
}

async fn cut_off(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let seen = set(&ann, 11).await;
    assert_eq!(get(&bob).await, seen);
    let counter = counter(&bob);
    let mut waiting = Box::pin(counter.changed(seen));
    assert!(at_most(1, &mut waiting).await.is_none());
    bob.inflict(Fault::Cut).await;
    bob.inflict(Fault::Heal).await;
    assert_eq!(get(&bob).await, seen);
    assert!(at_most(1, &mut waiting).await.is_none(), "it was not set");
    bob.inflict(Fault::Cut).await;
    set(&ann, 12).await;
    bob.inflict(Fault::Heal).await;
    let told = soon("the event", waiting).await.expect("a transient error is retried");
    assert_eq!(told.number(), 12);
    remove(&ann).await;
}
