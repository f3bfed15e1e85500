//! Queues of contenders, made of leased keys: the waist of `lockkeeper-core`, over one session.
//!
//! Here are the calls, each behind the earlier ones on its lock. Whose turn it is, and what becomes of a call that
//! fails, the engine of all services decides.
//!
//! - `state`: what the calls share, and our own contenders. `tail`: which segment of a long queue is joined.
//! - `join`, `leave`, `writes`: what changes queues. `watch`: waits, and notifications of changes.
//! - `view`: reads queues; `around`: what decides for one place in a long one.

mod around;
mod join;
mod leave;
mod state;
mod tail;
mod view;
mod watch;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, QueueName, QueueView, Rank,
    Request, Ticket, Value, ValueVersion,
};
use lockkeeper_session::{Departing, Failure, Joined, Left, Life, Make, Refusal, Service, Stage, Watch};

use crate::queue::state::{Etcd, EtcdOwn, QueueCore, Queues};
use crate::queue::view::ReadSource;
use crate::session::{Core, EtcdLink};

/// Beside how many contenders the entries of one call may stand: the transaction compares each of them.
const ANCHORS_MAX: usize = 32;

pub(crate) type EtcdSession = lockkeeper_session::QueueSession<Etcd>;

pub(crate) fn begin(core: Arc<Core>) -> EtcdSession {
    EtcdSession::new(Etcd { inner: Arc::new(QueueCore::new(core)) }, watch::run_guard)
}

impl Service for Etcd {
    type Link = EtcdLink;
    type Own = EtcdOwn;

    fn life(&self) -> &Arc<Life<EtcdLink>> {
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
        let message = || format!("at most {ANCHORS_MAX} contenders per call may have others placed beside them");
        (anchors.len() > ANCHORS_MAX).then(|| (ErrorKind::LimitReached, message()))
    }

    fn join(
        queues: &Arc<Queues>,
        queue: &QueueName,
        entries: &[Entry],
        shows_whole: bool,
    ) -> Make<EtcdLink, Joined<EtcdOwn>> {
        join::make(queues, queue, entries, shows_whole)
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, _why: bool) -> Make<EtcdLink, Left> {
        leave::make(&self.inner, queue, ticket, id)
    }

    fn look(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> Make<EtcdLink, QueueView> {
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
                    Freshness::AfterDeparture if looking.told(&over).is_some() => ReadSource::Member,
                    Freshness::AfterDeparture | Freshness::Latest => ReadSource::Quorum,
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
    ) -> Result<Option<Make<EtcdLink, bool>>, Refusal> {
        writes::request(&self.inner, queue, contender, request)
    }

    fn value(&self, queue: &QueueName) -> Make<EtcdLink, Option<Value>> {
        writes::read_value(&self.inner, queue)
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<EtcdLink, Option<ValueVersion>> {
        writes::write_value(&self.inner, queue, expected, value)
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<EtcdLink, QueueView> {
        watch::of_queue(&queues.service.inner, queue)
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<EtcdLink, Option<Value>> {
        watch::of_value(&queues.service.inner, queue)
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        watch::depart(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, EtcdOwn>) {
        let inner = &queues.service.inner;
        match stage {
            Stage::Joining(_) | Stage::Shown(..) => {}
            Stage::Placed(place) => inner.watch_later(place.clone()),
            Stage::Gone(ticket) => inner.end_claim(ticket, true),
            Stage::Kept(ticket) => inner.end_claim(ticket, false),
        }
    }
}
