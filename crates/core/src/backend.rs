//! The waist: what every coordination service must give, and all that a recipe may use.
//!
//! What all services can give is an ordered queue of contenders that live as long as their session. Recipes know no
//! service and backends know no recipe. Futures are boxed and `'static`; **a call takes effect when it is made**, not
//! at the first poll of its future, so that requests go out in the order of the calls.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::contender::{
    ContenderId, ContenderInfo, Departure, Enqueued, Entry, Expected, QueueView, Request, Ticket, Value, ValueVersion,
    Version,
};
use crate::{Capabilities, Error, ErrorKind, Operation, QueueName, Result, SessionBond};

/// A boxed future without a lifetime.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// The most entries that are taken in at once: what fits into one request of every service with room to spare.
pub const ENTRIES_MAX: usize = 1_000;

/// The longest value, in bytes: it is for a number or a few words, and is read whole by everybody who waits for it.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

/// An adapter to a coordination service: looks at its queues, and opens sessions.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Names the service as a URL without secrets, for log lines and for people who ask where a lock lives.
    fn service(&self) -> String;

    /// States what is promised here.
    fn capabilities(&self) -> &Capabilities;

    /// Opens a new session.
    ///
    /// # Errors
    ///
    /// Transient if the service cannot be reached now, permanent if it refuses us.
    ///
    /// # Cancellation
    ///
    /// A session that nobody takes is closed.
    ///
    /// # Ordering
    ///
    /// None towards other sessions.
    ///
    /// # On connection loss
    ///
    /// Fails; whoever asked tries again under their own deadline.
    fn session(&self) -> BoxFuture<Result<Arc<dyn Session>>>;

    /// Shows who stands in the queues of a lock, first contender first, as far as it may be known; empty if there is no
    /// such lock. Of a semaphore it shows the permits, and then those who wait for some.
    ///
    /// # Errors
    ///
    /// Transient if the service cannot be reached now, permanent if it refuses us.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// The answer may be older than a change made at the same time by others.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn inspect(&self, queue: &QueueName) -> BoxFuture<Result<Vec<ContenderInfo>>>;

    /// Names the queues that exist and whose names begin with `prefix`, in the order of their names.
    ///
    /// # Errors
    ///
    /// As [`Backend::inspect`].
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// As [`Backend::inspect`].
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn queues(&self, prefix: &str) -> BoxFuture<Result<Vec<QueueName>>>;

    /// Says why the service could not be reached last, for whoever waits for an answer in vain; `None` once a
    /// connection stands, before the first attempt has failed, and where there is nothing to reach.
    fn trouble(&self) -> Option<Error> {
        None
    }

    /// Ends what looking has opened, if anything; sessions are closed by themselves.
    ///
    /// # Errors
    ///
    /// Transient if the service could not be told; it ends what is left by itself.
    ///
    /// # Cancellation
    ///
    /// It may be left to the service.
    ///
    /// # Ordering
    ///
    /// After the looks that were answered.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn close(&self) -> BoxFuture<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How long a service keeps a session that it does not hear of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionTimeout {
    /// What we asked for.
    pub asked: Duration,
    /// What it granted.
    pub granted: Duration,
}

impl SessionTimeout {
    /// Tells whether the service granted another timeout than was asked for.
    pub fn is_clipped(&self) -> bool {
        self.asked != self.granted
    }
}

/// A liveness bond between this process and the service, and what is done under it.
///
/// A lost session never comes back; the next one is another object. Every method takes effect when called.
pub trait Session: fmt::Debug + Send + Sync + 'static {
    /// Returns the liveness of this session.
    fn bond(&self) -> &SessionBond;

    /// Returns how long the service keeps this session without hearing of it; `None` where sessions have no timeout.
    fn timeout(&self) -> Option<SessionTimeout> {
        None
    }

    /// Says how long before its deadline whoever holds something under this session is certainly warned that renewals
    /// fail, before anything is held: as [`Standing::notice`](crate::Standing::notice) says it then. `None` where there
    /// is no deadline.
    fn notice(&self) -> Option<Duration> {
        None
    }

    /// Tells whether what was asked of a queue and is not answered yet waits for another process that is just entering
    /// it, and not for the service: then whoever has no time left knows that the lock was not to be had.
    fn is_held_up(&self, _queue: &QueueName) -> bool {
        false
    }

    /// Lists a queue, without the contenders that are known to be dead.
    ///
    /// # Errors
    ///
    /// Transient if the way to the service is broken, permanent if it refuses us.
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows every entry whose join was acknowledged to anybody before the call.
    ///
    /// # On connection loss
    ///
    /// Fails, or answers on the next connection with another [`Version`].
    fn view(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>>;

    /// Lists a queue in which this session stands, right after it was told of a departure there.
    ///
    /// It may show less than [`Session::view`] where that is cheaper: not who joined since, behind us.
    ///
    /// # Errors
    ///
    /// As [`Session::view`].
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows the departure that was told, and whoever is ahead of us, or was a moment ago.
    ///
    /// # On connection loss
    ///
    /// As [`Session::view`].
    fn view_after_departure(&self, queue: &QueueName) -> BoxFuture<Result<QueueView>> {
        self.view(queue)
    }

    /// Takes a place at the tail of a queue.
    ///
    /// The order is the order in which the service takes the entries; nothing new ever appears ahead of a contender
    /// once seen. Tokens grow along the queue, and over its whole life.
    ///
    /// # Errors
    ///
    /// Transient if it did not take effect, unknown if it may have: then the ticket finds it again.
    ///
    /// # Cancellation
    ///
    /// The entry may be made all the same; [`Session::withdraw`] with its ticket undoes it at any time.
    ///
    /// # Ordering
    ///
    /// Entries of one session into one queue stand in the order of the calls.
    ///
    /// # On connection loss
    ///
    /// Looks for the ticket under the same session, else fails.
    fn enqueue(&self, queue: &QueueName, entry: Entry) -> BoxFuture<Result<Enqueued>>;

    /// Waits until the contender `ahead` leaves the queue, or until a new look is needed for another reason.
    ///
    /// `mine` is our own contender, whose removal ends the wait too where the service can tell; `None` for an onlooker.
    /// `seen` is the version of the view in which `ahead` stood: [`Departure::Gone`] is only said of the same
    /// connection.
    ///
    /// # Errors
    ///
    /// Of kind [`Lost`](crate::ErrorKind::Lost) if the session was lost; permanent if the service refuses us.
    ///
    /// # Cancellation
    ///
    /// Leaves no watch behind.
    ///
    /// # Ordering
    ///
    /// Returns at once for a contender that is gone already.
    ///
    /// # On connection loss
    ///
    /// Answers [`Departure::Recheck`] after the reconnection.
    fn departure(
        &self,
        queue: &QueueName,
        mine: Option<&ContenderId>,
        ahead: &ContenderId,
        seen: Version,
    ) -> BoxFuture<Result<Departure>>;

    /// Takes places at the tail of a queue for several entries, all of them or none; at most [`ENTRIES_MAX`].
    ///
    /// Each answer shows the queue with all of them in it.
    ///
    /// # Errors
    ///
    /// As [`Session::enqueue`]; permanent, of kind [`Unsupported`](crate::ErrorKind::Unsupported), where the service
    /// cannot do it.
    ///
    /// # Cancellation
    ///
    /// As [`Session::enqueue`], for each of the tickets.
    ///
    /// # Ordering
    ///
    /// Nobody sees a part of them before the rest, but for withdrawals.
    ///
    /// # On connection loss
    ///
    /// As [`Session::enqueue`].
    fn enqueue_all(&self, queue: &QueueName, entries: Vec<Entry>) -> BoxFuture<Result<Vec<Enqueued>>> {
        let _ = entries;
        unsupported(Operation::Join, queue)
    }

    /// Waits until a queue looks otherwise than `seen`, and shows it.
    ///
    /// # Errors
    ///
    /// Of kind [`Lost`](crate::ErrorKind::Lost) if the session was lost; permanent if the service refuses us.
    ///
    /// # Cancellation
    ///
    /// Leaves no watch behind.
    ///
    /// # Ordering
    ///
    /// Returns at once if the queue looks otherwise already. Of several changes in a row only the last may be shown.
    ///
    /// # On connection loss
    ///
    /// Shows the queue after the reconnection, changed or not.
    fn changed(&self, queue: &QueueName, seen: &QueueView) -> BoxFuture<Result<QueueView>> {
        let _ = seen;
        unsupported(Operation::Wait, queue)
    }

    /// Asks something of a contender, whoever's it is; `false` if it is not there, or has another token.
    ///
    /// # Errors
    ///
    /// Transient if the way to the service is broken, unknown if it may have taken effect, permanent if it refuses us.
    ///
    /// # Cancellation
    ///
    /// It may take effect all the same.
    ///
    /// # Ordering
    ///
    /// None.
    ///
    /// # On connection loss
    ///
    /// Fails.
    fn request(&self, queue: &QueueName, contender: &ContenderId, request: Request) -> BoxFuture<Result<bool>> {
        let _ = (contender, request);
        unsupported(Operation::Request, queue)
    }

    /// Reads the value of a queue; `None` if it has none.
    ///
    /// A queue has at most one value of at most [`VALUE_BYTES_MAX`] bytes, which lives until it is removed; that of a
    /// semaphore's permits may go when nobody holds one or waits.
    ///
    /// # Errors
    ///
    /// As [`Session::view`].
    ///
    /// # Cancellation
    ///
    /// Changes nothing.
    ///
    /// # Ordering
    ///
    /// Shows what was acknowledged to anybody before the call, or something later.
    ///
    /// # On connection loss
    ///
    /// Fails, or answers on the next connection.
    fn value(&self, queue: &QueueName) -> BoxFuture<Result<Option<Value>>> {
        unsupported(Operation::Value, queue)
    }

    /// Writes the value of a queue, or removes it, if it is as `expected`; the new state if it was.
    ///
    /// After a removal the state that is answered says nothing.
    ///
    /// # Errors
    ///
    /// As [`Session::request`]; permanent, of kind [`LimitReached`](crate::ErrorKind::LimitReached), if it is too long.
    ///
    /// # Cancellation
    ///
    /// It may take effect all the same.
    ///
    /// # Ordering
    ///
    /// Of writers that expect the same state one succeeds.
    ///
    /// # On connection loss
    ///
    /// Fails; it may have taken effect.
    fn set_value(
        &self,
        queue: &QueueName,
        expected: Expected,
        value: Option<Arc<[u8]>>,
    ) -> BoxFuture<Result<Option<ValueVersion>>> {
        let _ = (expected, value);
        unsupported(Operation::Value, queue)
    }

    /// Waits until the value of a queue is in another state than `seen`, and reads it.
    ///
    /// # Errors
    ///
    /// As [`Session::changed`].
    ///
    /// # Cancellation
    ///
    /// Leaves no watch behind.
    ///
    /// # Ordering
    ///
    /// As [`Session::changed`].
    ///
    /// # On connection loss
    ///
    /// Reads the value after the reconnection, changed or not.
    fn value_changed(&self, queue: &QueueName, seen: Option<ValueVersion>) -> BoxFuture<Result<Option<Value>>> {
        let _ = seen;
        unsupported(Operation::Value, queue)
    }

    /// Takes an entry out of its queue, whether or not its join was ever answered.
    ///
    /// It starts at once, needs no runtime and goes on until it is certain, also when the answer is dropped.
    /// Withdrawing a ticket twice, or one that never took effect, does nothing.
    ///
    /// The service may know of a loss that this process has not heard of yet. If it answers that the entry was gone
    /// before this, for whatever reason but a withdrawal, the report is an error of kind
    /// [`Lost`](crate::ErrorKind::Lost) with that reason; so it is if the session was ended by the service before there
    /// was an answer.
    fn withdraw(&self, queue: &QueueName, ticket: Ticket) -> Withdrawal;

    /// Has nothing more to do with an entry that outlives its session: it stands until somebody breaks it, costs this
    /// session nothing, and its standing tells nothing any more. Without effect on any other entry.
    fn keep(&self, queue: &QueueName, ticket: Ticket) {
        let _ = (queue, ticket);
    }

    /// Ends the session, and with it every contender made under it.
    ///
    /// # Errors
    ///
    /// Transient if the service could not be told; the contenders then end with the session's timeout.
    ///
    /// # Cancellation
    ///
    /// The session ends all the same.
    ///
    /// # Ordering
    ///
    /// Everything called before on this session comes first.
    ///
    /// # On connection loss
    ///
    /// Fails; the service ends the session by itself.
    fn close(&self) -> BoxFuture<Result<()>>;
}

fn unsupported<T: Send + 'static>(operation: Operation, queue: &QueueName) -> BoxFuture<Result<T>> {
    let error = Error::permanent(ErrorKind::Unsupported, operation, "this service cannot do it");
    Box::pin(std::future::ready(Err(error.at(queue))))
}

/// A withdrawal under way: a future that says when it is certain. Dropping it stops nothing.
#[must_use = "await it to know that the place was left; drop it with `let _ =` to let it go on by itself"]
pub struct Withdrawal(BoxFuture<Result<()>>);

impl Withdrawal {
    /// Wraps the report of a withdrawal that goes on by itself.
    pub fn under_way(report: BoxFuture<Result<()>>) -> Self {
        Self(report)
    }

    /// Makes the report of a withdrawal that is over.
    pub fn done(outcome: Result<()>) -> Self {
        Self(Box::pin(std::future::ready(outcome)))
    }
}

impl Future for Withdrawal {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Withdrawal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Withdrawal")
    }
}
