//! A queue whose list is longer than what a server takes in one request.

mod support;

use lockkeeper_core::Mode;
use lockkeeper_zookeeper::NewNode;
use support::waist::{Waist, line};
use support::{Bench, can_start, client, soon};

/// So many names of Curator's form take more than a mebibyte.
const WAITERS: usize = 20_000;

/// How many are made at once: far from what a session may queue.
const AT_ONCE: usize = 500;

#[tokio::test]
async fn a_queue_of_twenty_thousand_is_listed_and_joined() {
    if !can_start("a_queue_of_twenty_thousand_is_listed_and_joined") {
        return;
    }
    let bench = Bench::start().await;
    let (ann, operator) = (Waist::open(bench.server.address(), "").await, client(bench.server.address()).await);
    let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
    for batch in 0..WAITERS / AT_ONCE {
        let name = |number: usize| {
            let uuid = format!("{:08x}-0000-0000-0000-000000000000", batch * AT_ONCE + number);
            NewNode::ephemeral_sequential(format!("/lockkeeper/door/_c_{uuid}-lock-"))
        };
        let making: Vec<_> = (0..AT_ONCE).map(|number| operator.create(name(number))).collect();
        for made in making {
            soon("a node", made).await.unwrap();
        }
    }
    let view = ann.view(&line("door")).await;
    assert_eq!(view.contenders.len(), 1 + WAITERS);
    assert_eq!(view.contenders[0].ticket, Some(ticket));
    let (_, last) = ann.take(&line("door"), Mode::Mutex).await;
    assert_eq!(last.view.contenders[1 + WAITERS].id, last.id);
    let names: usize = view.contenders.iter().map(|contender| contender.id.as_str().len() + 4).sum();
    assert!(names > 1 << 20, "{names}");
}
