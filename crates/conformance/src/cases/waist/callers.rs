//! The owner of a contender: its process, its flow of control, the contender that it is nested in, and the end of its
//! wait.

use std::time::Duration;

use lockkeeper_core::{Answers, ContenderInfo, Flow, FlowKind, Mode, TicketHead};
use lockkeeper_recipes::OwnerKey;

use crate::case::Case;
use crate::fixture::Fixture;
use crate::party::{LONG, Party, granted, parties, release};
use crate::speaker::{Speaker, line};
use crate::waiting::soon;

pub(super) fn cases() -> Vec<Case> {
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
