//! Entries that outlive their session: a lock that is frozen.

use std::sync::Arc;

use lockkeeper_core::{Entry, Lifetime, Mode, Request};

use crate::case::Case;
use crate::fixture::{Fault, FaultKind, Fixture};
use crate::party::{Party, granted, release};
use crate::speaker::{Speaker, Taken, entry, line};
use crate::waiting::soon;

const REASON: &str = "the door is being painted";

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("a persistent entry outlives its session's closing and keeps all others out", async |fixture| {
            outlives(fixture, async |ann| ann.close().await).await;
        }),
        Case::new("a persistent entry outlives its session's end", async |fixture| {
            outlives(fixture, async |ann| ann.inflict(Fault::ExpireSession).await).await;
        })
        .needs(&[FaultKind::ExpireSession]),
        Case::new("a persistent entry is withdrawn by its ticket like any other", withdrawn),
        Case::new("a persistent entry says why it stands there, and others say nothing", says_why),
    ]
}

fn persistent() -> Entry {
    let mut entry = entry(Mode::Mutex);
    entry.lifetime = Lifetime::Persistent { reason: Arc::from(REASON) };
    entry
}

/// No contender passes the entry, and a caller that knows its token ends it.
async fn keeps_out_until_broken(fixture: &dyn Fixture, frozen: Taken) {
    let (bob, eve) = (Party::enter(fixture).await, Speaker::enter(fixture).await);
    let door = line("door");
    assert_eq!(eve.ids(&door).await, std::slice::from_ref(&frozen.joined.id));
    assert!(bob.try_lock("door").await.is_none());
    let waiting = bob.queue_up("door").await;
    let shown = eve.inspect(&door).await;
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[0].frozen.as_deref(), Some(REASON));
    assert!(!waiting.is_finished());
    let breaking = Request::Break { token: frozen.joined.token };
    let broken = soon("the answer", eve.session.request(&door, &frozen.joined.id, breaking)).await;
    assert!(broken.expect("it can be asked"), "it was there, with this token");
    let guard = granted(waiting).await;
    assert!(guard.fencing_token() > frozen.joined.token);
    release(guard).await;
}

/// Its session ends, in this way, with the other entries of it.
async fn outlives(fixture: &dyn Fixture, end: impl AsyncFnOnce(Speaker)) {
    let ann = Speaker::enter(fixture).await;
    let frozen = ann.take_entry(&line("door"), persistent()).await;
    let mortal = ann.take(&line("door"), Mode::Mutex).await;
    assert_ne!(mortal.joined.id, frozen.joined.id);
    end(ann).await;
    let onlooker = Speaker::enter(fixture).await;
    onlooker.until_ids(&line("door"), std::slice::from_ref(&frozen.joined.id)).await;
    keeps_out_until_broken(fixture, frozen).await;
}

async fn withdrawn(fixture: &dyn Fixture) {
    let (ann, bob) = (Speaker::enter(fixture).await, Party::enter(fixture).await);
    let frozen = ann.take_entry(&line("door"), persistent()).await;
    let waiting = bob.queue_up("door").await;
    ann.withdraw(&line("door"), frozen.ticket).await;
    release(granted(waiting).await).await;
    let unseen = persistent();
    let ticket = unseen.ticket;
    drop(ann.session.enqueue_one(&line("door"), unseen));
    ann.withdraw(&line("door"), ticket).await;
    assert_eq!(ann.ids(&line("door")).await, []);
}

async fn says_why(fixture: &dyn Fixture) {
    let ann = Speaker::enter(fixture).await;
    let door = line("door");
    let first = ann.take(&door, Mode::Mutex).await;
    let frozen = ann.take_entry(&door, persistent()).await;
    let shown: Vec<_> = ann.inspect(&door).await.into_iter().map(|contender| contender.frozen).collect();
    assert_eq!(shown, [None, Some(REASON.to_owned())]);
    ann.withdraw(&door, first.ticket).await;
    ann.withdraw(&door, frozen.ticket).await;
}
