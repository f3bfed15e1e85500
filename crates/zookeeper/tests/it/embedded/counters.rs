//! Queues whose node has counted very many children: years of use, within one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_conformance::{Party, is_joined, soon, until};
use lockkeeper_core::{ErrorKind, Expected, Mode, Part};
use lockkeeper_recipes::Event;
use lockkeeper_zk_server::EmbeddedServer;

use crate::support::waist::{Waist, entry, line, queue};
use crate::support::way;

/// From here on, a contender that leaves an empty queue deletes its node.
const RENEWED: i32 = 1 << 30;

/// From here on, joining is refused.
const REFUSED: i32 = i32::MAX - (1 << 20);

const NODE: &str = "/lockkeeper/door";

struct World {
    server: EmbeddedServer,
    ann: Waist,
}

impl World {
    async fn start() -> Self {
        let server = EmbeddedServer::start().await.unwrap();
        let ann = Waist::open(server.address().unwrap(), "").await;
        let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
        ann.leave(&line("door"), ticket).await;
        Self { server, ann }
    }

    async fn set_children_made(&self, count: i32) {
        assert!(self.server.set_children_made(NODE, count).await, "the node is there");
    }

    fn party(&self) -> Party {
        way::party(self.server.address().unwrap(), "")
    }
}

fn sequence_of(name: &str) -> i32 {
    name[name.len() - 10..].parse().unwrap()
}

#[tokio::test]
async fn above_2_to_the_30_leaving_an_empty_queue_has_it_count_anew() {
    let world = World::start().await;
    let door = line("door");
    world.set_children_made(RENEWED).await;
    let (first, one) = world.ann.take(&door, Mode::Mutex).await;
    let (second, other) = world.ann.take(&door, Mode::Mutex).await;
    assert_eq!((sequence_of(one.id.as_str()), sequence_of(other.id.as_str())), (RENEWED, RENEWED + 1));
    world.ann.leave(&door, first).await;
    assert_eq!(world.ann.modes(&door).await.len(), 1, "a queue in use is left alone");
    world.ann.leave(&door, second).await;
    let (_, anew) = world.ann.take(&door, Mode::Mutex).await;
    assert_eq!(sequence_of(anew.id.as_str()), 0);
    assert!(anew.token > other.token, "tokens go on growing");
}

#[tokio::test]
async fn below_2_to_the_30_and_where_a_value_lies_the_node_is_kept() {
    let world = World::start().await;
    let door = line("door");
    world.set_children_made(RENEWED - 1).await;
    let (ticket, _) = world.ann.take(&door, Mode::Mutex).await;
    world.ann.leave(&door, ticket).await;
    let permits = queue("pool", Part::Permits);
    let value = Arc::from(&b"5"[..]);
    soon("the write", world.ann.session.values().set(&permits, Expected::Absent, Some(value))).await.unwrap();
    assert!(world.server.set_children_made("/lockkeeper/pool/leases", RENEWED).await);
    let (ticket, _) = world.ann.take(&permits, Mode::Permit).await;
    world.ann.leave(&permits, ticket).await;
    let (_, next) = world.ann.take(&door, Mode::Mutex).await;
    assert_eq!(sequence_of(next.id.as_str()), RENEWED);
    let (_, next) = world.ann.take(&permits, Mode::Permit).await;
    assert_eq!(sequence_of(next.id.as_str()), RENEWED + 1);
    assert_eq!(&world.ann.session.values().get(&permits).await.unwrap().unwrap().bytes[..], b"5");
}

#[tokio::test]
async fn near_the_end_of_counting_joining_is_refused_with_the_cure_and_the_cure_helps() {
    let world = World::start().await;
    let door = line("door");
    world.set_children_made(REFUSED - 1).await;
    let (last, _) = world.ann.take(&door, Mode::Mutex).await;
    let refused = entry(Mode::Mutex);
    let ticket = refused.ticket;
    let error = soon("the refusal", world.ann.session.enqueue_one(&door, refused)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
    assert!(format!("{error:#}").contains("delete the node /lockkeeper/door"), "{error}");
    world.ann.leave(&door, ticket).await;
    assert_eq!(world.ann.modes(&door).await.len(), 1, "the contender before stands, and no other");
    // The one that leaves last does it by itself.
    world.ann.leave(&door, last).await;
    let (_, anew) = world.ann.take(&door, Mode::Mutex).await;
    assert_eq!(sequence_of(anew.id.as_str()), 0);
}

#[tokio::test]
async fn where_the_counter_sticks_nothing_is_granted_twice() {
    let world = World::start().await;
    let holder = world.party();
    let held = holder.keeper.mutex("door").unwrap().lock().await.unwrap();
    world.set_children_made(i32::MAX - 1).await;
    let (granted, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let parties: Vec<_> = (0..4).map(|_| world.party()).collect();
    let rush = async |expected_refusals: usize| {
        let rush = parties.iter().map(|party| {
            let (mutex, granted, refused) = (party.keeper.mutex("door").unwrap(), granted.clone(), refused.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    match mutex.lock().await {
                        Ok(guard) => {
                            assert_eq!(granted.fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
                            tokio::task::yield_now().await;
                            granted.fetch_sub(1, Ordering::SeqCst);
                            guard.release().await.unwrap();
                        }
                        Err(error) if error.kind() == ErrorKind::LimitReached => {
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for task in rush.collect::<Vec<_>>() {
            soon("the rush", task).await.unwrap();
        }
        assert!(refused.load(Ordering::SeqCst) >= expected_refusals);
    };
    rush(40).await;
    assert!(held.hold().is_held(), "an earlier holder still holds");
    assert_eq!(
        parties.iter().map(|party| party.journal.count(|event| matches!(event, Event::Granted { .. }))).sum::<usize>(),
        0
    );
    held.release().await.unwrap();
    // Those that are refused sometimes leave an empty queue, which then counts anew.
    rush(40).await;
    let (_, anew) = world.ann.take(&line("door"), Mode::Mutex).await;
    assert!(sequence_of(anew.id.as_str()) < RENEWED, "{}", anew.id);
    assert_eq!(holder.journal.count(is_joined), 1);
    until("the end of all others", async || world.ann.modes(&line("door")).await.len() == 1).await;
}
