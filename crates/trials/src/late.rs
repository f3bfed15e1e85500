//! Late writes, which a service takes in when their purpose is gone: whether they harm what came after. A join that was
//! withdrawn, a removal or a request when the same session stands in the queue again, a value when a later one was
//! written.

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
const TRIES_MAX: u32 = 200;

/// As many connections as a round needs.
const CONNECTIONS: usize = 3;

/// Time for bytes on loopback to reach the proxy, or the server and back, on a machine that is not busy.
const ON_LOOPBACK: Duration = Duration::from_millis(10);

/// How long bytes need that are to be held back behind others whose answers are awaited …
const DELAYED_BY: Duration = Duration::from_millis(100);

/// … and how long after the first answer they are: all answers to a new connection come at once.
const ANSWERED_WITHIN: Duration = Duration::from_millis(50);

/// How long the harm of a late write is looked for.
const LOOKED_FOR: Duration = Duration::from_millis(100);

/// Joins.
pub async fn join(session: &dyn Session, ticket: Ticket) -> Enqueued {
    soon("a place", session.enqueue_one(&door(), entry(ticket))).await.expect("a place")
}

/// Joins again after a contender of `ours` has left, with a contender of `next` behind it; lets the late write `pass`,
/// and says what became of the second contender if it did not stay first in the queue, or its owner was asked for
/// something. `ours` ends then. Where an owner is told of that with a beat alone, an onlooker sees it sooner.
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
                let infos = soon("a look", onlooker.admin().inspect(&door())).await.expect("a look");
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
    // On a busy machine the late write may reach this one.
    let left = soon("the release", next.withdraw(&door(), behind)).await;
    let harm = harm.or_else(|| left.err().map(|error| error.to_string()));
    soon("the end", ours.close()).await.expect("the end");
    harm
}

/// A kind of write.
#[derive(Clone, Copy, Debug)]
pub enum Write {
    /// A join that was withdrawn meanwhile.
    Join,
    /// The removal of a contender that has left.
    Removal,
    /// The removal of a contender whose join was not answered: its bytes are lost, and those of its first withdrawal
    /// come late.
    Withdrawal,
    /// What another session asks of a contender that has left.
    Request(fn(&Enqueued) -> Request),
    /// The same where the service is asked twice, to read and to write, of which the first is in time.
    SecondOfRequest(fn(&Enqueued) -> Request),
    /// A value where a later one was written.
    Value,
}

/// Makes a client of servers, of which one that answers is used.
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

impl Stage {
    /// `open` makes a client of servers, of which one that answers is used.
    pub async fn new(
        server: SocketAddr,
        open: impl Fn(&[SocketAddr]) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Self {
        let onlooker = open(&[server]);
        let next = session(&*onlooker).await;
        Self { server, open: Box::new(open), onlooker, next }
    }

    /// Plays the rounds of one kind of write.
    pub async fn play(&self, what: &str, write: Write) {
        let rounds = long::rounds(ROUNDS);
        for number in 0..rounds {
            assert_eq!(self.round(write).await, None, "round {number}");
        }
        figures::tell(&format!("late_writes, {what}: 0 of {rounds} reached what came after"));
    }

    /// Plays rounds until one does harm, as a planted fault must.
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
    pub async fn find_by_place(&self, request: fn(&Enqueued) -> Request) {
        for _ in 0..TRIES_MAX {
            let client = self.client().await;
            let pass = |first: &Enqueued| drop(tokio::spawn(self.next.request(&door(), &first.id, request(first))));
            if self.harm(&client, pass).await.is_some() {
                return;
            }
        }
        panic!("none of {TRIES_MAX} was found");
    }

    /// Plays a round; says what harm the late write did.
    async fn round(&self, write: Write) -> Option<String> {
        match write {
            Write::Join => self.join().await,
            Write::Removal => self.removal().await,
            Write::Withdrawal => self.withdrawal().await,
            Write::Request(request) => self.request(request, 1).await,
            Write::SecondOfRequest(request) => self.request(request, 2).await,
            Write::Value => self.value().await,
        }
    }

    async fn client(&self) -> Client {
        Client::open(&[self.server; CONNECTIONS], &self.open).await
    }

    async fn harm(&self, ours: &Client, pass: impl FnOnce(&Enqueued)) -> Option<String> {
        harm(&*ours.session, &*self.next, Some(&*self.onlooker), pass).await
    }

    async fn join(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, withdrawn) = (&*client.session, ticket());
        client.hold(0);
        let joining = tokio::spawn(ours.enqueue_one(&door(), entry(withdrawn)));
        client.end(0).await;
        // It is sent again over the next connection.
        soon("the answer", joining).await.expect("no panic").expect("a place");
        soon("the withdrawal", ours.withdraw(&door(), withdrawn)).await.expect("it is withdrawn");
        client.pass(0);
        let looking = async {
            while tickets(&*self.next).await.is_empty() {
                tokio::task::yield_now().await;
            }
            "it stood in the queue after its withdrawal".to_owned()
        };
        let harm = tokio::time::timeout(LOOKED_FOR, looking).await.ok();
        soon("the end", ours.close()).await.expect("the end");
        harm
    }

    async fn removal(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, left) = (&*client.session, ticket());
        join(ours, left).await;
        client.hold(0);
        let leaving = tokio::spawn(ours.withdraw(&door(), left));
        client.end(0).await;
        soon("the release", leaving).await.expect("no panic").expect("it was held");
        self.harm(&client, |_| client.pass(0)).await
    }

    async fn withdrawal(&self) -> Option<String> {
        let client = self.client().await;
        let (ours, first, withdrawn) = (&*client.session, ticket(), ticket());
        join(ours, first).await;
        soon("the release", ours.withdraw(&door(), first)).await.expect("it was held");
        client.hold(0);
        let joining = tokio::spawn(ours.enqueue_one(&door(), entry(withdrawn)));
        tokio::time::sleep(ON_LOOPBACK).await;
        let leaving = tokio::spawn(ours.withdraw(&door(), withdrawn));
        tokio::join!(client.end(0), client.hold_once_begun(1));
        let joined = soon("the refusal", joining).await.expect("no panic");
        assert!(joined.is_err(), "it was withdrawn");
        client.end(1).await;
        soon("the withdrawal", leaving).await.expect("no panic").expect("it was withdrawn");
        self.harm(&client, |_| client.pass(1)).await
    }

    async fn request(&self, request: fn(&Enqueued) -> Request, steps: u32) -> Option<String> {
        let (client, asking) = (self.client().await, self.client().await);
        let (ours, left) = (&*client.session, ticket());
        let first = join(ours, left).await;
        let ask = || tokio::spawn(asking.session.request(&door(), &first.id, request(&first)));
        let asked = if steps == 1 {
            asking.hold(0);
            ask()
        } else {
            asking.hold_after_one(0, ask).await
        };
        asking.end(0).await;
        // Whether it is sent again or not, its first bytes are on their way.
        let _ = soon("an answer", asked).await.expect("no panic");
        let _ = soon("the release", ours.withdraw(&door(), left)).await;
        let harm = self.harm(&client, |_| asking.pass(0)).await;
        // Without a connection it could not be told that it ends.
        tickets(&*asking.session).await;
        soon("the end", asking.session.close()).await.expect("the end");
        harm
    }

    async fn value(&self) -> Option<String> {
        let client = self.client().await;
        let ours = &*client.session;
        let write = |value: &'static [u8]| ours.values().set(&door(), Expected::Any, Some(value.into()));
        client.hold(0);
        let early = tokio::spawn(write(b"early"));
        client.end(0).await;
        let _ = soon("an answer", early).await.expect("no panic");
        // The former connection may be in use for a moment.
        let late = async || write(b"late").await.ok();
        wait::until("the later value", wait::PATIENCE, late).await.expect("it is written").expect("whatever was there");
        client.pass(0);
        let looking = async {
            loop {
                let value =
                    soon("the value", ours.values().get(&door())).await.expect("a look").expect("it was written");
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

/// A session, and the ways that its connections take, one after the other.
pub struct Client {
    /// The session.
    pub session: Arc<dyn Session>,
    /// The place of its first server among those that it was given.
    pub first: usize,
    /// That of its first connection comes first.
    ways: Vec<Proxy>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("ways", &self.ways).finish_non_exhaustive()
    }
}

impl Client {
    /// Opens a session with a way to each of these servers.
    pub async fn open(servers: &[SocketAddr], open: impl Fn(&[SocketAddr]) -> Arc<dyn Backend>) -> Self {
        let mut ways = Vec::new();
        for &server in servers {
            ways.push(Proxy::of_bytes(server).await.expect("a proxy"));
        }
        let backend = open(&ways.iter().map(Proxy::address).collect::<Vec<_>>());
        let session = session(&*backend).await;
        // Processes begin at different servers, and go on with the next.
        let first = ways.iter().position(|way| way.connections() > 0).expect("the session has a connection");
        ways.rotate_left(first);
        Self { session, first, ways }
    }

    /// Holds back all that is sent from now on over one of its connections, counted from 0.
    fn hold(&self, way: usize) {
        self.ways[way].set_flow(Direction::ToServer, Flow::Hold);
    }

    /// Makes a call, lets its first request through, and holds back what is sent after the answer to that.
    async fn hold_after_one<T>(&self, way: usize, call: impl FnOnce() -> T) -> T {
        let proxy = &self.ways[way];
        proxy.set_flow(Direction::ToClient, Flow::Hold);
        let has_passed = proxy.bursts().len();
        let called = call();
        self.until_passed(way, Direction::ToServer, has_passed).await;
        tokio::time::sleep(ON_LOOPBACK).await;
        self.hold(way);
        proxy.set_flow(Direction::ToClient, Flow::Pass);
        called
    }

    /// Lets a connection begin over a way that none has taken, and holds back what is sent over it then.
    async fn hold_once_begun(&self, way: usize) {
        self.ways[way].set_delay(DELAYED_BY);
        self.until_passed(way, Direction::ToClient, 0).await;
        tokio::time::sleep(ANSWERED_WITHIN).await;
        self.hold(way);
        self.ways[way].set_delay(Duration::ZERO);
    }

    /// Waits until something has passed in this direction behind so many pieces.
    async fn until_passed(&self, way: usize, direction: Direction, behind: usize) {
        let proxy = &self.ways[way];
        let look = async || proxy.bursts()[behind..].iter().any(|burst| burst.direction == direction).then_some(());
        wait::until("something to pass", wait::PATIENCE, look).await.expect("it is sent");
    }

    /// Ends a connection for the client, once what it has sent can be at the proxy; the next one takes another way.
    async fn end(&self, way: usize) {
        tokio::time::sleep(ON_LOOPBACK).await;
        self.ways[way].refuse().await.expect("the port closes");
        self.ways[way].half_close(Direction::ToClient);
    }

    /// Passes on what was held back.
    fn pass(&self, way: usize) {
        self.ways[way].set_flow(Direction::ToServer, Flow::Pass);
    }
}
