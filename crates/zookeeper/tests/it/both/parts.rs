//! Where the queues of a lock lie and what their nodes are called, byte for byte, and what a look at them costs.

use lockkeeper_conformance::soon;
use lockkeeper_core::{Advice, Backend, ErrorKind, Mode, Part, Wait};
use lockkeeper_faults::proxy::{Direction, Operation};
use lockkeeper_zookeeper::Client;

use super::SERVER;
use crate::support::Bench;
use crate::support::waist::{entry, line, queue};

const HEX_DIGITS: usize = 32;

async fn children(operator: &Client, path: &str) -> Vec<String> {
    operator.get_children(path).await.expect("the node is there").0
}

/// Whether a name is `_c_<uuid>-`, this mark and a sequence number.
fn is_curators(name: &str, mark: &str) -> bool {
    let rest = name.strip_prefix("_c_").and_then(|name| name.get(36..));
    rest.and_then(|rest| rest.strip_prefix('-')).and_then(|rest| rest.strip_prefix(mark)).is_some_and(is_sequence)
}

/// Whether a name is a ticket's digits, this mark and a sequence number.
fn is_kazoos(name: &str, mark: &str) -> bool {
    let (digits, rest) = name.split_at(HEX_DIGITS);
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    is_hex && rest.strip_prefix(mark).is_some_and(is_sequence)
}

fn is_sequence(digits: &str) -> bool {
    digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[tokio::test]
async fn a_semaphores_nodes_are_those_of_kazoos_semaphore_in_its_layout() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.neighbouring_waist("?layout=kazoo").await;
    let operator = bench.operator().await;
    let (waiters, permits) = (queue("pool", Part::Waiters), queue("pool", Part::Permits));
    let (_, waiting) = ann.take(&waiters, Mode::Acquire).await;
    let (ticket, held) = ann.take(&permits, Mode::Permit).await;
    assert!(is_kazoos(waiting.id.as_str(), "__lock__"));
    assert_eq!(children(&operator, "/lockkeeper/pool-__lock__").await, [waiting.id.as_str()]);
    assert_eq!(held.id.as_str(), ticket.to_string());
    assert_eq!(children(&operator, "/lockkeeper/pool").await, [held.id.as_str()]);
    assert!(held.view.elsewhere.is_none() && waiting.view.elsewhere.is_none());
    assert_eq!(ann.view(&line("pool")).await.elsewhere, Some(Mode::Permit));
    let shown: Vec<_> =
        ann.backend.admin().inspect(&line("pool")).await.unwrap().into_iter().map(|info| info.mode).collect();
    assert_eq!(shown, [Mode::Permit, Mode::Acquire]);
    let names: Vec<_> = ann.backend.admin().queues("").await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["pool"]);
    ann.leave(&permits, ticket).await;
    let (_, lock) = ann.take(&line("pool"), Mode::Mutex).await;
    assert_eq!(ann.view(&permits).await.elsewhere, Some(Mode::Exclusive), "a lock where permits lie");
    assert_eq!(ann.view(&waiters).await.elsewhere, Some(Mode::Exclusive));
    assert!(is_kazoos(lock.id.as_str(), "__lock__"));
}

#[tokio::test]
async fn empty_containers_of_a_semaphore_are_no_mismatch_and_no_junk_and_no_name() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.neighbouring_waist("").await;
    for part in [Part::Waiters, Part::Permits] {
        let (ticket, _) = ann.take(&queue("pool", part), Mode::Permit).await;
        ann.leave(&queue("pool", part), ticket).await;
    }
    assert!(ann.backend.admin().queues("").await.unwrap().is_empty());
    let (_, lock) = ann.take(&line("pool"), Mode::Mutex).await;
    assert_eq!((lock.view.elsewhere, lock.view.contenders.len()), (None, 1));
    assert_eq!(ann.backend.admin().queues("").await.unwrap().len(), 1);
}

/// What clients asked for, in requests that looks are made of.
fn lists(bench: &Bench) -> u64 {
    bench.proxy.count(Direction::ToServer, Operation::GET_CHILDREN)
}

#[tokio::test]
async fn other_kinds_are_looked_for_only_where_they_can_be() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.waist("").await;
    let (ticket, _) = ann.take(&line("door"), Mode::Mutex).await;
    bench.proxy.forget();
    ann.view(&line("door")).await;
    assert_eq!(lists(&bench), 1, "a line without parts is listed alone");
    bench.proxy.forget();
    let (permit, _) = ann.take(&queue("pool", Part::Permits), Mode::Permit).await;
    assert_eq!(lists(&bench), 2, "the lock's own node is listed along with the permits");
    bench.proxy.forget();
    assert_eq!(ann.view(&line("pool")).await.elsewhere, Some(Mode::Permit));
    assert_eq!(lists(&bench), 2, "a line that shows permits is looked into");
    ann.leave(&queue("pool", Part::Permits), permit).await;
    ann.leave(&line("door"), ticket).await;
}

#[tokio::test]
async fn several_places_are_one_transaction_and_one_list_and_their_tokens_are_its_own() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let ann = bench.waist("?session_timeout=30s").await;
    let permits = queue("pool", Part::Permits);
    ann.take(&permits, Mode::Permit).await;
    bench.proxy.forget();
    let entries: Vec<_> = (0..3).map(|_| entry(Mode::Permit)).collect();
    let joined = soon("the places", ann.session.enqueue(&permits, entries)).await.unwrap();
    assert_eq!(bench.proxy.count(Direction::ToServer, Operation::CREATE2), 0);
    assert_eq!(lists(&bench), 2);
    let operator = bench.operator().await;
    let shown = ann.backend.admin().inspect(&permits).await.unwrap();
    for (turn, one) in (0..).zip(&joined) {
        let stat = operator.exists(&format!("/lockkeeper/pool/leases/{}", one.id)).await.unwrap().unwrap();
        assert_eq!((one.token.as_u64(), one.token.turn()), (u64::try_from(stat.czxid).unwrap(), turn));
        let info = shown.iter().find(|info| info.id == one.id).unwrap();
        assert_eq!(info.token, Some(one.token), "onlookers see the same token");
    }
}

/// The nodes stay those of Curator's mutex and of its read/write lock, which do not see each other; ours do, on names
/// that are ours alone.
#[tokio::test]
async fn a_mutex_and_the_read_write_lock_of_its_name_are_one_lock_on_our_names_and_two_kinds_on_shared_paths() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    let (ann, bob) = (bench.party("").keeper, bench.party("").keeper);
    let operator = bench.operator().await;
    // A path directly below the base is one of our names, however it is written.
    for (one, other) in [("door", "door"), ("/lockkeeper/door", "door"), ("door", "/lockkeeper/door")] {
        let guard = soon("the grant", ann.mutex(one).unwrap().lock()).await.unwrap();
        let nodes = children(&operator, "/lockkeeper/door").await;
        assert!(nodes.len() == 1 && is_curators(&nodes[0], "lock-"), "{nodes:?}");
        let rw_lock = bob.rw_lock(other).unwrap();
        assert!(soon("the answer", rw_lock.try_read()).await.unwrap().is_none());
        assert!(soon("the answer", rw_lock.try_write()).await.unwrap().is_none());
        let waiting = tokio::spawn(async move { rw_lock.write().await });
        soon("the writer's place", async {
            while ann.contenders(other).await.unwrap().len() < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        guard.release().await.unwrap();
        let writing = soon("the grant", waiting).await.unwrap().unwrap();
        let nodes = children(&operator, "/lockkeeper/door").await;
        assert!(nodes.len() == 1 && is_curators(&nodes[0], "__WRIT__"), "{nodes:?}");
        assert!(soon("the answer", ann.mutex(one).unwrap().try_lock()).await.unwrap().is_none());
        writing.release().await.unwrap();
    }
    for shared in ["/fleet/door", "/lockkeeper/deeper/door"] {
        let guard = soon("the grant", ann.mutex(shared).unwrap().lock()).await.unwrap();
        let rw_lock = bob.rw_lock(shared).unwrap();
        for error in [
            soon("the refusal", rw_lock.read()).await.unwrap_err(),
            soon("the refusal", rw_lock.write()).await.unwrap_err(),
        ] {
            assert_eq!((error.kind(), error.advice()), (ErrorKind::KindMismatch, Advice::Permanent), "{error}");
        }
        guard.release().await.unwrap();
        let reading = soon("the grant", rw_lock.read()).await.unwrap();
        let error = soon("the refusal", ann.mutex(shared).unwrap().lock()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KindMismatch, "{error}");
        // The same owner is told the same: the two are not one lock here.
        let owner = lockkeeper_recipes::OwnerKey::new();
        let own = soon("the grant", owner.read(&ann.rw_lock(shared).unwrap())).await.unwrap();
        let error = soon("the refusal", owner.lock(&ann.mutex(shared).unwrap())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KindMismatch, "{error}");
        drop(own);
        reading.release().await.unwrap();
    }
}

/// An election that is laid out as a mutex is a mutex to all others; in any other layout it is another kind.
#[tokio::test]
async fn an_election_stands_in_line_with_mutexes_only_where_it_is_laid_out_as_one() {
    let Some(bench) = Bench::start(SERVER).await else { return };
    for (settings, is_one_lock) in [("?election=latch", false), ("?election=selector", true), ("?election=kazoo", true)]
    {
        let (ann, bob) = (bench.party(settings).keeper, bench.party(settings).keeper);
        let guard = soon("the grant", ann.mutex("leader").unwrap().lock()).await.unwrap();
        let campaign = soon("the answer", bob.election("leader").unwrap().campaign_within(Wait::No)).await;
        match (is_one_lock, campaign) {
            (true, Ok(None)) => {}
            (false, Err(error)) => assert_eq!(error.kind(), ErrorKind::KindMismatch, "{settings}: {error}"),
            (_, campaign) => panic!("{settings}: {campaign:?}"),
        }
        guard.release().await.unwrap();
    }
}
