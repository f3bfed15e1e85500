//! Elections: candidates in one queue, of which the first leads.

use std::time::Duration;

use lockkeeper_core::{ErrorKind, LossReason, Wait};
use lockkeeper_recipes::{Election, Leadership};

use crate::case::{Case, Runtime};
use crate::dropped::{Before, drop_at_every_await_point};
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::journal::is_joined;
use crate::party::{Party, enter_all, granted, in_vain, release};
use crate::waiting::soon;

const IN_VAIN: Duration = Duration::from_millis(200);

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("an election without candidates has no leader", no_candidates),
        Case::new("candidates lead one after another in the order they came, with growing tokens", in_order),
        Case::new("an election is watched without taking part, and each new leader is told", watched),
        Case::new("campaign_within(Wait::No) leads if there is no other candidate, and leaves none", tries),
        Case::new("a campaign whose time is up leaves no candidate", times_out),
        Case::new("a leader whose session expires leads no more, and the next one does", leader_expires)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a candidate whose session expires stands again behind the others", candidate_expires)
            .needs(&[FaultKind::ExpireSession]),
        Case::new("a change of the leader missed while cut off is told after healing", missed_while_cut)
            .needs(&[FaultKind::Cut]),
        Case::new("campaign() dropped at every await point leaves no candidate", dropped)
            .runtime(Runtime::CurrentThread),
    ]
}

fn election(party: &Party) -> Election {
    party.keeper.election("scheduler").expect("the name is valid")
}

async fn lead(party: &Party) -> Leadership {
    let election = election(party);
    soon("the lead", election.campaign()).await.expect("it leads")
}

async fn no_candidates(fixture: &dyn Fixture) {
    let ann = Party::enter(fixture).await;
    assert!(soon("the answer", election(&ann).leader()).await.expect("it can be asked").is_none());
    assert!(soon("the answer", election(&ann).candidates()).await.expect("it can be asked").is_empty());
}

async fn in_order(fixture: &dyn Fixture) {
    let parties = enter_all(fixture, 3).await;
    let mut leading = lead(&parties[0]).await;
    let mut waiting = Vec::new();
    for party in parties.iter().cycle().skip(1).take(5) {
        let election = election(party);
        waiting.push(party.queue_up_for(async move { election.campaign().await }).await);
    }
    let candidates = election(&parties[0]).candidates().await.expect("they can be seen");
    assert_eq!(candidates.len(), 6);
    for (position, next) in (1..).zip(waiting) {
        let leader = election(&parties[1]).leader().await.expect("it can be seen").expect("there is a leader");
        assert_eq!(leader.id, *leading.hold().contender());
        assert!(leader.owner.is_some_and(|owner| owner.pid == std::process::id()));
        assert!(!next.is_finished());
        let token = leading.fencing_token();
        soon("the end of the lead", leading.resign()).await.expect("it led");
        leading = granted(next).await;
        assert!(leading.fencing_token() > token);
        assert_eq!(*leading.hold().contender(), candidates[position].id);
    }
    release(leading).await;
}

async fn watched(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let mut changes = election(&eve).changes();
    assert_eq!(soon("the event", changes.next()).await.expect("it can be asked"), None);
    let first = lead(&ann).await;
    let told = soon("the event", changes.next()).await.expect("it can be asked");
    assert_eq!(told.as_ref(), Some(first.hold().contender()));
    let standing = election(&bob);
    let waiting = bob.queue_up_for(async move { standing.campaign().await }).await;
    drop(first);
    let second = granted(waiting).await;
    let told = soon("the event", changes.next()).await.expect("it can be asked");
    assert_eq!(told.as_ref(), Some(second.hold().contender()));
    assert_eq!(eve.tap.joins(), 0, "an observer is no candidate");
    release(second).await;
    assert_eq!(soon("the event", changes.next()).await.expect("it can be asked"), None);
}

async fn tries(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let leading = soon("the answer", election(&ann).campaign_within(Wait::No)).await.expect("it does not fail");
    let leading = leading.expect("there is no other candidate");
    assert!(soon("the answer", election(&bob).campaign_within(Wait::No)).await.expect("it does not fail").is_none());
    assert_eq!((ann.contenders("scheduler").await, bob.tap.joins()), (1, 0));
    release(leading).await;
}

async fn times_out(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let leading = lead(&ann).await;
    assert!(in_vain(async || election(&bob).campaign_within(Wait::AtMost(IN_VAIN)).await).await);
    ann.until_contenders("scheduler", 1).await;
    assert!(leading.hold().is_held());
    release(leading).await;
}

async fn leader_expires(fixture: &dyn Fixture) {
    let (ann, bob) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let old = lead(&ann).await;
    let standing = election(&bob);
    let waiting = bob.queue_up_for(async move { standing.campaign().await }).await;
    ann.inflict(Fault::ExpireSession).await;
    let new = granted(waiting).await;
    assert!(!old.hold().is_held(), "two lead at once");
    assert!(new.fencing_token() > old.fencing_token());
    let error = soon("the end of the lead", old.resign()).await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Expired));
    assert!(new.hold().is_held());
    release(new).await;
}

async fn candidate_expires(fixture: &dyn Fixture) {
    let (ann, bob, eve) = (Party::enter(fixture).await, Party::enter(fixture).await, Party::enter(fixture).await);
    let leading = lead(&ann).await;
    let [first, second] = [election(&bob), election(&eve)];
    let first = bob.queue_up_for(async move { first.campaign().await }).await;
    let second = eve.queue_up_for(async move { second.campaign().await }).await;
    bob.inflict(Fault::ExpireSession).await;
    bob.journal.until_count("a second join", 2, is_joined).await;
    release(leading).await;
    let leading = granted(second).await;
    assert!(!first.is_finished());
    release(leading).await;
    release(granted(first).await).await;
}

async fn missed_while_cut(fixture: &dyn Fixture) {
    let (ann, eve) = (Party::enter(fixture).await, Party::enter(fixture).await);
    let first = lead(&ann).await;
    let mut changes = election(&eve).changes();
    let told = soon("the event", changes.next()).await.expect("it can be asked");
    assert_eq!(told.as_ref(), Some(first.hold().contender()));
    eve.inflict(Fault::Cut).await;
    release(first).await;
    let second = lead(&ann).await;
    eve.inflict(Fault::Heal).await;
    let told = soon("the event", changes.next()).await.expect("a transient error is retried");
    assert_eq!(told.as_ref(), Some(second.hold().contender()));
    release(second).await;
}

async fn dropped(fixture: &dyn Fixture) {
    let hold = async |prober: Party| {
        let election = prober.keeper.election("door").expect("the name is valid");
        election.campaign().await.expect("it leads")
    };
    let campaign =
        async |party: Party| party.keeper.election("door").expect("the name is valid").campaign().await.map(Some);
    drop_at_every_await_point(fixture, "campaign()", Before::ReleasedOnceQueued, hold, 4, campaign).await;
}
