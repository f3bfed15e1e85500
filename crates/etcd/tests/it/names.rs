//! Names that are used again: a contender is known by its key and the revision at which it was created.

use std::collections::BTreeSet;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Departure, Extent, Freshness};
use lockkeeper_faults::etcd::Server;
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::client::backend;
use crate::operator::Operator;

/// Where the contenders of the lock `door` are stored.
const QUEUE: &str = "/lockkeeper/q/door/";

/// How often a lock is taken: each name that was ever in use would make every later look slower.
const TURNS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_uses_the_name_of_a_contender_that_has_left_again() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    let session = session(&backend).await;
    let (mut names, mut tokens) = (BTreeSet::new(), Vec::new());
    for _ in 0..TURNS {
        let minted = ticket();
        let joined = soon("a place", session.enqueue_one(&door(), entry(minted))).await.expect("a place");
        let stored = Operator(server.address()).keys(QUEUE).await.expect("the keys");
        names.extend(stored.into_iter().map(|stored| stored.key));
        tokens.push((joined.token, joined.id));
        soon("the end", session.withdraw(&door(), minted)).await.expect("it leaves");
    }
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(tokens.windows(2).all(|pair| pair[0].0 < pair[1].0), "{tokens:?}");
    let identities: BTreeSet<_> = tokens.into_iter().map(|(_, id)| id).collect();
    assert_eq!(identities.len(), TURNS, "each contender has another identity");
}

/// As it does in a service that was taken back to older data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_came_back_is_not_taken_for_a_contender_that_joins() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "");
    let (session, operator) = (session(&backend).await, Operator(server.address()));
    let first = ticket();
    let before = soon("a place", session.enqueue_one(&door(), entry(first))).await.expect("a place");
    let stored = operator.keys(QUEUE).await.expect("the keys").remove(0);
    soon("the end", session.withdraw(&door(), first)).await.expect("it leaves");
    operator.put(&stored.key, "{}").await.expect("it is stored");
    let second = ticket();
    let joined = soon("a place", session.enqueue_one(&door(), entry(second))).await.expect("a place");
    assert!(joined.token > before.token);
    assert_eq!(tickets(&*session).await, [Some(second)]);
    soon("the end", session.withdraw(&door(), second)).await.expect("it leaves");
}

/// A session of etcd's Go client has one key for all of its turns with one lock. It stands behind us when it comes
/// again, and waits for us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_another_client_ends_though_that_has_joined_again_under_its_key() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let backend = backend(server.address(), "?layout=etcdctl");
    let (session, operator) = (session(&backend).await, Operator(server.address()));
    for wait_begins_first in [false, true] {
        operator.put("door/7aea", "").await.expect("it is stored");
        let minted = ticket();
        let joined = soon("a place", session.enqueue_one(&door(), entry(minted))).await.expect("a place");
        let again = async {
            assert!(operator.delete("door/7aea").await.expect("it is deleted"));
            operator.put("door/7aea", "").await.expect("it is stored");
        };
        let ahead = &joined.view.contenders[0].id;
        let waiting = || session.departure(&door(), Some(&joined.id), ahead, joined.view.connection);
        let waited = if wait_begins_first {
            let waiting = waiting();
            again.await;
            soon("the departure", waiting).await
        } else {
            again.await;
            soon("the departure", waiting()).await
        };
        assert_eq!(waited.expect("a departure"), Departure::Gone);
        let view = soon("a view", session.view(&door(), Freshness::Latest, Extent::Whole)).await.expect("a view");
        assert_eq!(view.position(&joined.id), Some(0));
        assert_eq!(view.position(ahead), None, "the one that has joined again is another contender");
        soon("the end", session.withdraw(&door(), minted)).await.expect("it leaves");
        assert!(operator.delete("door/7aea").await.expect("it is deleted"));
    }
}
