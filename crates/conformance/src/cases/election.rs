//! Elections: candidates in one queue, of which the first leads; and campaigns in the background, latches that lead
//! until they are closed, and selectors that run work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lockkeeper_core::{FencingToken, Modes};
use lockkeeper_recipes::{CloseMode, Election, Hold, LatchEvent, LeaderChanges, LeaderLatch, LeaderSelector, Requeue};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::ask::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::cases::order::Queue;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, enter_all, give_back, granted, parties};
use crate::waiting::{soon, until};

pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new("an election without candidates has no leader", no_candidates),
        Case::new("candidates lead one after another in the order they came, with growing tokens", in_order),
        Case::new("an election is watched without taking part, and each new leader is told", watched),
        Case::new("a change of the leader missed while cut off is told after healing", missed_while_cut)
            .needs(&[FaultKind::Cut]),
    ];
    using(Modes::ELECTION, cases)
}

fn election(party: &Party) -> Election {
    party.keeper.election(LOCK).expect("the name is valid")
}

async fn no_candidates(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    assert!(soon("the answer", election(&ann).leader()).await.expect("it can be asked").is_none());
    assert!(soon("the answer", election(&ann).candidates()).await.expect("it can be asked").is_empty());
}

async fn in_order(fixture: &dyn Fixture) {
    let queue = Queue::form(fixture, 3, &[Ask::Lead; 6]).await;
    let onlooker = election(&queue.parties[1]);
    let candidates = onlooker.candidates().await.expect("they can be seen");
    assert_eq!(candidates.len(), 6);
    let leader = onlooker.leader().await.expect("it can be seen").expect("there is a leader");
    assert_eq!(leader.id, candidates[0].id);
    assert!(leader.owner.is_some_and(|owner| owner.pid == std::process::id()));
    queue.serve().await;
}

/// Waits until the change is told that this one leads, or none.
async fn is_told(changes: &mut LeaderChanges, leader: Option<&Held>) {
    let told = soon("the event", changes.next()).await.expect("a transient error is retried");
    assert_eq!(told.as_ref(), leader.map(|leader| leader.holds()[0].contender()));
}

async fn watched(fixture: &dyn Fixture) {
    let [ann, bob, eve] = parties(fixture).await;
    let mut changes = election(&eve).changes();
    is_told(&mut changes, None).await;
    let first = ann.take(Ask::Lead).await;
    is_told(&mut changes, Some(&first)).await;
    let waiting = bob.queue_up_as(Ask::Lead).await;
    drop(first);
    let second = granted(waiting).await;
    is_told(&mut changes, Some(&second)).await;
    assert_eq!(eve.tap.joins(), 0, "an observer is no candidate");
    give_back(second).await;
    is_told(&mut changes, None).await;
}

async fn missed_while_cut(fixture: &dyn Fixture) {
    let [ann, eve] = parties(fixture).await;
    let first = ann.take(Ask::Lead).await;
    let mut changes = election(&eve).changes();
    is_told(&mut changes, Some(&first)).await;
    eve.inflict(Fault::Cut).await;
    give_back(first).await;
    let second = ann.take(Ask::Lead).await;
    eve.inflict(Fault::Heal).await;
    is_told(&mut changes, Some(&second)).await;
    give_back(second).await;
}

pub(super) fn campaigns() -> Vec<Case> {
    let expiring = |case: Case| case.needs(&[FaultKind::ExpireSession]);
    let cutting = |case: Case| case.needs(&[FaultKind::Cut]);
    vec![
        Case::new("of many latches one leads, and when it is closed the next", latches_in_turn),
        Case::new(
            "a latch's listeners hear of each lead and of its end, but not of the last end after a silent close",
            listeners,
        ),
        expiring(Case::new("a latch whose session expires stands again behind the others", latch_expires)),
        cutting(Case::new("a latch that is closed without a connection leaves no candidate", closed_while_cut)),
        cutting(Case::new("a latch that is started without a connection leads when there is one", late_way)),
        Case::new("a latch that is dropped resigns", latch_dropped),
        Case::new("selectors that requeue lead in turn and never two at once", selectors_in_turn),
        Case::new("a selector whose work is done stands again only when asked", requeued_when_asked),
        Case::new("an interrupted selector drops its work and lets the next one lead", interrupted),
        expiring(Case::new(
            "a selector whose session expires drops its work before the next one leads",
            selector_expires,
        )),
        Case::new("closing a selector that leads or waits leaves no candidate", selector_closed),
        Case::new("work that panics gives up the lead", work_panics),
    ]
}

async fn latches_in_turn(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 4).await;
    let mut latches: Vec<(LeaderLatch, usize)> = Vec::new();
    for (number, party) in parties.iter().enumerate() {
        latches.push((LeaderLatch::start(&election(party)), number));
        party.until_contenders(LOCK, number + 1).await;
    }
    let mut last: Option<FencingToken> = None;
    while !latches.is_empty() {
        let (latch, _) = latches.remove(0);
        let hold = soon("the lead", latch.until_leader()).await.expect("it leads");
        assert!(latch.has_leadership() && Some(hold.fencing_token()) > last);
        assert!(latches.iter().all(|(other, _)| !other.has_leadership()), "two lead at once");
        last = Some(hold.fencing_token());
        soon("the close", latch.close(CloseMode::Silent)).await.expect("the service is told");
        assert!(!hold.is_held());
    }
    parties[0].until_contenders(LOCK, 0).await;
}

async fn listeners(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    for mode in [CloseMode::NotifyLeader, CloseMode::Silent] {
        let latch = LeaderLatch::start(&election(&ann));
        let mut changes = latch.changes();
        let told = soon("the event", changes.next()).await;
        assert!(matches!(told, Some(LatchEvent::Leader(hold)) if hold.is_held()));
        soon("the close", latch.close(mode)).await.expect("the service is told");
        let told = soon("the event", changes.next()).await;
        assert_eq!(matches!(told, Some(LatchEvent::NotLeader)), mode == CloseMode::NotifyLeader, "{told:?}");
        assert!(soon("the end", changes.next()).await.is_none());
    }
}

async fn latch_expires(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let first = LeaderLatch::start(&election(&ann));
    let lost = soon("the lead", first.until_leader()).await.expect("it leads");
    let mut changes = first.changes();
    assert!(matches!(soon("the event", changes.next()).await, Some(LatchEvent::Leader(_))));
    let second = LeaderLatch::start(&election(&bob));
    bob.until_contenders(LOCK, 2).await;
    ann.inflict(Fault::ExpireSession).await;
    let hold = soon("the lead", second.until_leader()).await.expect("it leads");
    assert!(!lost.is_held() && !first.has_leadership(), "two lead at once");
    assert!(matches!(soon("the event", changes.next()).await, Some(LatchEvent::NotLeader)));
    bob.until_contenders(LOCK, 2).await;
    assert!(hold.is_held());
    soon("the close", second.close(CloseMode::Silent)).await.expect("the service is told");
    let again = soon("the lead", first.until_leader()).await.expect("it leads again");
    assert!(again.fencing_token() > hold.fencing_token());
    soon("the close", first.close(CloseMode::Silent)).await.expect("the service is told");
}

async fn closed_while_cut(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let latch = LeaderLatch::start(&election(&ann));
    soon("the lead", latch.until_leader()).await.expect("it leads");
    ann.inflict(Fault::Cut).await;
    let closing = tokio::spawn(latch.close(CloseMode::Silent));
    ann.inflict(Fault::Heal).await;
    soon("the close", closing).await.expect("the task does not panic").expect("the service is told");
    bob.until_contenders(LOCK, 0).await;
}

async fn late_way(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    ann.inflict(Fault::Cut).await;
    let latch = LeaderLatch::start(&election(&ann));
    yield_now().await;
    assert!(!latch.has_leadership());
    ann.inflict(Fault::Heal).await;
    soon("the lead", latch.until_leader()).await.expect("it leads");
    soon("the close", latch.close(CloseMode::Silent)).await.expect("the service is told");
}

async fn latch_dropped(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let [leading, waiting] = [&ann, &bob].map(|party| LeaderLatch::start(&election(party)));
    bob.until_contenders(LOCK, 2).await;
    drop((leading, waiting));
    bob.until_contenders(LOCK, 0).await;
}

/// Work that records its start and its end, also when it is dropped.
#[derive(Clone, Default)]
struct Office {
    inside: Arc<AtomicU64>,
}

struct Inside(Arc<AtomicU64>);

impl Office {
    fn enter(&self) -> Inside {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two lead at once");
        Inside(self.inside.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn selectors_in_turn(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let (office, (terms, mut led)) = (Office::default(), mpsc::unbounded_channel());
    let mut selectors = Vec::new();
    for (number, party) in parties.iter().enumerate() {
        let (office, terms) = (office.clone(), terms.clone());
        selectors.push(LeaderSelector::start(&election(party), Requeue::Always, move |hold: Hold| {
            let (office, terms) = (office.clone(), terms.clone());
            async move {
                let _inside = office.enter();
                yield_now().await;
                // The listener may be gone already.
                let _ = terms.send((number, hold.fencing_token()));
                Ok(())
            }
        }));
    }
    let (mut last, mut who_led) = (None, [0_u32; 3]);
    while who_led.iter().any(|&terms| terms < 3) {
        let (number, token) = soon("a term", led.recv()).await.expect("there is a leader");
        assert!(Some(token) > last, "{token} after {last:?}");
        (last, who_led[number]) = (Some(token), who_led[number] + 1);
    }
    for selector in selectors {
        soon("the close", selector.close()).await.expect("the service is told");
    }
    parties[0].until_contenders(LOCK, 0).await;
}

/// A selector whose work reports its start and goes on until it is dropped.
fn endless(party: &Party, requeue: Requeue, office: &Office) -> (LeaderSelector, mpsc::UnboundedReceiver<Hold>) {
    let (starts, started) = mpsc::unbounded_channel();
    let office = office.clone();
    let selector = LeaderSelector::start(&election(party), requeue, move |hold: Hold| {
        let (office, starts) = (office.clone(), starts.clone());
        async move {
            let _inside = office.enter();
            let _ = starts.send(hold);
            std::future::pending().await
        }
    });
    (selector, started)
}

async fn requeued_when_asked(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    let (terms, mut led) = mpsc::unbounded_channel();
    let selector = LeaderSelector::start(&election(&ann), Requeue::WhenAsked, move |hold: Hold| {
        let _ = terms.send(hold.fencing_token());
        std::future::ready(Ok(()))
    });
    let first = soon("a term", led.recv()).await.expect("it leads");
    ann.until_contenders(LOCK, 0).await;
    assert!(led.try_recv().is_err(), "it was not asked to stand again");
    soon("the standing again", async {
        while !selector.requeue() {
            yield_now().await;
        }
    })
    .await;
    let second = soon("a term", led.recv()).await.expect("it leads");
    assert!(second > first);
    soon("the close", selector.close()).await.expect("the service is told");
}

async fn interrupted(fixture: &dyn Fixture) {
    let (ann, bob, office) = (Party::enter(fixture).await, Party::enter(fixture).await, Office::default());
    let (first, mut first_led) = endless(&ann, Requeue::Always, &office);
    let lead = soon("a term", first_led.recv()).await.expect("it leads");
    let (second, mut second_led) = endless(&bob, Requeue::WhenAsked, &office);
    bob.until_contenders(LOCK, 2).await;
    assert!(!second.requeue(), "it stands already");
    assert!(first.interrupt(), "it leads");
    let next = soon("a term", second_led.recv()).await.expect("it leads");
    assert!(!lead.is_held() && next.is_held());
    bob.until_contenders(LOCK, 2).await;
    assert!(second.interrupt());
    soon("a term", first_led.recv()).await.expect("it stood again");
    for selector in [first, second] {
        soon("the close", selector.close()).await.expect("the service is told");
    }
}

async fn selector_expires(fixture: &dyn Fixture) {
    let [ann, bob] = parties(fixture).await;
    let office = Office::default();
    let (first, mut first_led) = endless(&ann, Requeue::Always, &office);
    let lead = soon("a term", first_led.recv()).await.expect("it leads");
    let (second, mut second_led) = endless(&bob, Requeue::Always, &Office::default());
    bob.until_contenders(LOCK, 2).await;
    ann.inflict(Fault::ExpireSession).await;
    soon("the loss", lead.lost()).await;
    let next = soon("a term", second_led.recv()).await.expect("it leads");
    assert!(next.fencing_token() > lead.fencing_token() && !lead.is_held());
    until("the end of the work", async || office.inside.load(Ordering::SeqCst) == 0).await;
    soon("the close", second.close()).await.expect("the service is told");
    let again = soon("a term", first_led.recv()).await.expect("it leads again");
    assert!(again.fencing_token() > next.fencing_token());
    soon("the close", first.close()).await.expect("the service is told");
    bob.until_contenders(LOCK, 0).await;
}

async fn selector_closed(fixture: &dyn Fixture) {
    let (ann, bob, office) = (Party::enter(fixture).await, Party::enter(fixture).await, Office::default());
    let (leading, mut led) = endless(&ann, Requeue::Always, &office);
    soon("a term", led.recv()).await.expect("it leads");
    let (waiting, _led) = endless(&bob, Requeue::Always, &office);
    bob.until_contenders(LOCK, 2).await;
    soon("the close", waiting.close()).await.expect("the service is told");
    bob.until_contenders(LOCK, 1).await;
    soon("the close", leading.close()).await.expect("the service is told");
    assert_eq!(office.inside.load(Ordering::SeqCst), 0, "the work is dropped before close() answers");
    bob.until_contenders(LOCK, 0).await;
}

async fn work_panics(fixture: &dyn Fixture) {
    let (ann, bob, office) = (Party::enter(fixture).await, Party::enter(fixture).await, Office::default());
    let panicking = LeaderSelector::start(&election(&ann), Requeue::Always, |_: Hold| async {
        if true {
            std::panic::resume_unwind(Box::new("planned"));
        }
        Ok(())
    });
    assert!(soon("the end", panicking.over()).await.is_none(), "a panic is no error");
    let (next, mut led) = endless(&bob, Requeue::Always, &office);
    soon("a term", led.recv()).await.expect("it leads");
    soon("the close", next.close()).await.expect("the service is told");
}
