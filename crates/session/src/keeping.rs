//! The one task of a session that keeps it: it uses a connection, connects again when it is lost, and ends the session.
//!
//! How a service is connected to, what proves a session there, and how it is ended, its backend knows.

use std::ops::ControlFlow;
use std::sync::Arc;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Liveness, LossReason};

use crate::{Backoff, Effect, Ending, Failure, FailureKind, Life, Link};

/// How the session of one service is kept.
pub trait Keeping: Send + 'static {
    /// A connection that the session was taken over to.
    type Link: Link;

    /// Such a connection, with what its use needs besides.
    type Taken: Send;

    /// The life of the session.
    fn life(&self) -> &Life<Self::Link>;

    /// The connection that was taken.
    fn link(taken: &Self::Taken) -> Arc<Self::Link>;

    /// Uses a connection until it fails: then the session is attached to it, and proven over it.
    fn serve(&mut self, taken: Self::Taken) -> impl Future<Output = Failure> + Send;

    /// Notes that no connection is in use.
    fn detached(&self) {}

    /// Notes that the session is over here, before the service is told.
    fn lost(&self) {}

    /// Tries each server once, and takes the session over to the first that lets it.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Taken, Failure>> + Send;

    /// Ends the session over this connection, and all contenders with it.
    fn end(&mut self, link: &Self::Link) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Tries each server once, and ends the session at the first that lets it.
    fn end_anew(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Keeps a session until it is over. If the future is dropped, as it is with its runtime, the session is abandoned;
/// also if that was before its first poll.
pub fn keep<K: Keeping>(keeping: K, first: K::Taken) -> impl Future<Output = ()> + Send {
    let keeper = Keeper(keeping);
    async move { keeper.run(first).await }
}

struct Keeper<K: Keeping>(K);

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
            self.0.life().detach();
            self.0.detached();
            taken = self.connect().await;
        }
        self.end(None).await;
    }

    /// Uses a connection until it fails, or the session is lost.
    async fn serve(&mut self, taken: K::Taken) -> ControlFlow<()> {
        let lost = self.0.life().bond().clone();
        let link = K::link(&taken);
        let failure = tokio::select! {
            biased;
            _ = lost.lost() => return ControlFlow::Break(()),
            failure = self.0.serve(taken) => failure,
        };
        if failure.kind == FailureKind::SessionGone {
            self.0.life().expire();
            return ControlFlow::Break(());
        }
        tracing::debug!(target: "lockkeeper", server = %link.server(), %failure, "connection lost");
        self.0.life().set_trouble(Some(failure));
        ControlFlow::Continue(())
    }

    /// Connects anew; `None` if the session is lost before.
    async fn connect(&mut self) -> Option<K::Taken> {
        let lost = self.0.life().bond().clone();
        let mut backoff = Backoff::CONNECTING;
        let connecting = async {
            loop {
                match self.0.connect().await {
                    Ok(taken) => return Some(taken),
                    Err(failure) if failure.kind == FailureKind::SessionGone => {
                        self.0.life().expire();
                        return None;
                    }
                    Err(failure) => self.0.life().set_trouble(Some(failure)),
                }
                pause(&*self.0.life().clock.clone(), &mut backoff).await;
            }
        };
        tokio::select! {
            biased;
            _ = lost.lost() => None,
            taken = connecting => taken,
        }
    }

    /// Ends the session until that is certain or it must have run out.
    async fn end(&mut self, link: Option<&K::Link>) {
        self.0.lost();
        let until = self.0.life().clock.now().saturating_add(self.0.life().timeout);
        let mut outcome = match link {
            Some(link) => self.0.end(link).await,
            None => Err(self.0.life().trouble().unwrap_or_else(|| Failure::broken(Effect::None))),
        };
        if let Some(link) = link {
            // What has no answer by now gets none.
            link.shut();
        }
        if self.0.life().bond().liveness() == Liveness::Lost(LossReason::Expired) {
            // What is left of it, others remove.
            outcome = Ok(());
        }
        let mut backoff = Backoff::CONNECTING;
        while let Err(failure) = outcome {
            // A caller that waits should not wait for a server that is away; but what it asked for goes on.
            self.note(Ending::Untold(failure.clone()));
            if !failure.is_passing() || self.0.life().clock.now() >= until {
                return;
            }
            pause(&*self.0.life().clock.clone(), &mut backoff).await;
            outcome = self.0.end_anew().await;
        }
        self.note(Ending::Certain);
    }

    fn note(&self, ending: Ending) {
        self.0.life().end(ending);
        self.0.detached();
    }
}

async fn pause(clock: &dyn Clock, backoff: &mut Backoff) {
    clock.sleep_until(clock.now().saturating_add(backoff.pause())).await;
}

impl<K: Keeping> Drop for Keeper<K> {
    fn drop(&mut self) {
        self.0.life().abandon();
        self.0.detached();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_conformance::soon;
    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_core::{ErrorKind, LossReason, Operation};

    use super::*;
    use crate::{Beginning, Server};

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

        async fn connect(&mut self) -> Result<Arc<Silent>, Failure> {
            std::future::pending().await
        }

        async fn end(&mut self, _link: &Silent) -> Result<(), Failure> {
            Ok(())
        }

        async fn end_anew(&mut self) -> Result<(), Failure> {
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
                timeout: hour,
                safe_until: SystemClock.now().saturating_add(hour),
                notice: Duration::ZERO,
                worth_granting: Duration::ZERO,
                operation_timeout: hour,
            },
        ));
        drop(runtime.spawn(keep(Session(life.clone()), Arc::new(Silent(Server::new("h1", 1))))));
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
