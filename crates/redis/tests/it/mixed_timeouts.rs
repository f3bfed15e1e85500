//! Sessions of different timeouts on one base: the service's clock goes on by the least guard of all, so those with a
//! long timeout must renew as often as the shortest one needs.

use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::Departure;
use lockkeeper_faults::proxy::Proxy;
use lockkeeper_faults::redis::Server;
use lockkeeper_faults::sleeper::Sleeper;
use lockkeeper_trials::waist::{door, entry, session, ticket};

use crate::client::backend;

const SHORT: Duration = Duration::from_secs(2);

/// How long after its holder's death a lock is handed on at the latest: the timeout, the time until the waiter's next
/// renewal, and half a second.
const HANDED_ON_WITHIN: Duration = Duration::from_millis(2_000 + 2_000 / 6 + 500);

#[tokio::test]
async fn a_waiter_with_a_long_timeout_follows_a_dead_holder_with_a_short_one_in_time() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let cut = Proxy::of_bytes(server.address()).await.expect("a proxy");
    let long = backend(server.address(), "?session_timeout=20s");
    let short = backend(cut.address(), &format!("?session_timeout={}s", SHORT.as_secs()));
    // Its next renewal but one comes three seconds later, unless it learns of the other session.
    let (long, short) = (session(&long).await, session(&short).await);
    let held = soon("a place", short.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let joined = soon("a place", long.enqueue_one(&door(), entry(ticket()))).await.expect("a place");
    let waiting = long.departure(&door(), Some(&joined.id), &held.id, joined.view.connection);
    cut.blackhole();
    let since_death = Sleeper::start();
    assert_eq!(soon("the departure", waiting).await.expect("the session lives"), Departure::Gone);
    let handed_on_after = since_death.slept();
    assert!(handed_on_after <= HANDED_ON_WITHIN, "{handed_on_after:?}");
    soon("the end", long.close()).await.expect("the end");
}
