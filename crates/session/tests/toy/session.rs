//! A session of the toy: how it is opened, kept over one connection after the other, and ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{BoxFuture, Operation, Result, Ticket};
use lockkeeper_session::{
    Beginning, Effect, Failure, Finder, Keeping, Life, Lookable as _, Names, Order, Server, keep, late,
};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use crate::connection::Connection;

/// A connection that a session was taken over to.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connection: Arc<Connection>,
    pub(crate) number: u64,
}

impl lockkeeper_session::Link for Link {
    fn is_over(&self) -> bool {
        self.connection.is_over()
    }

    fn shut(&self) {
        self.connection.shut();
    }

    fn server(&self) -> &Server {
        self.connection.server()
    }

    fn number(&self) -> u64 {
        self.number
    }
}

/// What the parts of a session share.
pub(crate) struct Core {
    pub(crate) life: Arc<Life<Link>>,
    pub(crate) id: String,
    servers: Vec<Server>,
    timeout: Duration,
    pub(crate) harm: Arc<Harm>,
}

/// What tests do to one client, and what they hear of it.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    /// The kinds of requests whose next answer is lost.
    pub(crate) to_lose: Mutex<Vec<Operation>>,
    /// The session that was opened last.
    pub(crate) session: Mutex<String>,
    /// Counts the sessions that are known to be lost, and the contenders that are known to be gone.
    pub(crate) losses: AtomicU64,
    pub(crate) removals: AtomicU64,
}

impl Harm {
    pub(crate) fn session(&self) -> String {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How long a request that keeps the session may take.
const fn patience(timeout: Duration) -> Duration {
    timeout.checked_div(5).expect("it is not by zero")
}

/// For how long an answer is believed, from the moment when its question was sent.
fn belief(timeout: Duration) -> Duration {
    timeout - timeout / 20 - Duration::from_millis(50)
}

/// Opens a session at the first server that answers.
pub(crate) async fn open(servers: Vec<Server>, timeout: Duration, harm: Arc<Harm>) -> Result<Arc<Core>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let id = Ticket::mint()?.to_string();
    let opened_at = clock.now();
    let question = json!({"op": "open", "session": id, "timeout_ms": timeout.as_millis() as u64});
    let opened = at_first(&servers, &clock, opened_at.saturating_add(Duration::from_secs(10)), |connection| {
        let question = question.clone();
        Box::pin(async move { ok(&connection.ask(question).await?).map(|()| connection) })
    });
    let connection = opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))?;
    let beginning = Beginning {
        timeout,
        safe_until: opened_at.saturating_add(belief(timeout)),
        notice: belief(timeout) - timeout / 6 - patience(timeout),
        worth_granting: timeout / 3,
        operation_timeout: timeout,
    };
    let life = Arc::new(Life::new(clock, Handle::current(), beginning));
    *harm.session.lock().unwrap_or_else(PoisonError::into_inner) = id.clone();
    let core = Arc::new(Core { life, id, servers, timeout, harm });
    let link = Arc::new(Link { connection, number: 1 });
    tokio::spawn(keep(Driver { core: core.clone(), next_connection: 2 }, link));
    Ok(core)
}

/// Connects to one server after the other, until one does what is asked for.
pub(crate) async fn at_first<T: Send, A: Future<Output = Result<T, Failure>> + Send>(
    servers: &[Server],
    clock: &Arc<dyn Clock>,
    deadline: BootInstant,
    act: impl Fn(Arc<Connection>) -> A + Send + Sync,
) -> Result<T, Failure> {
    let (clock, act) = (clock.clone(), &act);
    let mut finder = Finder::new(&Names::default(), servers.to_vec(), Order::Listed, clock.clone());
    let clock = &clock;
    let attempt = |server: Server, attempt_ends| async move {
        let attempt = async { act(Arc::new(Connection::open(&server).await?)).await };
        tokio::select! {
            biased;
            done = attempt => done,
            () = clock.sleep_until(attempt_ends) => Err(Failure::late(Effect::Unknown)),
        }
    };
    finder.round(deadline, attempt).await
}

/// Reads an answer that says nothing but whether the session is there.
pub(crate) fn ok(answer: &Json) -> Result<(), Failure> {
    match answer["word"].as_str() {
        Some("ok") => Ok(()),
        Some("gone") => Err(Failure::session_gone()),
        Some("stale") => Err(Failure::superseded()),
        _ => Err(Failure::unexpected()),
    }
}

impl Core {
    /// Asks over a connection, whose use ends if it brings nothing any more.
    pub(crate) fn ask(
        &self,
        link: &Arc<Link>,
        question: Json,
        operation: Operation,
    ) -> BoxFuture<Result<Json, Failure>> {
        let (asking, link, harm) = (link.connection.ask(question), link.clone(), self.harm.clone());
        Box::pin(async move {
            let answer = asking.await;
            let mut to_lose = harm.to_lose.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = to_lose.iter().position(|lost| *lost == operation).filter(|_| answer.is_ok()) {
                to_lose.remove(at);
                link.connection.shut();
                return Err(Failure::broken(Effect::Unknown));
            }
            answer
        })
    }

    /// Asks what keeps the session: an answer that takes long shows that the connection is of no use.
    async fn patiently(&self, connection: &Connection, question: Json) -> Result<(), Failure> {
        let deadline = self.life.clock.now().saturating_add(patience(self.timeout));
        tokio::select! {
            biased;
            answer = connection.ask(question) => ok(&answer?),
            () = late(&*self.life.clock, deadline) => Err(Failure::broken(Effect::Unknown)),
        }
    }

    async fn renew(&self, connection: &Connection) -> Failure {
        loop {
            let sent_at = self.life.clock.now();
            let renewal = json!({"op": "renew", "session": self.id});
            if let Err(failure) = self.patiently(connection, renewal).await {
                return failure;
            }
            self.life.proven_for(sent_at, belief(self.timeout));
            tokio::select! {
                biased;
                () = self.life.urged() => {}
                () = self.life.clock.sleep_until(sent_at.saturating_add(self.timeout / 6)) => {}
            }
        }
    }

    /// Waits until the service says that the session is over.
    async fn until_gone(&self, connection: &Connection) -> Failure {
        let never = json!({"op": "news", "session": self.id, "after": u64::MAX});
        match connection.ask(never).await {
            Ok(answer) => ok(&answer).err().unwrap_or_else(Failure::unexpected),
            Err(failure) => failure,
        }
    }
}

/// Keeps one session until it is over.
struct Driver {
    core: Arc<Core>,
    next_connection: u64,
}

impl Driver {
    fn deadline(&self) -> BootInstant {
        self.core.life.clock.now().saturating_add(patience(self.core.timeout))
    }
}

impl Keeping for Driver {
    type Link = Link;
    type Taken = Arc<Link>;

    fn life(&self) -> &Life<Link> {
        &self.core.life
    }

    fn link(taken: &Arc<Link>) -> Arc<Link> {
        taken.clone()
    }

    async fn serve(&mut self, link: Arc<Link>) -> Failure {
        self.core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            failure = self.core.until_gone(&link.connection) => failure,
            failure = self.core.renew(&link.connection) => failure,
        }
    }

    fn lost(&self) {
        self.core.harm.losses.fetch_add(1, Ordering::SeqCst);
    }

    async fn connect(&mut self) -> Result<Arc<Link>, Failure> {
        let (core, number, deadline) = (self.core.clone(), self.next_connection, self.deadline());
        self.next_connection += 1;
        let attach = json!({"op": "attach", "session": core.id, "epoch": number});
        at_first(&self.core.servers, &self.core.life.clock, deadline, move |connection| {
            let (core, attach) = (core.clone(), attach.clone());
            Box::pin(async move {
                core.patiently(&connection, attach).await?;
                Ok(Arc::new(Link { connection, number }))
            })
        })
        .await
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        self.core.patiently(&link.connection, json!({"op": "close", "session": self.core.id})).await
    }

    async fn end_anew(&mut self) -> Result<(), Failure> {
        let (core, deadline) = (self.core.clone(), self.deadline());
        at_first(&self.core.servers, &self.core.life.clock, deadline, move |connection| {
            let core = core.clone();
            Box::pin(async move { core.patiently(&connection, json!({"op": "close", "session": core.id})).await })
        })
        .await
    }
}
