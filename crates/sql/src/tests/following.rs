//! Followers of all locks: each contender is shown by a look, or counted by the one after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, ContenderId, FollowEvent, Follower, Scope};

use super::client::{Client, all, text};
use super::server::{Server, each};
use crate::SqlBackend;
use crate::schema::COUNT_REST;
use crate::statement::{Argument, RowKind};

/// The least time between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What a follower has told of each lock: who was shown, and how many more there were.
#[derive(Default)]
struct Tally(BTreeMap<String, (BTreeSet<ContenderId>, u64)>);

impl Tally {
    /// Takes in the events until a look, and that look.
    async fn take_look(&mut self, follower: &mut Follower) {
        loop {
            match soon("what is followed", follower.next()).await.expect("it goes on") {
                FollowEvent::All(locks) | FollowEvent::Changed(locks) => {
                    for told in locks {
                        let (shown, more) = self.0.entry(told.lock.to_string()).or_default();
                        shown.extend(told.contenders.iter().map(|info| info.id.clone()));
                        *more += told.between.more;
                    }
                }
                FollowEvent::Looked { .. } => return,
                other => panic!("{other:?}"),
            }
        }
    }

    fn counts(&self) -> BTreeMap<&str, u64> {
        self.0.iter().map(|(lock, (shown, more))| (lock.as_str(), shown.len() as u64 + more)).collect()
    }
}

/// Joins and leaves so often.
async fn pass(client: &Client, name: &str, times: u128) {
    for ticket in 1_000..1_000 + times {
        client.join(name, ticket).await;
        assert_eq!(client.leave(name, ticket).await, "left");
    }
}

/// Joins a part of a lock, or behind an anchor.
async fn join_at(client: &Client, name: &str, part: i64, tickets: &[u128], anchor: Option<u128>) {
    let mut arguments = client.to_join(name, tickets, &vec![5; tickets.len()]);
    (arguments[3], arguments[7]) = (Argument::Int(part), Argument::OptionalId(anchor));
    client.ok("join", arguments).await;
}

/// Has a queue have rested for so long that its count begins anew.
async fn rest(server: &Server, name: &str) {
    let tokens = (COUNT_REST * 2).as_millis() << 20;
    let aged = format!("UPDATE lockkeeper.queue SET last = last - {tokens} WHERE name = '{name}'");
    server.ask(&aged).await.expect("an older queue");
}

#[tokio::test]
async fn each_contender_that_comes_and_goes_between_two_looks_is_counted() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("held", 1).await;
        pass(&client, "held", 3).await;
        for name in ["rested", "valued"] {
            pass(&client, name, 5).await;
            rest(&server, name).await;
        }
        let backend = SqlBackend::open(&server.url().parse().expect("a URL")).expect("a good URL");
        let mut follower = backend.admin().follow(&Scope::default().looking_each(LOOK_PAUSE)).expect("looks");
        let mut tally = Tally::default();
        tally.take_look(&mut follower).await;
        assert_eq!(tally.counts(), BTreeMap::from([("held", 1)]), "what was before the first look is not counted");

        pass(&client, "held", 4).await;
        join_at(&client, "held", 0, &[2], Some(1)).await;
        assert_eq!(client.leave("held", 2).await, "left");
        pass(&client, "new", 6).await;
        pass(&client, "rested", 2).await;
        client.ok("set_value", client.to_set("valued", 0, 0, Some(b"value"))).await;
        pass(&client, "valued", 2).await;
        join_at(&client, "pool", 1, &[10, 11], None).await;
        join_at(&client, "pool", 2, &[12, 13, 14], None).await;
        client.told("leave_all", vec![client.session.into(), Argument::Ids((10..15).collect())]).await;
        client.join("stays", 20).await;

        // One look at least began after all that.
        for _ in 0..3 {
            tally.take_look(&mut follower).await;
        }
        let mut counts = tally.counts();
        // Looks may have shown those that waited at the gate, which are not counted.
        let of_pool = counts.remove("pool");
        assert!(matches!(of_pool, Some(3..=5)), "{of_pool:?}");
        let expected = [("held", 6), ("new", 6), ("rested", 2), ("stays", 1), ("valued", 2)];
        assert_eq!(counts, BTreeMap::from(expected));
    }
}

#[tokio::test]
async fn a_follower_of_an_earlier_version_is_shown_the_same_contenders() {
    for server in each().await {
        let client = server.open(1).await;
        client.join("door", 10).await;
        let earlier = client.ok("inspect_all", vec![text("")]).await;
        let ours = client.ok("follow", vec![text(""), Argument::Int(0)]).await;
        assert_eq!(all(&earlier, RowKind::Placed), all(&ours, RowKind::Placed));
    }
}
