//! Writes that are still on their way when their session has another connection: a deletion or a request when the same
//! session stands in the queue again, a value when that was removed and made anew.
//!
//! Both servers end a session's former connection before they take anything from the next one. A contender's path comes
//! only once all the same, but the version of a value's node does not.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Backend, Contender, Enqueued, Expected, Mode, Request, Revocation, Session};
use lockkeeper_faults::proxy::{Direction, Flow, Operation, Proxy};
use lockkeeper_faults::{long, wait};
use lockkeeper_zookeeper::ZooKeeperBackend;

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::{entry, line};
use crate::support::way::url;

/// How often each is tried in the long run; the plain one does a tenth.
const ROUNDS: u32 = 200;

const TRIES_MAX: u32 = 100;

/// How long the harm of a late write is looked for: a contender is told of requests once it has stood for 80 ms.
const LOOKED_FOR: Duration = Duration::from_millis(200);

/// A session whose connections take one of two ways, and the way that it takes now.
struct Client {
    session: Arc<dyn Session>,
    way: Proxy,
    _next_way: Proxy,
}

impl Client {
    async fn open(bench: &Bench) -> Self {
        let mut ways = Vec::new();
        for _ in 0..2 {
            ways.push(Proxy::start(bench.server.address()).await.expect("a proxy"));
        }
        let chroot = bench.servers().trim_start_matches(&bench.server.address().to_string()).to_owned();
        let servers = format!("{},{}{chroot}", ways[0].address(), ways[1].address());
        let backend = ZooKeeperBackend::open(&url(servers, "?session_timeout=20s")).expect("a good URL");
        let session = soon("a session", backend.session()).await.expect("a session");
        let first = ways.iter().position(|way| way.connections() > 0).expect("the session has a connection");
        let way = ways.swap_remove(first);
        Self { session, way, _next_way: ways.remove(0) }
    }

    /// Makes a call, and holds back its write, which comes behind so many reads. The connection then ends for the
    /// client.
    async fn hold<T: Send + 'static>(
        &self,
        (write, reads): (Operation, usize),
        call: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let way = &self.way;
        way.forget();
        if reads == 0 {
            way.set_flow(Direction::ToServer, Flow::Hold);
        } else {
            way.set_flow(Direction::ToClient, Flow::Hold);
        }
        let calling = tokio::spawn(call);
        if reads > 0 {
            let is_read = async || {
                let log = way.log();
                let passed = log.iter().filter(|frame| frame.operation == Operation::GET_DATA);
                (passed.filter(|frame| frame.direction == Direction::ToServer).count() >= reads).then_some(())
            };
            wait::until("what is read before", SOON, is_read).await.expect("it is read");
            way.set_flow(Direction::ToServer, Flow::Hold);
            way.set_flow(Direction::ToClient, Flow::Pass);
        }
        let is_written = async || (way.count(Direction::ToServer, write) > 0).then_some(());
        wait::until("the write", SOON, is_written).await.expect("it is sent");
        way.half_close(Direction::ToClient);
        soon("an answer over the next connection", calling).await.expect("no panic")
    }

    fn pass(&self) {
        self.way.set_flow(Direction::ToServer, Flow::Pass);
    }

    async fn join(&self) -> (lockkeeper_core::Ticket, Enqueued) {
        let entry = entry(Mode::Mutex);
        let ticket = entry.ticket;
        (ticket, soon("a place", self.session.enqueue_one(&line("door"), entry)).await.expect("a place"))
    }

    async fn leave(&self, ticket: lockkeeper_core::Ticket) -> lockkeeper_core::Result<()> {
        soon("the release", self.session.withdraw(&line("door"), ticket)).await
    }
}

/// Has a session stand in the queue again, lets the late write pass, and looks whether that contender stands all the
/// while and its owner is asked nothing; says what harm was done.
async fn harm(bench: &Bench, ours: &Client, pass: impl FnOnce(&Enqueued)) -> Option<String> {
    let onlooker = bench.neighbouring_waist("").await;
    let (second, place) = ours.join().await;
    pass(&place);
    let looking = async {
        loop {
            let seen = onlooker.view(&line("door")).await.contenders;
            if !seen.iter().map(|contender: &Contender| &contender.id).eq([&place.id]) {
                return format!("the queue is {seen:?}");
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
    let left = ours.leave(second).await;
    harm.or_else(|| left.err().map(|error| error.to_string()))
}

#[tokio::test]
async fn a_late_deletion_leaves_the_next_contender_of_its_session_alone() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    for _ in 0..long::rounds(ROUNDS) {
        let client = Client::open(&bench).await;
        let (left, _) = client.join().await;
        let leaving = client.session.withdraw(&line("door"), left);
        client.hold((Operation::DELETE, 0), leaving).await.expect("it was held");
        assert_eq!(harm(&bench, &client, |_| client.pass()).await, None);
    }
}

async fn asks_late(write: Operation, request: impl Fn(&Enqueued) -> Request) {
    let Some(bench) = Bench::start(SERVER).await else { return };
    for _ in 0..long::rounds(ROUNDS) {
        let (client, asking) = (Client::open(&bench).await, Client::open(&bench).await);
        let (left, first) = client.join().await;
        let asked = asking.session.request(&line("door"), &first.id, request(&first));
        let asked = asking.hold((write, 2), asked).await;
        assert!(asked.is_err(), "it is not answered: {asked:?}");
        client.leave(left).await.expect("it was held");
        assert_eq!(harm(&bench, &client, |_| asking.pass()).await, None);
    }
}

#[tokio::test]
async fn a_late_order_to_break_leaves_the_next_contender_alone() {
    asks_late(Operation::MULTI, |first| Request::Break { token: first.token }).await;
}

#[tokio::test]
async fn a_late_request_to_yield_is_not_told_to_the_next_contender() {
    asks_late(Operation::SET_DATA, |_| Request::Yield(Revocation::new(None, None))).await;
}

/// A contender's path, with a ticket and a number that no other has, is the only condition of a deletion and a request.
#[tokio::test]
async fn a_write_that_is_for_the_first_contender_and_not_for_a_path_is_found() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (client, asking) = (Client::open(&bench).await, Client::open(&bench).await);
    let requests: [fn(&Enqueued) -> Request; 2] =
        [|first| Request::Break { token: first.token }, |_| Request::Yield(Revocation::new(None, None))];
    for request in requests {
        let mut found = None;
        for _ in 0..TRIES_MAX {
            let pass = |first: &Enqueued| {
                drop(tokio::spawn(asking.session.request(&line("door"), &first.id, request(first))));
            };
            found = harm(&bench, &client, pass).await;
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some(), "none of {TRIES_MAX} was found");
    }
}

/// Lets the write of a value pass when that was removed and made anew; says whether it replaced the new one.
pub(crate) async fn late_value(bench: &Bench) -> Option<String> {
    let client = Client::open(bench).await;
    let write = |expected, value: Option<&'static [u8]>| {
        client.session.values().set(&line("count"), expected, value.map(Arc::from))
    };
    soon("the write", write(Expected::Absent, Some(b"first"))).await.expect("an answer").expect("there was none");
    let early = client.hold((Operation::SET_DATA, 1), write(Expected::Any, Some(b"early"))).await;
    assert!(early.is_err(), "it is not answered: {early:?}");
    soon("the removal", write(Expected::Any, None)).await.expect("an answer").expect("whatever was there");
    // Its node counts from zero again, as the one did for which the late write was meant.
    soon("the write", write(Expected::Absent, Some(b"late"))).await.expect("an answer").expect("there was none");
    client.pass();
    let looking = async {
        loop {
            let value = soon("the value", client.session.values().get(&line("count"))).await.expect("a look");
            if &*value.expect("it was written").bytes != b"late" {
                return "the earlier value came back".to_owned();
            }
        }
    };
    let harm = tokio::time::timeout(LOOKED_FOR, looking).await.ok();
    soon("the removal", write(Expected::Any, None)).await.expect("an answer").expect("it was there");
    harm
}

#[tokio::test]
async fn a_late_value_never_replaces_one_that_was_made_anew() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    for round in 0..long::rounds(ROUNDS) {
        assert_eq!(late_value(&bench).await, None, "round {round}");
    }
}
