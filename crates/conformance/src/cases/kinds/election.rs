//! Elections: candidates in one queue, of which the first leads.

use lockkeeper_core::Modes;
use lockkeeper_recipes::{Election, LeaderChanges};

use crate::asking::{Ask, Held, LOCK};
use crate::case::{Case, using};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, give_back, granted, parties};
use crate::queue::Queue;
use crate::waiting::soon;

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
