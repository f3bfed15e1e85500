//! The one task of a session that keeps it: it uses a connection, connects again when it is lost, and ends the session.
//!
//! How a service is connected to, what proves a session there, and how it is ended, its backend knows.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Liveness, LossReason, Operation, Result};
use tokio::runtime::Handle;

use crate::{Backoff, Effect, Ending, Failure, FailureKind, Finder, Life, Link, Server};

/// The number of a session's first connection.
pub const FIRST_CONNECTION: u64 = 1;

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
                pause(&*life.clock, &mut backoff).await;
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
        let until = self.kept.life().clock.now().saturating_add(self.kept.life().timeout);
        let mut outcome = match link {
            Some(link) => self.kept.end(link).await,
            None => Err(self.kept.life().trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        if let Some(link) = link {
            // What has no answer by now gets none.
            link.shut();
        }
        if self.kept.life().bond().liveness() == Liveness::Lost(LossReason::Expired) {
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
            pause(&*self.kept.life().clock.clone(), &mut backoff).await;
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

async fn pause(clock: &dyn Clock, backoff: &mut Backoff) {
    clock.sleep_until(clock.now().saturating_add(backoff.pause())).await;
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
    use lockkeeper_core::clock::SystemClock;

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

    struct Session(Arc<Life<Silent>>);

    impl Keeping for Session {
        type Link = Silent;
        type Taken = Arc<Silent>;

        fn life(&self) -> &Life<Silent> {
            &self.0
        }

        fn link(taken: &Arc<Silent>) -> Arc<Silent> {
            taken.clone()
        }

        async fn serve(&mut self, link: Arc<Silent>) -> Failure {
            self.0.attach(link);
            std::future::pending().await
        }

        fn patience(&self) -> Duration {
            Duration::MAX
        }

        async fn take_over(&self, _server: Server, _number: u64, _ends: BootInstant) -> Result<Arc<Silent>, Failure> {
            std::future::pending().await
        }

        async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
            Ok(())
        }

        async fn end_at(&self, _server: Server, _ends: BootInstant) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn callers_on_another_runtime_are_told_when_that_of_their_session_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let hour = Duration::from_secs(3_600);
        let life = Arc::new(Life::new(
            Arc::new(SystemClock),
            runtime.handle().clone(),
            Beginning {
                session: "one".to_owned(),
                testing: Testing::default(),
                timeout: hour,
                safe_until: SystemClock.now().saturating_add(hour),
                notice: Duration::ZERO,
                worth_granting: Duration::ZERO,
                operation_timeout: hour,
            },
        ));
        let server = Server::new("h1", 1);
        let finder = Finder::new(&Names::unresolved(), vec![server.clone()], Order::Listed, life.clock.clone());
        drop(runtime.spawn(keep(Session(life.clone()), finder, Arc::new(Silent(server)))));
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
