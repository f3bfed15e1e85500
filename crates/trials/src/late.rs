//! Whether a write that a service takes in late, when what it was meant for is gone, does harm to what came after: a
//! removal or a request when the same session stands in the queue again, a value when a later one was written.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Enqueued, Expected, Request, Session, Ticket};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::{figures, long, wait};

use crate::waist::{door, entry, session, ticket, tickets};

/// How many writes of a kind are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

/// How often it is tried at most until a write that must do harm was late: on a busy machine its bytes may not have
/// reached the proxy when its connection ends.
const TRIES_MAX: u32 = 100;

/// How long what a client sends takes to reach the proxy, on a machine that is not busy.
const SENT_WITHIN: Duration = Duration::from_millis(10);

/// How long the harm of a late write is looked for.
pub const LOOKED_FOR: Duration = Duration::from_millis(100);

/// Joins.
///
/// # Panics
///
/// The service failed, or took too long.
pub async fn join(session: &dyn Session, ticket: Ticket) -> Enqueued {
    soon("a place", session.enqueue_one(&door(), entry(ticket))).await.expect("a place")
}

/// Joins again after a contender of `ours` has left, with a contender of `next` behind it; lets the late write `pass`,
/// and says what became of the second contender if it did not stay first in the queue, or its owner was asked for
/// something. `ours` ends then. Where an owner is told of that with a beat alone, an onlooker sees it sooner.
///
/// # Panics
///
/// As [`join`].
pub async fn harm(
    ours: &dyn Session,
    next: &dyn Session,
    onlooker: Option<&dyn Backend>,
    pass: impl FnOnce(&Enqueued),
) -> Option<String> {
    let (second, behind) = (ticket(), ticket());
    let place = join(ours, second).await;
    join(next, behind).await;
    pass(&place);
    let looking = async {
        loop {
            let seen = tickets(next).await;
            if seen != [Some(second), Some(behind)] {
                return format!("the queue is {seen:?}, not {:?}", [second, behind]);
            }
            if let Some(onlooker) = onlooker {
                let infos = soon("a look", onlooker.inspect(&door())).await.expect("a look");
                if let Some(asked) = infos.into_iter().find_map(|info| info.revocation) {
                    return format!("its owner is asked to give up: {asked:?}");
                }
            }
        }
    };
    let looked = tokio::time::timeout(LOOKED_FOR, async {
        tokio::select! {
            harm = looking => harm,
            asked = place.standing.revoked() => format!("its owner is asked to give up: {asked:?}"),
        }
    });
    let harm = looked.await.ok();
    let left = soon("the release", ours.withdraw(&door(), second)).await;
    let harm = harm.or_else(|| left.err().map(|error| error.to_string()));
    soon("the release", next.withdraw(&door(), behind)).await.expect("it stands");
    soon("the end", ours.close()).await.expect("the end");
    harm
}

/// A kind of write.
#[derive(Clone, Copy, Debug)]
pub enum Write {
    /// The removal of a contender that has left.
    Removal,
    /// What another session asks of a contender that has left.
    Request(fn(&Enqueued) -> Request),
    /// A value where a later one was written.
    Value,
}

/// Makes a client of servers, of which the first that answers is used.
type Open = dyn Fn(&[SocketAddr]) -> Arc<dyn Backend> + Send + Sync;

/// A server, how its clients are made, and who stands behind in the queue.
pub struct Stage {
    server: SocketAddr,
    open: Box<Open>,
    onlooker: Arc<dyn Backend>,
    next: Arc<dyn Session>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Stage").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A client whose first connection goes by a proxy, and the next one straight to the server.
struct Client {
    session: Arc<dyn Session>,
    way: Proxy,
}

impl Stage {
    /// `open` makes a client of servers, of which the first that answers is used.
    ///
    /// # Panics
    ///
    /// No session could be opened.
    pub async fn new(
        server: SocketAddr,
        open: impl Fn(&[SocketAddr]) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Self {
        let onlooker = open(&[server]);
        let next = session(&*onlooker).await;
        Self { server, open: Box::new(open), onlooker, next }
    }

    /// Plays the rounds of one kind of write.
    ///
    /// # Panics
    ///
    /// If one does harm.
    pub async fn play(&self, what: &str, write: Write) {
        let rounds = long::rounds(ROUNDS);
        for number in 0..rounds {
            assert_eq!(self.round(write).await, None, "round {number}");
        }
        figures::tell(&format!("late_writes, {what}: 0 of {rounds} reached what came after"));
    }

    /// Plays rounds until one does harm, as a planted fault must.
    ///
    /// # Panics
    ///
    /// If none does.
    pub async fn find(&self, write: Write) {
        for _ in 0..TRIES_MAX {
            if self.round(write).await.is_some() {
                return;
            }
        }
        panic!("none of {TRIES_MAX} came late enough to tell anything: {write:?}");
    }

    /// Plays rounds in which the late write is for the first contender of the queue, and not for one by its name, until
    /// one does harm, as a planted fault must.
    ///
    /// # Panics
    ///
    /// If none does.
    pub async fn find_by_place(&self, request: fn(&Enqueued) -> Request) {
        for _ in 0..TRIES_MAX {
            let client = self.client().await;
            let pass = |first: &Enqueued| drop(tokio::spawn(self.next.request(&door(), &first.id, request(first))));
            if harm(&*client.session, &*self.next, Some(&*self.onlooker), pass).await.is_some() {
                return;
            }
        }
        panic!("none of {TRIES_MAX} was found");
    }

    /// Plays a round; says what harm the late write did.
    async fn round(&self, write: Write) -> Option<String> {
        match write {
            Write::Removal => self.removal().await,
            Write::Request(request) => self.request(request).await,
            Write::Value => self.value().await,
        }
    }

    async fn client(&self) -> Client {
        let way = Proxy::of_bytes(self.server).await.expect("a proxy");
        let backend = (self.open)(&[way.address(), self.server]);
        Client { session: session(&*backend).await, way }
    }

    async fn removal(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, left) = (&*client.session, ticket());
        join(ours, left).await;
        client.hold();
        let leaving = tokio::spawn(ours.withdraw(&door(), left));
        client.end().await;
        soon("the release", leaving).await.expect("no panic").expect("it was held");
        harm(ours, &*self.next, Some(&*self.onlooker), |_| client.pass()).await
    }

    async fn request(&self, request: fn(&Enqueued) -> Request) -> Option<String> {
        let (client, asking) = (self.client().await, self.client().await);
        let (ours, left) = (&*client.session, ticket());
        let first = join(ours, left).await;
        asking.hold();
        let asked = tokio::spawn(asking.session.request(&door(), &first.id, request(&first)));
        asking.end().await;
        // Whether it is sent again or not, its first bytes are on their way.
        let _ = soon("an answer", asked).await.expect("no panic");
        let _ = soon("the release", ours.withdraw(&door(), left)).await;
        let harm = harm(ours, &*self.next, Some(&*self.onlooker), |_| asking.pass()).await;
        // Without a connection it could not be told that it ends.
        tickets(&*asking.session).await;
        soon("the end", asking.session.close()).await.expect("the end");
        harm
    }

    async fn value(&self) -> Option<String> {
        let client = self.client().await;
        let ours = &*client.session;
        let write = |value: &'static [u8]| ours.set_value(&door(), Expected::Any, Some(value.into()));
        client.hold();
        let early = tokio::spawn(write(b"early"));
        client.end().await;
        let _ = soon("an answer", early).await.expect("no panic");
        // The former connection may be in use for a moment.
        let late = async || write(b"late").await.ok();
        wait::until("the later value", wait::PATIENCE, late).await.expect("it is written").expect("whatever was there");
        client.pass();
        let looking = async {
            loop {
                let value = soon("the value", ours.value(&door())).await.expect("a look").expect("it was written");
                if &*value.bytes != b"late" {
                    return "the earlier value came back".to_owned();
                }
            }
        };
        let harm = tokio::time::timeout(LOOKED_FOR, looking).await.ok();
        soon("the end", ours.close()).await.expect("the end");
        harm
    }
}

impl Client {
    /// Holds back all that is sent from now on.
    fn hold(&self) {
        self.way.set_flow(Direction::ToServer, Flow::Hold);
    }

    /// Ends the connection for the client, once what it has sent can be at the proxy.
    async fn end(&self) {
        tokio::time::sleep(SENT_WITHIN).await;
        // The next connection goes straight to the server.
        self.way.refuse().await.expect("the port closes");
        self.way.half_close(Direction::ToClient);
    }

    /// Passes on what was held back.
    fn pass(&self) {
        self.way.set_flow(Direction::ToServer, Flow::Pass);
    }
}
