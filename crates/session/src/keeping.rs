//! The one task of a session that keeps it: it uses a connection, connects again when it is lost, and ends the session.
//!
//! How a service is connected to, what proves a session there, and how it is ended, its backend knows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Backoff, Error, ErrorKind, Liveness, LossReason, Operation, Result};
use tokio::runtime::Handle;

use crate::{Effect, Ending, Failure, FailureKind, Finder, Life, Link, Server};

/// The number of a session's first connection.
pub const FIRST_CONNECTION: u64 = 1;

/// For how long a session that has lapsed is still to be ended at the service, where its contenders keep others
/// waiting: a service that was away may let it live on from its return. After a longer outage it ends at its timeout.
const LAPSED_IS_ENDED_WITHIN: Duration = Duration::from_secs(3_600);

/// Returns where a session on this service will live.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`], permanent, outside a tokio runtime.
pub fn runtime_for(service: &str) -> Result<Handle> {
    Handle::try_current().map_err(|_| {
        let message = format!("a session on {service} needs a tokio runtime");
        Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
    })
}

/// How the session of one service is kept.
pub trait Keeping: Send + Sync + 'static {
    /// A connection that the session was taken over to.
    type Link: Link;

    /// Such a connection, with what its use needs besides.
    type Taken: Send;

    /// The life of the session.
    fn life(&self) -> &Life<Self::Link>;

    /// The connection that was taken.
    fn link(taken: &Self::Taken) -> Arc<Self::Link>;

    /// How long a round over all servers may take.
    fn patience(&self) -> Duration;

    /// Uses a connection until it fails: then the session is attached to it, and proven over it.
    fn serve(&mut self, taken: Self::Taken) -> impl Future<Output = Failure> + Send;

    /// Notes that no connection is in use.
    fn detached(&self) {}

    /// Takes the session over to a connection to this server, as the one of this number.
    fn take_over(
        &self,
        server: Server,
        number: u64,
        deadline: BootInstant,
    ) -> impl Future<Output = Result<Self::Taken, Failure>> + Send;

    /// Ends the session over this connection, and all contenders with it.
    fn end(&mut self, link: &Self::Link) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends the session over another connection, to this server.
    fn end_at(&self, server: Server, deadline: BootInstant) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Keeps a session until it is over; the finder finds the servers after the first. If the future is dropped, as it is
/// with its runtime, the session is abandoned; also if that was before its first poll.
pub fn keep<K: Keeping>(keeping: K, finder: Finder, first: K::Taken) -> impl Future<Output = ()> + Send {
    let keeper = Keeper { kept: keeping, finder, next_connection: AtomicU64::new(FIRST_CONNECTION + 1) };
    async move { keeper.run(first).await }
}

struct Keeper<K: Keeping> {
    kept: K,
    finder: Finder,
    /// The number of the next connection.
    next_connection: AtomicU64,
}

impl<K: Keeping> Keeper<K> {
    async fn run(mut self, first: K::Taken) {
        let mut taken = Some(first);
        while let Some(present) = taken.take() {
            let link = K::link(&present);
            if self.serve(present).await.is_break() {
                self.end(Some(&link)).await;
                return;
            }
            link.shut();
            self.kept.life().detach();
            self.kept.detached();
            taken = self.connect().await;
        }
        self.end(None).await;
    }

    /// Uses a connection until it fails, or the session is lost.
    async fn serve(&mut self, taken: K::Taken) -> ControlFlow<()> {
        let lost = self.kept.life().bond().clone();
        let link = K::link(&taken);
        let failure = tokio::select! {
            biased;
            _ = lost.lost() => return ControlFlow::Break(()),
            failure = self.kept.serve(taken) => failure,
        };
        if failure.kind == FailureKind::SessionGone {
            self.kept.life().expire();
            return ControlFlow::Break(());
        }
        tracing::debug!(target: "lockkeeper", server = %link.server(), %failure, "connection lost");
        self.kept.life().set_trouble(Some(failure));
        ControlFlow::Continue(())
    }

    /// Connects anew; `None` if the session is lost before.
    async fn connect(&mut self) -> Option<K::Taken> {
        let Self { kept, finder, next_connection } = self;
        let (kept, next_connection) = (&*kept, &*next_connection);
        let life = kept.life();
        let mut backoff = Backoff::CONNECTING;
        let connecting = async {
            loop {
                let take_over = |server, attempt_ends| {
                    kept.take_over(server, next_connection.fetch_add(1, Ordering::Relaxed), attempt_ends)
                };
                match finder.round(life.clock.now().saturating_add(kept.patience()), take_over).await {
                    Ok(taken) => return Some(taken),
                    Err(failure) if failure.kind == FailureKind::SessionGone => {
                        life.expire();
                        return None;
                    }
                    Err(failure) => life.set_trouble(Some(failure)),
                }
                backoff.rest(&*life.clock).await;
            }
        };
        tokio::select! {
            biased;
            _ = life.bond().lost() => None,
            taken = connecting => taken,
        }
    }

    /// Ends the session until that is certain or it must have run out.
    async fn end(&mut self, link: Option<&K::Link>) {
        self.kept.life().note_loss();
        let reason = self.kept.life().bond().liveness();
        let has_lapsed = reason == Liveness::Lost(LossReason::Lapsed);
        let patience = if has_lapsed { LAPSED_IS_ENDED_WITHIN } else { self.kept.life().timeout };
        let until = self.kept.life().clock.now().saturating_add(patience);
        let mut outcome = match link {
            Some(link) => self.kept.end(link).await,
            None => Err(self.kept.life().trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        if let Some(link) = link {
            // What has no answer by now gets none.
            link.shut();
        }
        if reason == Liveness::Lost(LossReason::Expired) {
            // What is left of it, others remove.
            outcome = Ok(());
        }
        let mut backoff = Backoff::CONNECTING;
        while let Err(failure) = outcome {
            // A caller that waits should not wait for a server that is away; but what it asked for goes on.
            self.note(Ending::Untold(failure.clone()));
            if !failure.is_passing() || self.kept.life().clock.now() >= until {
                return;
            }
            backoff.rest(&*self.kept.life().clock.clone()).await;
            let Self { kept, finder, .. } = &mut *self;
            let kept = &*kept;
            let deadline = kept.life().clock.now().saturating_add(kept.patience());
            outcome = finder.round(deadline, |server, attempt_ends| kept.end_at(server, attempt_ends)).await;
        }
        self.note(Ending::Certain);
    }

    fn note(&self, ending: Ending) {
        self.kept.life().end(ending);
        self.kept.detached();
    }
}

impl<K: Keeping> Drop for Keeper<K> {
    fn drop(&mut self) {
        self.kept.life().abandon();
        self.kept.detached();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_conformance::soon;
    use lockkeeper_core::clock::{Clock, SystemClock, TestClock};
    use tokio::sync::watch;

    use super::*;
    use crate::{Beginning, Names, Order, Testing};

    /// A connection to a server that answers nothing.
    struct Silent(Server);

    impl Link for Silent {
        fn is_over(&self) -> bool {
            false
        }

        fn shut(&self) {}

        fn server(&self) -> &Server {
            &self.0
        }

        fn number(&self) -> u64 {
            1
        }
    }

    struct Session {
        life: Arc<Life<Silent>>,
        /// Until when no server can be reached; without it none ever answers.
        away_until: Option<BootInstant>,
        ended: watch::Sender<u32>,
    }

    impl Session {
        fn new(life: Arc<Life<Silent>>, away_until: Option<BootInstant>) -> Self {
            Self { life, away_until, ended: watch::Sender::new(0) }
        }

        async fn reach(&self) -> Result<(), Failure> {
            match self.away_until {
                Some(until) if self.life.clock.now() < until => Err(Failure::broken(Effect::None)),
                Some(_) => Ok(()),
                None => std::future::pending().await,
            }
        }
    }

    impl Keeping for Session {
        type Link = Silent;
        type Taken = Arc<Silent>;

        fn life(&self) -> &Life<Silent> {
            &self.life
        }

        fn link(taken: &Arc<Silent>) -> Arc<Silent> {
            taken.clone()
        }

        async fn serve(&mut self, link: Arc<Silent>) -> Failure {
            self.life.attach(link);
            self.reach().await.err().unwrap_or_else(Failure::unexpected)
        }

        fn patience(&self) -> Duration {
            Duration::MAX
        }

        async fn take_over(&self, server: Server, _number: u64, _ends: BootInstant) -> Result<Arc<Silent>, Failure> {
            self.reach().await.map(|()| Arc::new(Silent(server)))
        }

        async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
            Ok(())
        }

        async fn end_at(&self, _server: Server, _ends: BootInstant) -> Result<(), Failure> {
            self.reach().await?;
            self.ended.send_modify(|count| *count += 1);
            Ok(())
        }
    }

    fn life(clock: Arc<dyn Clock>, runtime: Handle, timeout: Duration) -> Arc<Life<Silent>> {
        let beginning = Beginning {
            session: "one".to_owned(),
            testing: Testing::default(),
            timeout,
            safe_until: clock.now().saturating_add(timeout),
            notice: Duration::ZERO,
            worth_granting: Duration::ZERO,
            operation_timeout: timeout,
        };
        Arc::new(Life::new(clock, runtime, beginning))
    }

    fn finder(server: &Server, life: &Life<Silent>) -> Finder {
        Finder::new(&Names::unresolved(), vec![server.clone()], Order::Listed, life.clock.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_lapsed_while_its_service_was_away_is_ended_there_half_a_second_after_its_return() {
        let (clock, second) = (Arc::new(TestClock::new()), Duration::from_secs(1));
        let back_at = clock.now().saturating_add(60 * second);
        let (life, server) = (life(clock.clone(), Handle::current(), 4 * second), Server::new("h1", 1));
        let session = Session::new(life.clone(), Some(back_at));
        let mut ended = session.ended.subscribe();
        drop(tokio::spawn(keep(session, finder(&server, &life), Arc::new(Silent(server)))));
        assert_eq!(life.bond().lost().await, LossReason::Lapsed);
        assert!(clock.now() < back_at);
        ended.changed().await.expect("it is ended");
        assert!(clock.now().saturating_duration_since(back_at) <= second / 2);
        assert!(ended.changed().await.is_err(), "once");
    }

    #[tokio::test]
    async fn callers_on_another_runtime_are_told_when_that_of_their_session_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let hour = Duration::from_secs(3_600);
        let (life, server) = (life(Arc::new(SystemClock), runtime.handle().clone(), hour), Server::new("h1", 1));
        let session = Session::new(life.clone(), None);
        drop(runtime.spawn(keep(session, finder(&server, &life), Arc::new(Silent(server)))));
        let waiting = life.look::<()>(Arc::new(|_| Box::pin(std::future::pending())));
        // A runtime blocks while it ends.
        tokio::task::spawn_blocking(move || drop(runtime)).await.expect("no panic");
        let failure = soon("the end of the wait", waiting).await.expect_err("no answer");
        let error = life.fail(failure, Operation::Join, true);
        assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Closed));
        assert!(error.to_string().contains("the runtime that kept the session has ended"), "{error}");
        assert!(life.check(Operation::Join).unwrap_err().to_string().contains("runtime"));
    }
}
