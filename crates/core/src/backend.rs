//! The waist: what every coordination service must provide for locks. What it provides for operators is in `admin`.
//!
//! All services can provide an ordered queue of contenders that live as long as their session. Recipes know no service
//! and backends know no recipe. Futures are boxed and `'static`; **a call takes effect when it is made**, not at the
//! first poll of its future, so that requests go out in the order of the calls.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::admin::AdminBackend;
use crate::capabilities::Capabilities;
use crate::contender::{ContenderId, Departure, Entry, Request, Ticket};
use crate::error::{Error, Result};
use crate::future::BoxFuture;
use crate::name::QueueName;
use crate::session_bond::SessionBond;
use crate::standing::Standing;
use crate::token::FencingToken;
use crate::view::{ConnectionNumber, Extent, Freshness, QueueView};

/// The most entries that are taken in at once: what fits into one request of every service with room to spare.
pub const ENTRIES_MAX: usize = 1_000;

/// The longest value, in bytes: it is for a number or a few words, and each client that waits for it reads the whole
/// value.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// An adapter to a coordination service, as locks need it: it opens sessions.
///
/// A call fails transiently if the service cannot be reached now, and permanently if it refuses us. Nothing is retried
/// here: callers retry under their own deadlines.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Names the service as a URL without secrets, for log lines and for operators who ask where a lock lives.
    fn service(&self) -> String;

    /// States what is promised here.
    fn capabilities(&self) -> &Capabilities;

    /// Opens a new session, in no order with other sessions. If the future is dropped, the session is closed; so it is
    /// when the last reference to it is dropped.
    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>>;

    /// Returns what operators need of this service; most backends return themselves.
    fn admin(&self) -> &dyn AdminBackend;

    /// Returns the error with which the service could not be reached last, for callers that got no answer in time;
    /// `None` once a connection stands, before the first attempt has failed, and where there is nothing to reach.
    fn trouble(&self) -> Option<Error> {
        None
    }

    /// Ends the connections that looks have opened, if any, after the looks that were answered, and opens no more of
    /// them; sessions are closed separately.
    ///
    /// If the service could not be told, or the future is dropped, the service ends what is left.
    fn close(&self) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A liveness bond between this process and the service, and what is done under it.
///
/// A lost session never comes back; the next one is another object. **Every method takes effect when it is called**,
/// not at the first poll of its future.
///
/// # All methods
///
/// Unless a method says otherwise:
///
/// - Errors: transient if the connection is broken, permanent if the service refuses us. A call that changes something
///   and may have taken effect returns the advice [`Unknown`](crate::Advice::Unknown). A wait fails only with the kind
///   [`Lost`](crate::ErrorKind::Lost) if the session was lost, or permanently if the service refuses us. Where this
///   process closed the session itself, the kind may be [`Closed`](crate::ErrorKind::Closed), permanently.
/// - Cancellation: dropping the future of a read changes nothing, and that of a wait leaves no watch behind. A write
///   may take effect all the same.
/// - Order: a read shows all writes, of every client, that were acknowledged before the call, or a later state. A wait
///   returns at once if its condition is met already. Of several changes in a row only the last may be shown.
/// - Connection loss: a read fails, or answers on the next connection (a view then has another [`ConnectionNumber`]). A
///   write fails, and may have taken effect. A wait goes on, and answers after the reconnection, changed or not.
pub trait Session: fmt::Debug + Send + Sync + 'static {
    /// Returns the liveness of this session.
    fn bond(&self) -> &SessionBond;

    /// Tells whether an unanswered request to a queue waits for another process that is just entering it, and not for
    /// the service. Then a caller with no time left knows that the lock was not free.
    fn is_held_up(&self, _queue: &QueueName) -> bool {
        false
    }

    /// Waits until it is known of the contenders of a lock, in all its [parts](crate::Part), whether their clients
    /// live, and tells whether one has left by then. A call that does not wait asks before it gives up.
    ///
    /// Only where clients find out by themselves which of the others are dead, by a silence that each must observe
    /// for itself: there short-lived clients that never wait would leave a dead holder in place for good. Elsewhere,
    /// and where nothing is in doubt, the answer comes at once.
    fn outwait_dead(&self, _queue: &QueueName) -> BoxFuture<bool> {
        Box::pin(std::future::ready(false))
    }

    /// Lists a queue, as [fresh](Freshness) and [as much of it](Extent) as is asked for, without the contenders
    /// that are known to be dead.
    fn view(&self, queue: &QueueName, freshness: Freshness, extent: Extent<'_>) -> BoxFuture<Result<QueueView>>;

    /// Takes places at the tail of a queue, one for each entry: all of them or none; at most [`ENTRIES_MAX`].
    ///
    /// The order is the order in which the service takes the entries in; entries of one session into one queue stand in
    /// the order of the calls. Nothing new ever appears ahead of a contender once seen. Tokens grow along the queue,
    /// and over its whole life. Each answer shows the queue with all of the entries in it, whole if they are
    /// [counted](crate::Mode::is_counted), else at least [around](Extent::Around) the entry. No client sees a part of
    /// them before the rest, except after withdrawals.
    ///
    /// # Errors
    ///
    /// Transient if it did not take effect, unknown if it may have: then the tickets find the entries again. After a
    /// connection loss it looks for the tickets under the same session, else it fails.
    /// [`Removed`](crate::ErrorKind::Removed), permanent, if an entry asks for a place beside a contender
    /// ([`Rank::With`](crate::Rank::With)) that is not in the queue.
    /// [`LimitReached`](crate::ErrorKind::LimitReached), permanent, if there are too many entries; transient if the
    /// service has no room for them now, as when its memory is full.
    ///
    /// # Cancellation
    ///
    /// The entries may be made all the same; [`Session::withdraw`] with their tickets undoes it at any time.
    fn enqueue(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>>;

    /// Takes one place at the tail of a queue: as [`Session::enqueue`] of one entry, at the call as that. A backend
    /// that has a shorter way for one gives it here.
    fn enqueue_one(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>> {
        let one = self.enqueue(queue, vec![entry]);
        Box::pin(async move { Ok(one.await?.pop().expect("as many places are answered as were asked for")) })
    }

    /// Waits until the contender `ahead` leaves the queue, or until another look is needed for another reason.
    ///
    /// `mine` is our own contender, whose removal ends the wait too where the service can tell; `None` for an onlooker.
    /// `seen` is the version of the view in which `ahead` stood: [`Departure::Gone`] refers only to the same
    /// connection. After a reconnection the answer is [`Departure::Recheck`].
    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: ConnectionNumber,
    ) -> BoxFuture<Result<Departure>>;

    /// Tells whether this session hears of a contender's departure without asking the service for it: it has made that
    /// contender itself. Then [`Session::departure`] of it, if it is called before that contender leaves, costs no
    /// request but those that guard the caller's own place.
    ///
    /// A backend that does not know answers that it does not.
    fn hears_of(&self, _contender: &ContenderId) -> bool {
        false
    }

    /// Waits until a queue looks otherwise than `seen`, and shows it; both views are whole. The contenders,
    /// [`elsewhere`](QueueView::elsewhere) and the connection count; what was asked of a contender does not.
    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>>;

    /// Sends a request to a contender of any client; `false` if it is not in this queue, or has another token.
    ///
    /// A second request to yield replaces the first. [`Unsupported`](crate::ErrorKind::Unsupported), permanent, for a
    /// request that this backend does not know.
    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>>;

    /// Returns the values of queues.
    fn values(&self) -> &dyn Values;

    /// Takes an entry out of its queue, whether or not its join was ever answered. It may overtake earlier calls of the
    /// session that have not reached the service.
    ///
    /// It starts at once, needs no runtime and goes on until it is certain, also when the answer is dropped.
    /// Withdrawing a ticket twice, or one that never took effect, does nothing; nor does it touch another queue, or
    /// another part of the lock. Afterwards the standing is lost, for any reason. A contender that was broken or
    /// removed need not be withdrawn: the service keeps nothing of it until then.
    ///
    /// The service may know of a loss before this process does. If it answers that the entry was gone already, for any
    /// reason but a withdrawal, the report is an error of kind [`Lost`](crate::ErrorKind::Lost) with that reason. The
    /// same error is reported if the service ended the session before there was an answer. Where this process learns of
    /// each loss at once, from the standing, there is nothing to report.
    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal;

    /// Stops tracking an entry that outlives its session: it stands until it is broken, costs this session nothing, and
    /// its standing need report nothing any more. Has no effect on any other entry, and none at all where a contender
    /// costs its session nothing.
    fn keep(&self, queue: &QueueName, ticket: Ticket);

    /// Ends the session, and with it every contender made under it, after all earlier calls on this session. Dropping
    /// the future does not stop it.
    ///
    /// # Errors
    ///
    /// Transient if the service could not be told, as after a connection loss; the contenders then end with the
    /// session's timeout.
    fn close(&self) -> BoxFuture<Result<()>>;
}

/// The state of a value at one moment. Each write makes another one, also after the value was removed and made anew.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ValueVersion(pub u128);

/// One small value of a queue, as it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Value {
    /// What was written.
    pub bytes: Arc<[u8]>,
    /// Its state, for a later comparison.
    pub version: ValueVersion,
}

/// The state in which a write of a value takes effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "each backend compares every one")]
pub enum Expected {
    /// Anything or nothing.
    Any,
    /// No value.
    Absent,
    /// The value in this state.
    Version(ValueVersion),
}

/// The small values of queues, read and written under a [`Session`], whose rules for all methods hold.
///
/// Each part of a lock has at most one value of at most [`VALUE_BYTES_MAX`] bytes. It needs no contender, is none, and
/// lives until it is removed. Only that of a semaphore's permits may go earlier: when the last contender leaves that
/// held a permit or waited for one.
pub trait Values: Send + Sync {
    /// Reads the value of a queue; `None` if it has none.
    fn get(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>>;

    /// Writes the value of a queue, or removes it, if it is as `expected`; returns the new state if it was. Of writers
    /// that expect the same state one succeeds.
    ///
    /// After a removal the returned state has no meaning.
    ///
    /// # Errors
    ///
    /// [`LimitReached`](crate::ErrorKind::LimitReached), permanent, if it is too long.
    fn set(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>>;

    /// Waits until the value of a queue is in another state than `seen`, and reads it.
    fn until_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>>;
}

/// A withdrawal under way: a future that is ready when the withdrawal is certain. Dropping it stops nothing.
#[must_use = "await it to know that the place was left; drop it with `let _ =` to let it go on by itself"]
pub struct Withdrawal(WithdrawalReport);

/// What a withdrawal reports. Most are over when they are made, and need no future of their own.
enum WithdrawalReport {
    UnderWay(BoxFuture<Result<()>>),
    /// `None` once it was told.
    Done(Option<Result<()>>),
}

impl Withdrawal {
    /// Wraps the report of a withdrawal that goes on in the background.
    pub fn under_way(report: BoxFuture<Result<()>>) -> Self {
        Self(WithdrawalReport::UnderWay(report))
    }

    /// Makes the report of a withdrawal that is over.
    pub fn done(outcome: Result<()>) -> Self {
        Self(WithdrawalReport::Done(Some(outcome)))
    }
}

impl Future for Withdrawal {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            WithdrawalReport::UnderWay(report) => report.as_mut().poll(context),
            WithdrawalReport::Done(outcome) => {
                Poll::Ready(outcome.take().expect("a future that was ready is not polled again"))
            }
        }
    }
}

impl fmt::Debug for Withdrawal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Withdrawal")
    }
}

/// The answer to a join.
#[derive(Clone, Debug)]
pub struct Enqueued {
    /// Our identity in the queue.
    pub id: ContenderId,
    /// Our token if we are granted the lock from this place.
    pub token: FencingToken,
    /// The queue as it stood just after we joined, as far as [`Session::enqueue`] says; we are in it.
    pub view: QueueView,
    /// What may be believed of our place from now on.
    pub standing: Arc<dyn Standing>,
}
