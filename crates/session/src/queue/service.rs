//! A service's part in queues of contenders, and the queues of one session over it.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{
    BoxFuture, ContenderId, Departure, Entry, ErrorKind, Expected, Extent, FencingToken, Freshness, Lifetime,
    LossReason, QueueName, QueueView, Rank, Request, Ticket, Value, ValueVersion,
};
use parking_lot::Mutex;

use crate::queue::entries::{Entries, Own, Place};
use crate::{Failure, Life, Link, Make};

/// How queues lie in one service, for one session.
///
/// Each call is made at once: what it sends stands in its connection's line before the method, or the request that it
/// returns, has returned.
pub trait Service: Send + Sync + Sized + 'static {
    /// A connection of the session.
    type Link: Link;

    /// What it keeps of a contender of ours, besides what the engine does.
    type Own: Own;

    /// The life of the session.
    fn life(&self) -> &Arc<Life<Self::Link>>;

    /// Why no such queue can be, or these entries cannot be stored in it together.
    fn refusal(&self, queue: &QueueName, entries: &[Entry]) -> Option<Refusal>;

    /// Stores entries, all or none, unless they are stored already or a later connection has the session; and shows the
    /// whole queue, or what is around the one entry.
    fn join(
        queues: &Arc<Queues<Self>>,
        queue: &QueueName,
        entries: &[Entry],
        shows_whole: bool,
    ) -> Make<Self::Link, Joined<Self::Own>>;

    /// Removes a contender of ours, whose name is known if its join was answered. A call that does not ask why may
    /// leave open whether it stood until now.
    fn leave(&self, queue: &QueueName, ticket: Ticket, id: Option<&ContenderId>, why: bool) -> Make<Self::Link, Left>;

    /// Looks at a queue.
    fn look(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> Make<Self::Link, QueueView>;

    /// Sends a request to a contender of any client, and answers whether it was there; `None` if none of this name can
    /// be there.
    ///
    /// # Errors
    ///
    /// Why it cannot be sent.
    fn request(
        &self,
        queue: &QueueName,
        contender: &ContenderId,
        request: &Request,
    ) -> Result<Option<Make<Self::Link, bool>>, Refusal>;

    /// Reads the value of a queue.
    fn value(&self, queue: &QueueName) -> Make<Self::Link, Option<Value>>;

    /// Writes the value of a queue, or removes it, if it is as expected. One that was not answered never takes effect
    /// behind another over a later connection.
    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> Make<Self::Link, Option<ValueVersion>>;

    /// Looks at a queue, and tells when it may have changed since.
    fn watch_queue(queues: &Arc<Queues<Self>>, queue: &QueueName) -> Watch<Self::Link, QueueView>;

    /// Reads the value of a queue, and tells when it may have changed since.
    fn watch_value(queues: &Arc<Queues<Self>>, queue: &QueueName) -> Watch<Self::Link, Option<Value>>;

    /// Waits for the departure of the contender ahead over one connection. It is gone for good if the service says so;
    /// all else is a reason to look again.
    fn depart(queues: &Arc<Queues<Self>>, departing: Departing<Self>) -> BoxFuture<Result<Departure, Failure>>;

    /// Waits until it is known of the contenders of a lock whether their clients live, and tells whether one has left.
    /// A service that ends dead sessions by itself has nothing to wait for.
    fn outwait_dead(_queues: &Arc<Queues<Self>>, _lock: &QueueName) -> BoxFuture<bool> {
        Box::pin(std::future::ready(false))
    }

    /// Notes how far a contender of ours is.
    fn note(queues: &Arc<Queues<Self>>, stage: Stage<'_, Self::Own>);
}

/// The queues of one session. Holding them does not keep the session alive.
pub struct Queues<S: Service> {
    /// The service, as the session sees it.
    pub service: S,
    pub(super) entries: Mutex<Entries<S::Own>>,
}

/// What is waited for, over one connection.
#[derive(Debug)]
pub struct Departing<S: Service> {
    /// The connection on which the contender ahead was seen.
    pub link: Arc<S::Link>,
    /// The queue.
    pub queue: QueueName,
    /// The contender ahead.
    pub ahead: ContenderId,
    /// Our own contender, unless we only look on.
    pub mine: Option<Arc<Place<S::Own>>>,
}

/// The contender beside which an entry is to stand.
#[must_use]
pub const fn anchor(entry: &Entry) -> Option<&ContenderId> {
    match &entry.rank {
        Rank::Tail => None,
        Rank::With(anchor) => Some(anchor),
    }
}

/// Whether an entry stays when the session ends.
#[must_use]
pub const fn outlives_session(entry: &Entry) -> bool {
    matches!(entry.lifetime, Lifetime::Persistent { .. })
}

/// Why something cannot be asked for: the kind of the error, and its words.
pub type Refusal = (ErrorKind, String);

/// Looks over a connection, and begins to watch before: the future ends when what was seen may have changed. Dropping
/// it ends the watch.
pub type Watch<L, T> = Box<dyn Fn(&Arc<L>) -> BoxFuture<Result<(T, BoxFuture<()>), Failure>> + Send + Sync>;

/// How far a contender of ours is.
#[derive(Debug)]
pub enum Stage<'a, O> {
    /// Its join is about to be sent.
    Joining(Ticket),
    /// It is stored.
    Placed(&'a Arc<Place<O>>),
    /// A view shows it, or would.
    Shown(&'a Arc<Place<O>>, &'a QueueView),
    /// It is gone, or was never stored. That may be said twice.
    Gone(Ticket),
    /// It outlives the session, and is none of ours any more.
    Kept(Ticket),
}

/// What a join was answered.
#[derive(Debug)]
pub enum Joined<O> {
    /// The entries are stored.
    Stored(Stored<O>),
    /// One of them was withdrawn before they were sent.
    Withdrawn,
    /// A contender beside which an entry was to stand is gone.
    AnchorGone,
    /// There is no room, for this reason.
    Full(&'static str),
    /// They are stored, but not as they must be. They are to be left again.
    Unsafe(Failure),
}

/// Entries that are stored, and the queue with them.
#[derive(Debug)]
pub struct Stored<O> {
    /// In the order of the entries; `None` of one that is gone again.
    pub stood: Vec<Option<Stood<O>>>,
    /// The queue as it was then.
    pub view: QueueView,
    /// When the join was sent.
    pub asked_at: BootInstant,
}

/// A contender of ours as the service has stored it.
#[derive(Debug)]
pub struct Stood<O> {
    /// How the service names it.
    pub id: ContenderId,
    /// `None` if the service counts more than a token can hold.
    pub token: Option<FencingToken>,
    /// What the service keeps of it.
    pub own: O,
}

/// How a removal ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Left {
    /// It removed the contender, whose session lived.
    Removed,
    /// It removed the contender, and did not ask for the session.
    RemovedUnproven,
    /// The contender was not there, and it is not said why.
    Absent,
    /// The contender was not there, for this reason.
    Gone(LossReason),
}
