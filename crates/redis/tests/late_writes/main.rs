//! Writes that the server takes in late, when what they were meant for is gone: a removal or a request when the same
//! session stands in the queue again, a value when a later one was written. It is a separate binary, since it has long
//! rounds.

#[path = "../support/client.rs"]
mod client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Enqueued, Expected, Request, Revocation, Session};
use lockkeeper_faults::proxy::{Direction, Flow, Proxy};
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::{figures, long, wait};
use lockkeeper_redis::RedisBackend;
use lockkeeper_trials::late::{LOOKED_FOR, harm, join};
use lockkeeper_trials::waist::{door, session, ticket};

use crate::client::{backend, can_run};

/// How many writes of a kind are tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

/// How often it is tried at most until a write that must do harm was late: on a busy machine its bytes may not have
/// reached the proxy when its connection ends.
const TRIES_MAX: u32 = 100;

/// A client whose first connection goes by a proxy, and the next one straight to the server.
struct Client {
    session: Arc<dyn Session>,
    way: Proxy,
}

impl Client {
    async fn open(server: SocketAddr, settings: &str, prepare: impl Fn(&RedisBackend)) -> Self {
        let way = Proxy::of_bytes(server).await.expect("a proxy");
        let hosts = format!("redis://{},{server}?session_timeout=60s{settings}", way.address());
        let backend = RedisBackend::open(&hosts.parse().expect("a URL")).expect("a good URL");
        prepare(&backend);
        Self { session: session(&backend).await, way }
    }

    /// Holds back all that is sent from now on.
    fn hold(&self) {
        self.way.set_flow(Direction::ToServer, Flow::Hold);
    }

    /// Ends the connection for the client, once what it has sent can be at the proxy.
    async fn end(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.way.half_close(Direction::ToClient);
    }

    /// Passes on what was held back.
    fn pass(&self) {
        self.way.set_flow(Direction::ToServer, Flow::Pass);
    }
}

/// Plays the rounds of one kind of write, none of which may do harm.
async fn play(what: &str, settings: &'static str, round: impl AsyncFn(SocketAddr, Arc<dyn Session>) -> Option<String>) {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    let next = session(&backend(server.address(), &format!("?session_timeout=60s{settings}"))).await;
    let rounds = long::rounds(ROUNDS);
    for number in 0..rounds {
        assert_eq!(round(server.address(), next.clone()).await, None, "round {number}");
    }
    figures::tell(&format!("late_writes, {what} {settings}: 0 of {rounds} reached what came after"));
}

async fn late_removal(server: SocketAddr, next: Arc<dyn Session>, settings: &str) -> Option<String> {
    let client = Client::open(server, settings, |_| {}).await;
    let (ours, left) = (&*client.session, ticket());
    join(ours, left).await;
    client.hold();
    let leaving = tokio::spawn(ours.withdraw(&door(), left));
    client.end().await;
    soon("the release", leaving).await.expect("no panic").expect("it was held");
    harm(ours, &*next, |_| client.pass()).await
}

/// Another session asks the first contender.
async fn late_request(
    server: SocketAddr,
    next: Arc<dyn Session>,
    request: impl Fn(&Enqueued) -> Request,
) -> Option<String> {
    let (client, asking) = (Client::open(server, "", |_| {}).await, Client::open(server, "", |_| {}).await);
    let (ours, left) = (&*client.session, ticket());
    let first = join(ours, left).await;
    asking.hold();
    let asked = tokio::spawn(asking.session.request(&door(), &first.id, request(&first)));
    asking.end().await;
    // Whether it is sent again or not, its first bytes are on their way.
    let _ = soon("an answer", asked).await.expect("no panic");
    let _ = soon("the release", ours.withdraw(&door(), left)).await;
    let harm = harm(ours, &*next, |_| asking.pass()).await;
    soon("the end", asking.session.close()).await.expect("the end");
    harm
}

async fn late_value(server: SocketAddr, prepare: impl Fn(&RedisBackend)) -> Option<String> {
    let client = Client::open(server, "", prepare).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_next_contender_of_its_session_alone() {
    play("removals", "", async |server, next| late_removal(server, next, "").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_removal_leaves_the_plain_lock_of_the_next_contender_alone() {
    const PLAIN: &str = "&layout=setnx";
    play("removals", PLAIN, async |server, next| late_removal(server, next, PLAIN).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_order_to_break_leaves_the_next_contender_alone() {
    let order = |first: &Enqueued| Request::Break { token: first.token };
    play("orders to break", "", async |server, next| late_request(server, next, order).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_to_yield_is_not_told_to_the_next_contender() {
    let request = |_: &Enqueued| Request::Yield(Revocation::new(None, None));
    play("requests to yield", "", async |server, next| late_request(server, next, request).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_value_never_replaces_a_later_one() {
    play("values", "", async |server, _| late_value(server, |_| {}).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_epochs_a_late_value_replaces_a_later_one() {
    if !can_run() {
        return;
    }
    let server = Server::standalone().await.expect("a server");
    for _ in 0..TRIES_MAX {
        if late_value(server.address(), |backend| backend.testing().ignore_epochs()).await.is_some() {
            return;
        }
    }
    panic!("none of {TRIES_MAX} came late enough to tell anything");
}
