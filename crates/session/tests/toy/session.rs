//! A session of the toy: how it is opened, kept over one connection after the other, and ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{BoxFuture, Operation, Result, Ticket};
use lockkeeper_session::{
    Beginning, ClientTesting, Effect, FIRST_CONNECTION, Failure, Finder, Keeping, Life, Linked, Names, Order, Server,
    SessionTiming, keep, late,
};
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use crate::connection::Connection;

/// A connection that a session was taken over to.
pub(crate) type Link = Linked<Connection>;

/// What the parts of a session share.
pub(crate) struct Core {
    pub(crate) life: Arc<Life<Link>>,
    pub(crate) id: String,
    /// What was heard of contenders before the answer to their join was read.
    pub(crate) early: Mutex<Vec<(Ticket, Json)>>,
    servers: Vec<Server>,
    timeout: Duration,
}

/// How long a request that keeps the session may take.
const fn patience(timeout: Duration) -> Duration {
    timeout.checked_div(5).expect("it is not by zero")
}

/// For how long an answer is believed, from the moment when its question was sent.
fn belief(timeout: Duration) -> Duration {
    timeout - timeout / 20 - Duration::from_millis(50)
}

#[derive(Clone, Copy)]
struct Timing(Duration);

impl SessionTiming for Timing {
    const PATIENCE_DIVISOR: u32 = 5;

    fn timeout(self) -> Duration {
        self.0
    }

    fn worth_granting(self) -> Duration {
        self.0 / 3
    }

    fn notice(self) -> Duration {
        belief(self.0) - self.0 / 6 - patience(self.0)
    }
}

/// Opens a session at the first server that answers.
pub(crate) async fn open(servers: Vec<Server>, timeout: Duration, testing: ClientTesting) -> Result<Arc<Core>> {
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
        session: id.clone(),
        testing,
        timing: Timing(timeout),
        safe_until: opened_at.saturating_add(belief(timeout)),
        operation_timeout: timeout,
    };
    let life = Arc::new(Life::new(clock, Handle::current(), beginning));
    let core = Arc::new(Core { life, id, early: Mutex::default(), servers, timeout });
    let link = Link::new(connection, FIRST_CONNECTION, ());
    tokio::spawn(keep(Driver(core.clone()), finder(&core.servers, &core.life.clock), link));
    Ok(core)
}

fn finder(servers: &[Server], clock: &Arc<dyn Clock>) -> Finder {
    Finder::new(&Names::default(), servers.to_vec(), Order::Listed, clock.clone())
}

/// Connects to one server after the other, until one does what is asked for.
pub(crate) async fn at_first<T: Send, A: Future<Output = Result<T, Failure>> + Send>(
    servers: &[Server],
    clock: &Arc<dyn Clock>,
    deadline: BootInstant,
    act: impl Fn(Connection) -> A + Send + Sync,
) -> Result<T, Failure> {
    let act = &act;
    let attempt = |server: Server, attempt_ends| async move {
        in_time(clock, attempt_ends, async { act(Connection::open(&server).await?).await }).await
    };
    finder(servers, clock).round(deadline, attempt).await
}

async fn in_time<T>(
    clock: &Arc<dyn Clock>,
    deadline: BootInstant,
    attempt: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        done = attempt => done,
        () = clock.sleep_until(deadline) => Err(Failure::late(Effect::Unknown)),
    }
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
        let (asking, life, link) = (link.connection.ask(question), self.life.clone(), link.clone());
        Box::pin(async move { life.hear(&*link, operation, asking.await) })
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
struct Driver(Arc<Core>);

impl Driver {
    async fn close(&self, connection: &Connection) -> Result<(), Failure> {
        self.0.patiently(connection, json!({"op": "close", "session": self.0.id})).await
    }
}

impl Keeping for Driver {
    type Link = Link;
    type Taken = Arc<Link>;

    fn life(&self) -> &Life<Link> {
        &self.0.life
    }

    fn link(taken: &Arc<Link>) -> Arc<Link> {
        taken.clone()
    }

    fn patience(&self) -> Duration {
        patience(self.0.timeout)
    }

    async fn serve(&mut self, link: Arc<Link>) -> Failure {
        self.0.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            failure = self.0.until_gone(&link.connection) => failure,
            failure = self.0.renew(&link.connection) => failure,
        }
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Arc<Link>, Failure> {
        let attach = json!({"op": "attach", "session": self.0.id, "epoch": number});
        let taking = async {
            let connection = Connection::open(&server).await?;
            self.0.patiently(&connection, attach).await?;
            Ok(Link::new(connection, number, ()))
        };
        in_time(&self.0.life.clock, deadline, taking).await
    }

    async fn end(&mut self, link: &Link) -> Result<(), Failure> {
        self.close(&link.connection).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        let ending = async { self.close(&Connection::open(&server).await?).await };
        in_time(&self.0.life.clock, deadline, ending).await
    }
}
