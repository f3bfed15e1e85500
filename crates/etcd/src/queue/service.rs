//! Queues in etcd: the calls of one session, each behind the earlier ones on its lock, and what is told of its
//! contenders.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, QueueName, QueueView, Rank,
    Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{Departing, Failure, Joined, Left, Life, Refusal, Service, Stage, Watch};

use crate::queue::inner::Inner;
use crate::queue::place::Own;
use crate::queue::view::By;
use crate::queue::{departure, guard, join, leave, request, value, watch};
use crate::session::{Core, Link};

/// Beside how many contenders the entries of one call may stand: the transaction compares each of them.
const ANCHORS_MAX: usize = 32;

/// One session's queues on etcd.
pub(crate) struct Etcd {
    pub(super) inner: Arc<Inner>,
}

/// The queues of one session.
pub(super) type Queues = lockkeeper_session::Queues<Etcd>;

/// A session of a keeper.
pub(crate) type EtcdSession = lockkeeper_session::QueueSession<Etcd>;

/// What is sent over a connection.
pub(super) type Make<T> = lockkeeper_session::Make<Link, T>;

/// Takes a session for locks.
pub(crate) fn begin(core: Arc<Core>) -> EtcdSession {
    EtcdSession::new(Etcd { inner: Arc::new(Inner::new(core)) }, guard::run)
}

impl Service for Etcd {
    type Link = Link;
    type Own = Own;

    fn life(&self) -> &Arc<Life<Link>> {
        &self.inner.core.life
    }

    fn refusal(&self, queue: &QueueName, entries: &[Entry]) -> Option<Refusal> {
        if let Some(why) = self.inner.core.layout.refusal(queue) {
            return Some((ErrorKind::InvalidName, why));
        }
        let anchor = |entry: &Entry| match &entry.rank {
            Rank::Tail => None,
            Rank::With(anchor) => Some(anchor.clone()),
        };
        let anchors: BTreeSet<_> = entries.iter().filter_map(anchor).collect();
        let message = || format!("{ANCHORS_MAX} contenders beside which others stand at once are the most");
        (anchors.len() > ANCHORS_MAX).then(|| (ErrorKind::LimitReached, message()))
    }

    fn join(queues: &Arc<Queues>, queue: &QueueName, entries: &[Entry], shows_whole: bool) -> Make<Joined<Own>> {
        join::make(queues, queue, entries, shows_whole)
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, _why: bool) -> Make<Left> {
        leave::make(&self.inner, queue, ticket, id)
    }

    fn look(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> Make<QueueView> {
        let around = match extent {
            Extent::Whole => None,
            Extent::Around(place) => Some(place.cloned()),
        };
        let (inner, queue) = (self.inner.clone(), queue.clone());
        Arc::new(move |link| {
            let (looking, name, around) = (inner.clone(), queue.clone(), around.clone());
            let over = link.clone();
            inner.run_look(&queue, async move {
                let by = match freshness {
                    Freshness::AfterDeparture if looking.told(&over).is_some() => By::Member,
                    Freshness::AfterDeparture | Freshness::Latest => By::Quorum,
                };
                let extent = around.as_ref().map_or(Extent::Whole, |place| Extent::Around(place.as_ref()));
                looking.view(&over, &name, by, extent).await
            })
        })
    }

    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<bool>>, Refusal> {
        request::make(&self.inner, queue, contender, request)
    }

    fn value(&self, queue: &QueueName) -> Make<Option<Value>> {
        value::reading(&self.inner, queue)
    }

    fn set_value(&self, queue: &QueueName, expected: Expected, value: Option<Arc<[u8]>>) -> Make<Option<ValueVersion>> {
        value::writing(&self.inner, queue, expected, value)
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<Link, QueueView> {
        watch::of_queue(&queues.service.inner, queue)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<Link, Option<Value>> {
        watch::of_value(&queues.service.inner, queue)
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        departure::begin(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, Own>) {
        let inner = &queues.service.inner;
        match stage {
            Stage::Joining(_) | Stage::Shown(..) => {}
            Stage::Placed(place) => inner.watch_later(place.clone()),
            Stage::Gone(ticket) => inner.end_claim(ticket, true),
            Stage::Kept(ticket) => inner.end_claim(ticket, false),
        }
    }
}
