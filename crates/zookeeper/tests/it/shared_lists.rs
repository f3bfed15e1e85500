//! Lists that many share while no connection stands, under time that the test governs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper_core::clock::TestClock;
use lockkeeper_core::{
    Backend, BoxFuture, Entry, ErrorKind, Extent, Freshness, LivenessAt, Mode, Owner, QueueName, Session, Ticket,
};
use lockkeeper_zk_proto::client::QUEUED_REQUESTS_MAX;
use lockkeeper_zk_proto::message::OpCode;
use lockkeeper_zk_server::{EmbeddedServer, SeenRequest};
use lockkeeper_zookeeper::{Client, Config, Dial, Server, Stream, ZooKeeperBackend};
use tokio::sync::watch;

/// A server that is reached while the gate is open.
#[derive(Debug)]
struct GatedDial {
    server: Arc<EmbeddedServer>,
    is_open: watch::Sender<bool>,
}

impl Dial for GatedDial {
    fn dial(&self, _server: &Server) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (server, mut is_open) = (self.server.clone(), self.is_open.subscribe());
        Box::pin(async move {
            is_open.wait_for(|is_open| *is_open).await.map_err(io::Error::other)?;
            let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
            let mut behind = server.connect_duplex();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut theirs, &mut behind) => {}
                    _ = is_open.wait_for(|is_open| !is_open) => {}
                }
            });
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

struct World {
    session: Arc<dyn Session>,
    dial: Arc<GatedDial>,
}

impl World {
    async fn new(settings: &str) -> Self {
        let server = EmbeddedServer::builder().without_listener().start().await.unwrap();
        let dial = Arc::new(GatedDial { server: Arc::new(server), is_open: watch::Sender::new(true) });
        let config = Config::from_url(&format!("zk://embedded{settings}").parse().unwrap()).unwrap();
        let backend = ZooKeeperBackend::with(config, dial.clone(), Arc::new(TestClock::new()));
        let session = backend.session().await.unwrap();
        Self { session, dial }
    }

    /// Cuts the session off, and lets it notice.
    async fn cut(&self) {
        self.dial.is_open.send_replace(false);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn mend(&self) {
        self.dial.is_open.send_replace(true);
    }
}

fn entry() -> Entry {
    Entry::new(Ticket::mint().unwrap(), Mode::Mutex, Arc::new(Owner::this_process()))
}

fn door() -> QueueName {
    QueueName::new("door").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_list_for_which_there_is_room_in_part_is_refused_and_the_session_goes_on() {
    let world = World::new("").await;
    let held = world.session.enqueue_one(&door(), entry()).await.unwrap();
    world.cut().await;
    // Each takes two requests, a sync and a read.
    let values: Vec<_> = (1..QUEUED_REQUESTS_MAX / 2).map(|_| world.session.values().get(&door())).collect();
    let lists = ["gate", "yard"].map(|name| QueueName::new(name).unwrap());
    let first = world.session.view(&lists[0], Freshness::AfterDeparture, Extent::Whole);
    // There is room for one request now, and a look that is synced takes two.
    let refused = world.session.view(&door(), Freshness::Latest, Extent::Whole).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached, "{refused}");
    let last = world.session.view(&lists[1], Freshness::AfterDeparture, Extent::Whole);
    world.mend();
    for value in values {
        assert_eq!(value.await.unwrap(), None);
    }
    for list in [first, last] {
        assert!(list.await.unwrap().contenders.is_empty());
    }
    assert!(held.standing.liveness(LivenessAt::Now).is_held());
    assert_eq!(
        world.session.view(&door(), Freshness::Latest, Extent::Whole).await.unwrap().position(&held.id),
        Some(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_place_that_a_list_misses_is_looked_into_by_whichever_name_the_lock_is_asked_for() {
    let world = World::new("").await;
    let config = Config::from_url(&"zk://embedded".parse().unwrap()).unwrap();
    let operator = Client::connect_over(&config, world.dial.clone(), Arc::new(TestClock::new())).await.unwrap();
    let syncs = Arc::new(AtomicU32::new(0));
    let counted = syncs.clone();
    world.dial.server.set_request_hook(move |seen: &SeenRequest<'_>| {
        counted.fetch_add(u32::from(seen.request.opcode() == OpCode::Sync), Ordering::SeqCst);
    });
    for name in ["door", "/lockkeeper/door"] {
        let joined = world.session.enqueue_one(&door(), entry()).await.unwrap();
        operator.delete(&format!("/lockkeeper/door/{}", joined.id), None).await.unwrap();
        // Before its own watch is set.
        tokio::time::sleep(Duration::from_millis(10)).await;
        syncs.store(0, Ordering::SeqCst);
        let view =
            world.session.view(&QueueName::new(name).unwrap(), Freshness::AfterDeparture, Extent::Whole).await.unwrap();
        assert_eq!((view.contenders.len(), syncs.load(Ordering::SeqCst)), (0, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_shares_a_list_in_an_outage_waits_for_as_long_as_if_it_had_asked_for_its_own() {
    let world = World::new("?operation_timeout=2s").await;
    world.cut().await;
    let clock = tokio::time::Instant::now();
    let early = world.session.view(&door(), Freshness::Latest, Extent::Whole);
    tokio::time::sleep(Duration::from_millis(1_900)).await;
    let late = world.session.view(&door(), Freshness::Latest, Extent::Whole);
    let given_up = early.await.unwrap_err();
    assert_eq!((given_up.kind(), clock.elapsed().as_millis()), (ErrorKind::ConnectionLost, 2_000), "{given_up}");
    tokio::time::sleep(Duration::from_millis(900)).await;
    world.mend();
    assert!(late.await.unwrap().contenders.is_empty());
    world.cut().await;
    let clock = tokio::time::Instant::now();
    let given_up = world.session.view(&door(), Freshness::Latest, Extent::Whole).await.unwrap_err();
    assert_eq!((given_up.kind(), clock.elapsed().as_secs()), (ErrorKind::ConnectionLost, 2));
}
