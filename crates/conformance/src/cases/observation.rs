//! Observing a queue without joining it: its contenders, their owners, and for how long they wait; and the events that
//! observers receive.

use std::time::Duration;

use lockkeeper_core::{Answers, ContenderInfo, Flow, FlowKind, LossReason, Mode, QueueName, TicketHead, Wait};
use lockkeeper_recipes::{Event, OwnerKey};

use crate::ask::Ask;
use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{LONG, Party, granted, parties, release};
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

/// How far the clocks of two machines may be apart.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(60);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("contenders() shows the holder and the waiters in their order", shows_the_line),
        Case::new("contenders() shows their owners", shows_owners),
        Case::new("queues() names the locks in use in order and no others", names_queues),
        Case::new("until_vacant() waits for the holder and all waiters and takes no part", vacant_after_all).strict(),
    ]
}

async fn shows_the_line(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let (first, second) = (bob.queue_up("door").await, eve.queue_up("door").await);
    let contenders = eve.shown("door").await;
    let shown: Vec<_> = contenders.iter().map(|contender| contender.id.clone()).collect();
    assert!(contenders.iter().all(|contender| contender.mode == Mode::Mutex));
    assert_eq!(shown.len(), 3);
    assert_eq!(shown[0], *guard.hold().contender());
    release(guard).await;
    let guard = granted(first).await;
    assert_eq!(shown[1], *guard.hold().contender());
    release(guard).await;
    let guard = granted(second).await;
    assert_eq!(shown[2], *guard.hold().contender());
    release(guard).await;
}

async fn shows_owners(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let before = fixture.clock().unix_time();
    let guard = ann.lock("door").await;
    let after = fixture.clock().unix_time();
    let contenders = ann.shown("door").await;
    let owner = contenders[0].owner.as_ref().expect("our own contender says who it is");
    assert_eq!(owner.pid, std::process::id());
    assert!(!owner.host.is_empty() && !owner.command.is_empty());
    let since = contenders[0].since_unix.expect("our own contender says since when");
    let about = before.saturating_sub(CLOCKS_APART_MAX)..=after + CLOCKS_APART_MAX;
    assert!(about.contains(&since), "it says that it joined at {since:?}, which is not within {about:?}");
    release(guard).await;
}

async fn names_queues(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let mut guards = Vec::new();
    for name in ["reports/weekly", "reports/daily", "report", "backup"] {
        guards.push(ann.lock(name).await);
    }
    let named = async |prefix: &str| -> Vec<QueueName> {
        let queues = soon("the names", bob.keeper.admin().queues(prefix)).await;
        queues.expect("the queues are named")
    };
    let names = |names: &[&str]| -> Vec<QueueName> {
        let parsed = names.iter().map(|name| QueueName::new(name).expect("the name is valid"));
        parsed.collect()
    };
    assert_eq!(named("").await, names(&["backup", "report", "reports/daily", "reports/weekly"]));
    assert_eq!(named("reports/").await, names(&["reports/daily", "reports/weekly"]));
    assert_eq!(named("reports/daily").await, names(&["reports/daily"]));
    assert_eq!(named("x").await, names(&[]));
    for guard in guards {
        release(guard).await;
    }
}

async fn vacant_after_all(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let (first, second) = (bob.queue_up("door").await, bob.queue_up("door").await);
    let keeper = eve.keeper.clone();
    let onlooker = tokio::spawn(async move { keeper.until_vacant("door", Wait::AtMost(LONG)).await });
    release(guard).await;
    let guard = granted(first).await;
    assert_eq!(ann.contenders("door").await, 2, "an observer is not in the queue");
    release(guard).await;
    let guard = granted(second).await;
    assert!(!onlooker.is_finished(), "the lock is still held");
    release(guard).await;
    let vacant = soon("the event", onlooker).await.expect("the task does not panic");
    assert!(vacant.expect("it can be asked").is_some());
}

pub(super) fn callers() -> Vec<Case> {
    vec![
        Case::new("contenders() shows the process, and tells tasks from one another", shows_tasks).strict(),
        Case::new("contenders() shows until when a waiter with a limit waits", shows_the_end_of_a_wait).strict(),
        Case::new("an owner key is one flow of control on all its locks", shows_an_owner_key),
        Case::new("what is asked for within run() is shown as nested in it", shows_nesting),
        Case::new("a contender that tells nothing of its caller is shown without one", shows_no_caller),
    ]
}

async fn shown(party: &Party, lock: &str) -> Vec<ContenderInfo> {
    soon("the look", party.keeper.contenders(lock)).await.expect("the queue can be looked at")
}

fn flow(info: &ContenderInfo) -> Flow {
    info.caller.flow.expect("our own contender tells its flow of control")
}

fn head(info: &ContenderInfo) -> TicketHead {
    info.ticket.expect("our own contender has a ticket").head()
}

async fn shows_tasks(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    let (first, second) = (ann.queue_up("door").await, bob.queue_up("door").await);
    let line = shown(&bob, "door").await;
    let process = line[0].caller.process;
    assert!(process.is_some());
    assert!(line.iter().all(|info| info.caller.process == process), "{line:?}");
    assert!(line.iter().all(|info| (info.caller.within, info.caller.until_unix) == (None, None)), "{line:?}");
    let flows: Vec<_> = line.iter().map(flow).collect();
    assert!(flows[0] != flows[1] && flows[1] != flows[2] && flows[0] != flows[2], "{flows:?}");
    assert_eq!((flows[1].kind(), flows[2].kind()), (FlowKind::Task, FlowKind::Task));
    release(guard).await;
    release(granted(first).await).await;
    release(granted(second).await).await;
}

async fn shows_the_end_of_a_wait(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let before = fixture.clock().unix_time();
    let mutex = ann.mutex("door");
    let waiting = tokio::spawn(async move { mutex.lock_timeout(LONG).await });
    ann.until_contenders("door", 2).await;
    let after = fixture.clock().unix_time();
    let until = shown(&ann, "door").await[1].caller.until_unix.expect("the waiter tells until when it waits");
    // It is stored in whole milliseconds.
    let about = before.saturating_sub(Duration::from_millis(1)) + LONG..=after + LONG;
    assert!(about.contains(&until), "{until:?} is not within {about:?}");
    release(guard).await;
    let guard = soon("the grant", waiting).await.expect("it goes on").expect("it is granted").expect("in time");
    release(guard).await;
}

async fn shows_an_owner_key(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let owner = OwnerKey::new();
    let outer = soon("the grant", owner.lock(&ann.mutex("hall"))).await.expect("the lock is free");
    let guard = bob.lock("door").await;
    let door = ann.mutex("door");
    let waiting = tokio::spawn(async move { owner.lock(&door).await });
    bob.until_contenders("door", 2).await;
    let (hall, door) = (shown(&bob, "hall").await, shown(&bob, "door").await);
    assert_eq!((flow(&hall[0]).kind(), hall[0].caller.within), (FlowKind::OwnerKey, None));
    assert_eq!((flow(&door[1]), door[1].caller.within), (flow(&hall[0]), Some(head(&hall[0]))));
    assert_ne!(flow(&door[0]), flow(&door[1]));
    release(guard).await;
    let inner = soon("the grant", waiting).await.expect("it goes on").expect("it is granted");
    soon("the release", inner.release()).await.expect("it is given back");
    soon("the release", outer.release()).await.expect("it is given back");
}

async fn shows_nesting(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = bob.lock("door").await;
    let (hall, door) = (ann.mutex("hall"), ann.mutex("door"));
    let running = tokio::spawn(async move { hall.run(|_| async move { door.run(|_| async {}).await }).await });
    bob.until_contenders("door", 2).await;
    let (hall, door) = (shown(&bob, "hall").await, shown(&bob, "door").await);
    assert_eq!((hall[0].caller.within, door[1].caller.within), (None, Some(head(&hall[0]))));
    assert_eq!(flow(&hall[0]), flow(&door[1]), "the same task asks for both");
    release(guard).await;
    soon("the work", running).await.expect("it goes on").expect("the outer one").expect("the inner one");
}

async fn shows_no_caller(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let queue = line("door");
    let taken = ann.take(&queue, Mode::Mutex).await;
    let shown = ann.inspect(&queue).await;
    let caller = shown[0].caller;
    assert_eq!((caller.flow, caller.within, caller.until_unix), (None, None, None));
    assert_eq!(shown[0].answers, Answers::Yes, "our contenders receive the requests of all clients");
    ann.withdraw(&queue, taken.ticket).await;
}

pub(super) fn events() -> Vec<Case> {
    vec![
        Case::new("an observer hears of the join, the grant and the release, in order", in_order).strict(),
        Case::new("an observer hears of a lock that was not acquired", not_acquired),
        Case::new("an observer hears once that a session was opened, and that it was closed", session_closed),
        Case::new("an observer hears once of each hold that ends with a session, though no holder asks", session_lost)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("an observer hears that a session is in jeopardy, and that this is over", jeopardy)
            .needs(&[FaultKind::Cut])
            .outlives_sessions(),
    ]
}

async fn in_order(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    let (contender, expected) = (guard.hold().contender().clone(), guard.fencing_token());
    assert_eq!(ann.journal.kinds(), ["joined", "granted"]);
    release(guard).await;
    assert_eq!(ann.journal.kinds(), ["joined", "granted", "released"]);
    for event in &ann.journal.events() {
        match event {
            Event::Joined { lock, contender: joined, ahead } => {
                assert_eq!((lock.as_str(), joined, *ahead), ("door", &contender, 0));
            }
            Event::Granted { lock, token, .. } => assert_eq!((lock.as_str(), *token), ("door", expected)),
            Event::Released { lock, token, lost, .. } => {
                assert_eq!((lock.as_str(), *token, *lost), ("door", expected, None));
            }
            Event::SessionOpened { .. } | Event::Weakened { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    drop(ann.lock("door").await);
    assert_eq!(ann.journal.kinds()[3..], ["joined", "granted", "released"]);
}

async fn not_acquired(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guard = ann.lock("door").await;
    assert!(bob.try_lock("door").await.is_none());
    assert_eq!(bob.journal.kinds(), ["not acquired"]);
    let (waiting, asked_for) = bob.queue_up_in_vain(Ask::Mutex).await;
    assert!(soon("the end of the timeout", granted(waiting)).await.is_none());
    let kinds = bob.journal.kinds();
    assert_eq!(kinds[kinds.len() - 2..], ["joined", "not acquired"]);
    if let Some(Event::NotAcquired { lock, waited }) = bob.journal.events().last() {
        assert!(lock.as_str() == "door" && *waited >= asked_for, "{lock} after {waited:?}");
    }
    release(guard).await;
}

fn is_opened(event: &Event) -> bool {
    matches!(event, Event::SessionOpened { .. })
}

async fn session_closed(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for _ in 0..2 {
        release(ann.lock("door").await).await;
    }
    let opened = ann.journal.events().into_iter().find(is_opened);
    let Some(Event::SessionOpened { service, timeout }) = opened else {
        panic!("{:?}", ann.journal);
    };
    assert_eq!(service, ann.keeper.service());
    assert!(timeout.is_none_or(|timeout| !timeout.is_clipped()), "{timeout:?}");
    soon("the end of the session", ann.keeper.close()).await.expect("it is closed");
    let is_closed = |event: &Event| matches!(event, Event::SessionLost { reason: LossReason::Closed, .. });
    ann.journal.until_count("the closing", 1, is_closed).await;
    assert_eq!((ann.journal.count(is_opened), ann.journal.count(is_closed)), (1, 1));
}

async fn session_lost(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let guards = (ann.lock("door").await, ann.lock("window").await);
    ann.inflict(Fault::ExpireSession).await;
    let is_lost = |event: &Event| matches!(event, Event::Lost { .. });
    ann.journal.until_count("the losses", 2, is_lost).await;
    let is_over = |event: &Event| matches!(event, Event::SessionLost { .. });
    assert_eq!(ann.journal.count(is_over), 1);
    assert!(!guards.0.hold().is_held());
    soon("the release", guards.0.release()).await.expect_err("the hold was lost");
    drop(guards.1);
    assert_eq!((ann.journal.count(is_lost), ann.journal.count(is_over)), (2, 1));
    release(bob.lock("door").await).await;
    assert_eq!(bob.journal.count(is_lost), 0);
}

async fn jeopardy(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let guard = ann.lock("door").await;
    ann.inflict(Fault::Cut).await;
    let is_danger = |event: &Event| matches!(event, Event::Jeopardy { safe_for: Some(_), .. });
    ann.journal.until_count("the jeopardy", 1, is_danger).await;
    ann.inflict(Fault::Heal).await;
    let is_over = |event: &Event| matches!(event, Event::JeopardyOver { .. });
    ann.journal.until_count("the end of the jeopardy", 1, is_over).await;
    assert_eq!((ann.journal.count(is_danger), ann.journal.count(is_over)), (1, 1));
    assert!(guard.hold().is_held());
    release(guard).await;
}
