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
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, Freshness, QueueName, QueueView, Request,
    Ticket, Value, ValueVersion,
};
use lockkeeper_session::{Departing, Failure, Joined, Left, Life, Make, Refusal, Service, Stage, Watch, anchor};

use crate::queue::join::KeyJoin;
use crate::queue::leave::KeyLeave;
use crate::queue::state::{Etcd, EtcdOwn, QueueCore, Queues};
use crate::queue::view::ReadSource;
use crate::queue::writes::RequestTarget;
use crate::rpc::WatchRange;
use crate::session::{Core, EtcdLink, QueuedRemoval};

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
        let Some(join) = KeyJoin::new(queues, queue, entries, shows_whole).map(Arc::new) else {
            return Arc::new(|_| {
                Box::pin(std::future::ready(Ok(Joined::Full("too many places were taken beside one"))))
            });
        };
        Arc::new(move |link| {
            let (work, over) = (join.clone(), link.clone());
            join.inner.run(&join.queue, None, async move { work.store(&over).await })
        })
    }

    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, _why: bool) -> Make<EtcdLink, Left> {
        let leaving = Arc::new(KeyLeave::new(&self.inner, queue, ticket, id));
        Arc::new(move |link| {
            let (work, named, over) = (leaving.clone(), leaving.clone(), link.clone());
            let removal = QueuedRemoval::new(move || named.key());
            let own = removal.clone();
            leaving.inner.run(&leaving.queue, Some(removal), async move { work.leave(&over, &own).await })
        })
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
        let refuse = |message: &str| Err((ErrorKind::Unsupported, message.to_owned()));
        let layout = &self.inner.core.layout;
        let name = layout.name(contender);
        match request {
            Request::Yield(_) if name.is_none() => {
                return refuse("it was made by another client, which hears no requests");
            }
            Request::Yield(_) | Request::Break { .. } => {}
            _ => return refuse("there is no such request on etcd"),
        }
        let (key, created) = layout.contender(queue, contender);
        let (inner, queue, request) = (self.inner.clone(), queue.clone(), request.clone());
        let asking = Arc::new(RequestTarget { inner: inner.clone(), name, key, created });
        Ok(Some(Arc::new(move |link| {
            let (asking, request, over) = (asking.clone(), request.clone(), link.clone());
            inner.run(&queue, None, async move {
                match &request {
                    Request::Yield(revocation) => asking.ask_to_yield(&over, revocation).await,
                    Request::Break { token } => asking.break_it(&over, *token).await,
                    _ => Ok(false),
                }
            })
        })))
    }

    fn value(&self, queue: &QueueName) -> Make<EtcdLink, Option<Value>> {
        let (inner, queue) = (self.inner.clone(), queue.clone());
        Arc::new(move |link| {
            let (reader, name, over) = (inner.clone(), queue.clone(), link.clone());
            inner.run_look(&queue, async move { writes::value(&reader, &over, &name, ReadSource::Quorum).await })
        })
    }

    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<EtcdLink, Option<ValueVersion>> {
        let (inner, queue) = (self.inner.clone(), queue.clone());
        Arc::new(move |link| {
            let (writer, name, value, over) = (inner.clone(), queue.clone(), value.clone(), link.clone());
            inner.run(&queue, None, async move { writes::write(&writer, &over, &name, expected, value).await })
        })
    }

    fn watch_queue(queues: &Arc<Queues>, queue: &QueueName) -> Watch<EtcdLink, QueueView> {
        let (inner, queue) = (&queues.service.inner, queue.clone());
        // The other queues of its lock too.
        let watched = WatchRange::Prefix(inner.core.layout.lock(&queue));
        watch::begin_watch(inner, watched, move |inner, link| {
            let queue = queue.clone();
            Box::pin(async move { inner.view(&link, &queue, ReadSource::Member, Extent::Whole).await })
        })
    }

    fn watch_value(queues: &Arc<Queues>, queue: &QueueName) -> Watch<EtcdLink, Option<Value>> {
        let (inner, queue) = (&queues.service.inner, queue.clone());
        let watched = WatchRange::Key(inner.core.layout.value(&queue));
        watch::begin_watch(inner, watched, move |inner, link| {
            let queue = queue.clone();
            Box::pin(async move { writes::value(&inner, &link, &queue, ReadSource::Member).await })
        })
    }

    fn depart(queues: &Arc<Queues>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>> {
        watch::depart(queues, departing)
    }

    fn note(queues: &Arc<Queues>, stage: Stage<'_, EtcdOwn>) {
        let inner = &queues.service.inner;
        match stage {
            Stage::Joining(_) | Stage::Shown(..) => {}
            Stage::Placed(place) => inner.young.add(place),
            Stage::Gone(ticket) => inner.change_claims(|claims| claims.end(ticket, true)),
            Stage::Kept(ticket) => inner.change_claims(|claims| claims.end(ticket, false)),
        }
    }
}
