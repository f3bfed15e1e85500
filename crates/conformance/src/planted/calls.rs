//! Calls that do harm or tell what is not so: examinations and remnants, joins and withdrawals that take effect at
//! another time than that at which they were made or in part, requests that do not check their contender, and standings
//! that believe too much.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lockkeeper_core::{
    Backend, BoxFuture, ContenderId, ContenderInfo, ENTRIES_MAX, Enqueued, Entry, Finding, Liveness, LivenessAt,
    LossReason, Mode, Owner, Part, QueueName, Remnant, RemnantKind, Request, Result, Revocation, SafeUntil, Scrutiny,
    Session, Severity, Standing, Ticket,
};

use crate::planted::Bug;
use crate::waiting::at_most;

/// The sessions of a client that may still live.
pub(super) type Open = Arc<Mutex<Vec<Arc<dyn Session>>>>;

pub(super) fn examine(
    bug: Bug,
    inner: &Arc<dyn Backend>,
    open: &Open,
    scrutiny: Scrutiny,
) -> BoxFuture<Result<Vec<Finding>>> {
    let examining = inner.admin().examine(scrutiny);
    match bug {
        Bug::ExaminationsJoin if scrutiny == Scrutiny::Full => {
            let opening = inner.session();
            Box::pin(async move {
                join_examined(opening.await?).await?;
                examining.await
            })
        }
        Bug::ExaminationsEndSessions => {
            let open = std::mem::take(&mut *open.lock().expect("no task panics here"));
            Box::pin(async move {
                for session in open {
                    session.close().await?;
                }
                examining.await
            })
        }
        Bug::WarnsForNothing if scrutiny == Scrutiny::Brief => {
            Box::pin(std::future::ready(Ok(vec![Finding::new(Severity::Warning, "all is well", "leave it as it is")])))
        }
        _ => examining,
    }
}

/// Takes a place, and keeps it for as long as the service lives.
async fn join_examined(session: Arc<dyn Session>) -> Result<()> {
    let queue = QueueName::new("examined")?;
    let entry = Entry::new(Ticket::from_bits(0xe4a), Mode::Mutex, Arc::new(Owner::this_process()));
    session.enqueue_one(&queue, entry).await?;
    std::mem::forget(session);
    Ok(())
}

/// One join of so many is overtaken by others.
const OVERTAKEN: u64 = 100;

/// How much later it takes effect.
const OVERTAKEN_BY: Duration = Duration::from_millis(20);

/// How long after its withdrawal a join takes effect whose reply was lost.
const LATE_BY: Duration = Duration::from_millis(200);

/// What was sent and what is held back.
#[derive(Debug, Default)]
pub(super) struct Order {
    sent: Mutex<BTreeMap<Ticket, Entry>>,
    held: Mutex<Vec<(QueueName, Ticket)>>,
}

impl Order {
    pub(super) fn note_sent(&self, entries: &[Entry]) {
        let entries = entries.iter().map(|entry| (entry.ticket, entry.clone()));
        locked(&self.sent).extend(entries);
    }

    /// Has the join of a withdrawn ticket take effect after all.
    pub(super) fn join_late(&self, inner: &Arc<dyn Session>, queue: &QueueName, ticket: Ticket) {
        let Some(entry) = locked(&self.sent).remove(&ticket) else {
            return;
        };
        let (inner, queue) = (inner.clone(), queue.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LATE_BY).await;
            drop(inner.enqueue_one(&queue, entry));
        });
    }

    /// Keeps a withdrawal for later.
    pub(super) fn hold(&self, queue: &QueueName, ticket: Ticket) {
        locked(&self.held).push((queue.clone(), ticket));
    }

    /// Makes the withdrawals that were kept.
    pub(super) fn let_go(&self, inner: &Arc<dyn Session>) {
        for (queue, ticket) in std::mem::take(&mut *locked(&self.held)) {
            drop(inner.withdraw(&queue, ticket));
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it is locked")
}

/// Sends the joins, some of them later than those that come after.
pub(super) fn overtaken(
    inner: &Arc<dyn Session>,
    queue: QueueName,
    entries: Vec<Entry>,
    number: u64,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if !number.is_multiple_of(OVERTAKEN) {
        return inner.enqueue(&queue, entries);
    }
    let inner = inner.clone();
    let joining = tokio::spawn(async move {
        tokio::time::sleep(OVERTAKEN_BY).await;
        inner.enqueue(&queue, entries).await
    });
    Box::pin(async move { joining.await.expect("no join panics") })
}

/// A contender that was seen, dead or alive.
#[derive(Debug)]
struct Seen(QueueName, ContenderInfo);

/// Lists all contenders.
pub(super) fn list_the_living(inner: Arc<dyn Backend>) -> BoxFuture<Result<Vec<Remnant>>> {
    Box::pin(async move {
        let mut remnants = Vec::new();
        for queue in inner.admin().queues("").await? {
            for info in inner.admin().inspect(&queue).await? {
                let place = info.id.to_string();
                remnants.push(Remnant::new(RemnantKind::Empty, place, Seen(queue.with_part(Part::Line), info)));
            }
        }
        Ok(remnants)
    })
}

/// Breaks one of them.
pub(super) fn remove_the_living(inner: &Arc<dyn Backend>, remnant: &Remnant) -> BoxFuture<Result<bool>> {
    let (opening, remnant) = (inner.session(), remnant.clone());
    Box::pin(async move {
        let session = opening.await?;
        let Seen(queue, info) = remnant.seen::<Seen>().expect("it was listed here");
        let Some(token) = info.token else { return Ok(false) };
        let broken = session.request(queue, &info.id, Request::Break { token }).await?;
        session.close().await?;
        Ok(broken)
    })
}

/// Breaks a contender with any token.
pub(super) fn break_anyhow(
    backend: &Arc<dyn Backend>,
    session: Arc<dyn Session>,
    queue: QueueName,
    contender: ContenderId,
) -> BoxFuture<Result<bool>> {
    let looking = backend.admin().inspect(&queue);
    Box::pin(async move {
        let shown = looking.await?;
        let Some(token) = shown.into_iter().find(|other| other.id == contender).and_then(|other| other.token) else {
            return Ok(false);
        };
        session.request(&queue, &contender, Request::Break { token }).await
    })
}

#[derive(Debug)]
pub(super) struct BuggyStanding {
    pub(super) inner: Arc<dyn Standing>,
    pub(super) bug: Bug,
}

/// How late a holder is told of its loss.
const TOLD_LATE_BY: Duration = Duration::from_secs(10);

impl BuggyStanding {
    fn overlooks(&self, reason: LossReason) -> bool {
        match self.bug {
            Bug::HoldsOutliveSessions => matches!(reason, LossReason::Expired | LossReason::Closed),
            Bug::HoldsOutliveRemovals => reason == LossReason::Removed,
            Bug::HoldsOutliveDeadlines => reason == LossReason::Lapsed,
            _ => false,
        }
    }
}

impl Standing for BuggyStanding {
    fn liveness(&self, at: LivenessAt) -> Liveness {
        match self.inner.liveness(at) {
            Liveness::Lost(reason) if self.overlooks(reason) => Liveness::Held { safe_until: SafeUntil::ProcessEnd },
            Liveness::Lost(LossReason::Broken) if matches!(self.bug, Bug::BreaksAsRemoval) => {
                Liveness::Lost(LossReason::Removed)
            }
            liveness => liveness,
        }
    }

    fn lost(&self) -> BoxFuture<LossReason> {
        match self.bug {
            Bug::TellsNoHolderOfALoss
            | Bug::HoldsOutliveSessions
            | Bug::HoldsOutliveRemovals
            | Bug::HoldsOutliveDeadlines => Box::pin(std::future::pending()),
            Bug::TellsLossesLate => {
                let lost = self.inner.lost();
                Box::pin(async move {
                    let reason = lost.await;
                    tokio::time::sleep(TOLD_LATE_BY).await;
                    reason
                })
            }
            Bug::BreaksAsRemoval => {
                let lost = self.inner.lost();
                Box::pin(async move {
                    let reason = lost.await;
                    if reason == LossReason::Broken { LossReason::Removed } else { reason }
                })
            }
            _ => self.inner.lost(),
        }
    }

    fn revoked(&self) -> BoxFuture<Revocation> {
        let mut revoked = self.inner.revoked();
        match self.bug {
            Bug::NeverYields => Box::pin(std::future::pending()),
            Bug::ForgetsEarlierRequests => Box::pin(async move {
                match at_most(1, &mut revoked).await {
                    Some(_) => std::future::pending().await,
                    None => revoked.await,
                }
            }),
            _ => revoked,
        }
    }
}

/// How long the later ones come after the first: time enough for the first to be seen alone.
const STEP: Duration = Duration::from_millis(2);

/// Takes one of too many entries before it refuses them.
pub(super) fn some_of(
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if entries.len() > ENTRIES_MAX {
        drop(inner.enqueue_one(queue, entries[0].clone()));
    }
    inner.enqueue(queue, entries)
}

/// Takes the place of the first one twice, under another ticket.
pub(super) fn one_twice(
    inner: &Arc<dyn Session>,
    queue: &QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    if let Some(Entry { mode, owner, .. }) = entries.first() {
        let ticket = Ticket::mint().expect("the system gives randomness");
        drop(inner.enqueue_one(queue, Entry::new(ticket, *mode, owner.clone())));
    }
    inner.enqueue(queue, entries)
}

/// Takes one after the other.
pub(super) fn in_steps(
    inner: Arc<dyn Session>,
    queue: QueueName,
    entries: Vec<Entry>,
) -> BoxFuture<Result<Vec<Enqueued>>> {
    Box::pin(async move {
        let mut joined = Vec::new();
        for entry in entries {
            joined.push(inner.enqueue_one(&queue, entry).await?);
            tokio::time::sleep(STEP).await;
        }
        Ok(joined)
    })
}
