//! Looks at queues that belong to no session. They go over the connection of a lock's session if there is one, else
//! over a separate one, opened at the first look and given up once a session has one: servers limit the connections of
//! their clients. Those that go on and on follow a service over one connection after the other.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{
    Backoff, BoxFuture, Error, EventSender, FollowEvent, Follower, Openable, Opener, Operation, Result,
};
use parking_lot::Mutex;

use crate::life::{LOOK_ATTEMPTS_MAX, PAUSE};
use crate::{Failure, Life, Link as _, Linked, Lookable, in_time};

/// How long a look waits for the connection of a session that has none. One that was just opened puts it to use in a
/// few milliseconds.
const LENT_WITHIN: Duration = Duration::from_millis(100);

/// What a look shows, or why it shows nothing.
pub type Sight<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// What a look is made over, and where it looks.
#[derive(Debug)]
pub struct Onlooking<'a, C, L> {
    /// The connection.
    pub connection: &'a C,
    /// Where the queues lie.
    pub layout: &'a L,
    /// When the look must be answered.
    pub deadline: BootInstant,
}

impl<C, L> Clone for Onlooking<'_, C, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C, L> Copy for Onlooking<'_, C, L> {}

/// Where looks go.
pub struct Onlooker<C: Lookable, F, L = ()> {
    clock: Arc<dyn Clock>,
    /// Where the queues lie.
    layout: L,
    /// How long a look may take.
    timeout: Duration,
    /// Opens a connection for looks alone.
    open: Box<dyn Fn() -> BoxFuture<Result<Arc<C>>> + Send + Sync>,
    /// Whether a failure of a look shows that a session's connection is of no use to the session either.
    is_useless: fn(&Failure) -> bool,
    opener: Opener<SeparateLink<C>>,
    latest: Mutex<LatestOpening<Linked<C, F>>>,
}

/// What is known of the last attempt to open a session.
struct LatestOpening<L> {
    session: Weak<Life<L>>,
    trouble: Option<Error>,
}

/// A connection for looks alone.
struct SeparateLink<C>(Arc<C>);

impl<C> Clone for SeparateLink<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Lookable> Openable for SeparateLink<C> {
    fn is_open(&self) -> bool {
        !self.0.is_over()
    }

    fn discard(self) {
        self.0.shut();
    }
}

impl<C: Lookable, F: Send + Sync + 'static, L: Clone + Send + Sync + 'static> Onlooker<C, F, L> {
    /// Begins without a connection; `open` opens one for looks alone. Of no use to a session either is its connection
    /// after a failure of a look that is useless.
    pub fn new(
        clock: Arc<dyn Clock>,
        layout: L,
        timeout: Duration,
        is_useless: fn(&Failure) -> bool,
        open: impl Fn() -> BoxFuture<Result<Arc<C>>> + Send + Sync + 'static,
    ) -> Self {
        let latest = Mutex::new(LatestOpening { session: Weak::new(), trouble: None });
        Self { clock, layout, timeout, open: Box::new(open), is_useless, opener: Opener::new(|_| {}), latest }
    }

    /// Notes how the opening of a session ended. Looks go over its connection while it has one.
    pub fn note(&self, opened: Result<&Arc<Life<Linked<C, F>>>, &Error>) {
        let mut latest = self.latest.lock();
        latest.trouble = opened.err().cloned();
        if let Ok(life) = opened {
            latest.session = Arc::downgrade(life);
        }
    }

    /// Returns why the service cannot be reached now, as far as the last session has found out.
    pub fn trouble(&self) -> Option<Error> {
        let latest = self.latest.lock();
        let of_session = latest.session.upgrade().and_then(|life| life.trouble());
        let of_session = of_session.map(|failure| failure.into_core(Operation::Connect, false));
        of_session.or_else(|| latest.trouble.clone())
    }

    /// Makes a look at queues that lie as the layout says, again over the next connection if one fails.
    pub fn look_at<A: Send + Sync + 'static, T: Send + 'static>(
        self: &Arc<Self>,
        about: A,
        look: for<'a> fn(Onlooking<'a, C, L>, &'a A) -> Sight<'a, T>,
    ) -> BoxFuture<Result<T>> {
        let about = (self.layout.clone(), about, look);
        Box::pin(self.clone().look(Operation::Inspect, about, |(layout, about, look), connection, deadline| {
            look(Onlooking { connection, layout, deadline }, about)
        }))
    }

    /// Makes a look, again over the next connection if one fails.
    ///
    /// # Errors
    ///
    /// Why the last one failed, or that none was answered in time.
    pub async fn look<A: Sync, T>(
        self: Arc<Self>,
        operation: Operation,
        about: A,
        look: for<'a> fn(&'a A, &'a C, BootInstant) -> Sight<'a, T>,
    ) -> Result<T> {
        let deadline = self.clock.now().saturating_add(self.timeout);
        let mut attempt = 1;
        loop {
            let (connection, lender) = self.connection(deadline).await?;
            let failure = match in_time(&*self.clock, deadline, look(&about, &connection, deadline)).await {
                Ok(seen) => return Ok(seen),
                Err(failure) => failure,
            };
            // The next look goes over another connection. That of a session ends only if it is of no use to that
            // either.
            match &lender {
                Some(link) if (self.is_useless)(&failure) => link.shut(),
                None if failure.is_passing() => connection.shut(),
                Some(_) | None => {}
            }
            if !failure.is_passing() || attempt >= LOOK_ATTEMPTS_MAX || self.clock.now() >= deadline {
                return Err(failure.into_core(operation, false));
            }
            attempt += 1;
            if lender.map_or_else(|| !connection.is_over(), |link| !link.is_over()) {
                let again = self.clock.now().saturating_add(PAUSE);
                self.clock.sleep_until(again.min(deadline)).await;
            }
        }
    }

    /// Returns the connection for a look, and the session's connection that it is, if it is one. While a session has
    /// none for long, since it connects again or may not be granted locks yet, one can look all the same. Where that
    /// cannot be either, the session's next connection is waited for.
    async fn connection(&self, deadline: BootInstant) -> Result<(Arc<C>, Option<Arc<Linked<C, F>>>)> {
        let session = self.latest.lock().session.upgrade().filter(|life| life.bond().liveness().is_held());
        let lent = |link: Arc<Linked<C, F>>| (link.connection.clone(), Some(link));
        if let Some(life) = &session
            && let Ok(link) = life.next_link_until(self.clock.now().saturating_add(LENT_WITHIN).min(deadline)).await
        {
            // A look that is under way keeps it until its end.
            drop(self.opener.take());
            return Ok(lent(link));
        }
        let opened = self.opener.get(|| {
            let opening = (self.open)();
            Box::pin(async move { opening.await.map(SeparateLink) })
        });
        match (opened.await, session) {
            (Ok(own), _) => Ok((own.0, None)),
            (Err(error), Some(life)) if error.is_transient() => {
                life.next_link_until(deadline).await.map(lent).map_err(|_| error)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Ends the connection for looks, if there is one, and opens no more.
    pub fn close(&self) -> BoxFuture<Result<()>> {
        self.opener.shut();
        if let Some(own) = self.opener.take() {
            own.discard();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

impl<C: Lookable, F, L> fmt::Debug for Onlooker<C, F, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Onlooker").finish_non_exhaustive()
    }
}

/// How one service is followed.
pub trait Follow: Send + 'static {
    /// The clock of all pauses.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Follows over one connection until that is of no use any more, or there is no reader: then it ends well. What it
    /// tells begins the pauses anew.
    fn until_lost(
        &mut self,
        telling: &EventSender,
        backoff: &mut Backoff,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Begins, in a task of the runtime that this is called in.
pub fn follow(mut following: impl Follow) -> Follower {
    Follower::run(|telling| async move {
        let mut backoff = Backoff::CONNECTING;
        while let Err(failure) = following.until_lost(&telling, &mut backoff).await {
            let is_passing = failure.is_passing();
            let error = failure.into_core(Operation::Inspect, false);
            if !telling.tell(FollowEvent::Lost(error)).await || !is_passing {
                return;
            }
            backoff.rest(&**following.clock()).await;
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use lockkeeper_core::clock::TestClock;
    use tokio::runtime::Handle;
    use tokio::task::yield_now;

    use super::*;
    use crate::keeping::tests::life;
    use crate::{FIRST_CONNECTION, Server};

    const HOUR: Duration = Duration::from_secs(3_600);

    /// A connection that counts itself as long as it is kept.
    struct Counted(Server, Arc<AtomicUsize>);

    impl Counted {
        fn new(open: &Arc<AtomicUsize>) -> Self {
            open.fetch_add(1, Ordering::SeqCst);
            Self(Server::new("h1", 1), open.clone())
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Lookable for Counted {
        fn is_over(&self) -> bool {
            false
        }

        fn shut(&self) {}

        fn server(&self) -> &Server {
            &self.0
        }
    }

    /// How many connections are open, and what looks over them.
    fn onlooker(clock: &Arc<TestClock>) -> (Arc<AtomicUsize>, Arc<Onlooker<Counted, ()>>) {
        let open = Arc::<AtomicUsize>::default();
        let opened = open.clone();
        let onlooker = Onlooker::new(clock.clone(), (), HOUR, Failure::needs_another, move || {
            Box::pin(std::future::ready(Ok(Arc::new(Counted::new(&opened)))))
        });
        (open, Arc::new(onlooker))
    }

    async fn look(onlooker: &Arc<Onlooker<Counted, ()>>) {
        onlooker.look_at((), |_, ()| Box::pin(std::future::ready(Ok(())))).await.expect("it is answered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_of_a_session_that_was_just_opened_goes_over_its_connection() {
        let clock = Arc::new(TestClock::new());
        let ((open, onlooker), life) = (onlooker(&clock), life(clock.clone(), Handle::current(), HOUR));
        onlooker.note(Ok(&life));
        let looking = tokio::spawn({
            let onlooker = onlooker.clone();
            async move { look(&onlooker).await }
        });
        yield_now().await;
        life.attach(Linked::new(Counted::new(&open), FIRST_CONNECTION, ()));
        looking.await.expect("no panic");
        assert_eq!(open.load(Ordering::SeqCst), 1, "that of the session");
    }

    #[tokio::test(start_paused = true)]
    async fn the_separate_connection_is_given_up_once_a_session_has_one() {
        let clock = Arc::new(TestClock::new());
        let ((open, onlooker), life) = (onlooker(&clock), life(clock.clone(), Handle::current(), HOUR));
        look(&onlooker).await;
        onlooker.note(Ok(&life));
        look(&onlooker).await;
        assert_eq!(open.load(Ordering::SeqCst), 1, "it has none yet, and looks go on");
        life.attach(Linked::new(Counted::new(&open), FIRST_CONNECTION, ()));
        look(&onlooker).await;
        assert_eq!(open.load(Ordering::SeqCst), 1, "that of the session");
    }
}
