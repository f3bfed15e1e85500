//! A lock that is given back and asked for again at once: one transaction.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use lockkeeper_conformance::until;
use lockkeeper_core::ContenderId;
use lockkeeper_recipes::Keeper;
use lockkeeper_zk_proto::message::OpCode;
use lockkeeper_zk_server::{EmbeddedServer, SeenRequest};
use lockkeeper_zookeeper::ZooKeeperBackend;

struct World {
    _server: EmbeddedServer,
    keeper: Keeper,
    asked: Arc<Mutex<Vec<OpCode>>>,
}

impl World {
    async fn start() -> Self {
        let server = EmbeddedServer::start().await.unwrap();
        let backend = ZooKeeperBackend::open(&server.url().parse().unwrap()).unwrap();
        let asked = Arc::<Mutex<Vec<OpCode>>>::default();
        let noted = asked.clone();
        server.set_request_hook(move |seen: &SeenRequest<'_>| noted.lock().unwrap().push(seen.request.opcode()));
        Self { _server: server, keeper: Keeper::new(Arc::new(backend)), asked }
    }

    /// What was asked for since the last call, but for pings.
    fn asked(&self) -> Vec<OpCode> {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.into_iter().filter(|opcode| *opcode != OpCode::Ping).collect()
    }

    async fn contenders(&self) -> Vec<ContenderId> {
        let contenders = self.keeper.contenders("door").await.unwrap();
        contenders.into_iter().map(|contender| contender.id).collect()
    }
}

#[tokio::test]
async fn a_lock_that_is_given_back_and_asked_for_again_at_once_costs_the_service_one_write() {
    let world = World::start().await;
    let door = world.keeper.mutex("door").unwrap();
    let first = door.lock().await.unwrap();
    let token = first.fencing_token();
    world.asked();
    drop(first);
    let second = door.lock().await.unwrap();
    assert_eq!(world.asked(), [OpCode::Multi, OpCode::GetChildren]);
    assert!(second.fencing_token() > token && second.hold().is_held());
    assert_eq!(world.contenders().await, [second.hold().contender().clone()]);
    second.release().await.unwrap();
    assert_eq!(world.contenders().await, []);
}

#[tokio::test]
async fn a_lock_that_is_given_back_with_certainty_is_asked_for_alone() {
    let world = World::start().await;
    let door = world.keeper.mutex("door").unwrap();
    let first = door.lock().await.unwrap();
    world.asked();
    first.release().await.unwrap();
    let second = door.lock().await.unwrap();
    assert_eq!(world.asked(), [OpCode::Delete, OpCode::Create2, OpCode::GetChildren]);
    second.release().await.unwrap();
}

#[tokio::test]
async fn where_many_of_the_session_wait_a_place_is_left_alone() {
    const WAITERS: usize = 4;
    let world = World::start().await;
    let door = world.keeper.mutex("door").unwrap();
    let first = door.lock().await.unwrap();
    let waiters: Vec<_> = (0..WAITERS).map(|_| tokio::spawn(door.clone().lock_owned())).collect();
    until("all of them wait", async || world.contenders().await.len() > WAITERS).await;
    // Behind what the waiters ask for once they have joined.
    world.contenders().await;
    world.asked();
    drop(first);
    let mut last = Box::pin(door.lock());
    assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    last.await.unwrap().release().await.unwrap();
    assert!(world.asked().contains(&OpCode::Create2));
}
