//! Services: sentinels that replace the master, a cluster whose slots move, copies on replicas, and numbered databases.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Advice, Backend, ErrorKind, Session, Ticket};
use lockkeeper_faults::redis::{Cluster, Sentinels, Server, Setup};
use lockkeeper_faults::{redis, wait};
use lockkeeper_recipes::{Keeper, MutexGuard};
use lockkeeper_trials::waist::{door, entry, session, ticket, tickets};

use crate::{backend, open};

fn keeper_of(url: &str) -> Keeper {
    Keeper::new(Arc::new(open(url)))
}

async fn lock(keeper: &Keeper) -> MutexGuard {
    let lock = keeper.mutex("door").expect("a name");
    soon("the lock", async { lock.lock().await.expect("the lock is granted") }).await
}

#[tokio::test]
async fn a_lock_is_taken_before_and_after_a_failover_with_growing_tokens() {
    if !redis::availability().or_skip_here() {
        return;
    }
    let service = Sentinels::start(1).await.expect("sentinels");
    let hosts: Vec<_> = service.addresses().iter().map(ToString::to_string).collect();
    let keeper = keeper_of(&format!("redis+sentinel://{}/{}?session_timeout=4s", hosts.join(","), Sentinels::MASTER));
    let before = lock(&keeper).await;
    let token = before.fencing_token();
    service.failover().await.expect("a failover");
    soon("the release", before.release()).await.ok();
    let after = lock(&keeper).await;
    assert!(after.fencing_token() > token, "{} after {token}", after.fencing_token());
    soon("the release", after.release()).await.expect("it is given back");
}

#[tokio::test]
async fn all_clients_meet_at_the_first_server_that_is_a_master() {
    let Some(first) = Server::standalone_or_skip().await else { return };
    let second = Server::standalone().await.expect("a server");
    let url = format!("redis://{},{}", first.address(), second.address());
    let backend = open(&url);
    for _ in 0..3 {
        let session = session(&backend).await;
        soon("the end", session.close()).await.expect("the end");
    }
    assert_eq!(second.ask::<u64>(&["DBSIZE"]).await.expect("a look"), 0, "no client has used the second one");
}

#[tokio::test]
async fn a_lock_in_a_cluster_goes_on_when_its_slot_moves() {
    if !redis::availability().or_skip_here() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
    let owner = cluster.owner(slot).await.expect("it is served");
    let replicas = [cluster.replica_of(0).await.expect("a replica"), cluster.replica_of(1).await.expect("another")];
    let addresses = cluster.addresses().into_iter().chain(replicas.iter().map(|replica| replica.address()));
    let keepers: Vec<_> =
        addresses.map(|address| keeper_of(&format!("redis://{address}?session_timeout=20s"))).collect();
    let mut token = None;
    for keeper in &keepers {
        let guard = lock(keeper).await;
        assert_eq!(soon("a look", keeper.contenders("door")).await.expect("a look").len(), 1);
        assert!(token < Some(guard.fencing_token()));
        token = Some(guard.fencing_token());
        soon("the release", guard.release()).await.expect("it is given back");
    }
    let held = lock(&keepers[0]).await;
    cluster.move_slot(slot, (owner + 1) % 3).await.expect("the slot moves");
    let found = async || {
        let contenders = keepers[1].contenders("door").await.ok()?;
        (contenders.len() == 1).then_some(())
    };
    wait::until("a look at the new place", SOON, found).await.expect("it is found");
    assert!(held.hold().is_held(), "the hold goes on");
    soon("the release", held.release()).await.expect("it is given back");
    for keeper in &keepers {
        let guard = lock(keeper).await;
        soon("the release", guard.release()).await.expect("it is given back");
    }
}

/// For how long a slot stays between two servers: more than a waiter's pauses, and less than a session is believed.
const BETWEEN: Duration = Duration::from_secs(2);

/// How many calls the servers may refuse in that time for each client: one that tries again without a pause would be
/// refused thousands of times.
const REFUSED_MAX: u64 = 60;

/// How many calls all servers have refused.
async fn refused(cluster: &Cluster) -> u64 {
    let mut refused = 0;
    for server in cluster.servers() {
        refused += server.info("total_error_replies").await.expect("it tells").parse::<u64>().expect("a number");
    }
    refused
}

/// Which keys have moved by then: what scripts then meet differs. The last: none, so that only new ones are elsewhere.
const MOVED_FIRST: [fn(&[u8]) -> bool; 3] = [|key| key != BASE_KEY, |key| key == BASE_KEY, |_| false];

const BASE_KEY: &[u8] = b"{lockkeeper}";

#[tokio::test]
async fn while_a_slot_is_between_two_servers_holders_hold_on_and_callers_wait_until_it_has_moved() {
    if !redis::availability().or_skip_here() {
        return;
    }
    for moves in MOVED_FIRST {
        let cluster = Cluster::start().await.expect("a cluster");
        let slot = cluster.slot_of("{lockkeeper}").await.expect("a slot");
        let to = (cluster.owner(slot).await.expect("it is served") + 1) % 3;
        let hosts: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
        let keepers: Vec<_> =
            (0..2).map(|_| keeper_of(&format!("redis://{}?session_timeout=20s", hosts.join(",")))).collect();
        // Each has its session.
        for keeper in &keepers {
            soon("the release", lock(keeper).await.release()).await.expect("it is given back");
        }
        let held = lock(&keepers[0]).await;
        let joining = backend(cluster.addresses()[0], "?session_timeout=20s");
        let joining = session(&joining).await;
        let waiting = keepers[1].mutex("door").expect("a name");
        let waiting = tokio::spawn(async move { waiting.lock().await });
        let joined = async || (keepers[0].contenders("door").await.ok()?.len() == 2).then_some(());
        wait::until("the second contender", SOON, joined).await.expect("it waits");
        cluster.begin_to_move_slot(slot, to, moves).await.expect("some keys move");
        let refused_before = refused(&cluster).await;
        let late = ticket();
        let join = tokio::spawn(joining.enqueue_one(&door(), entry(late)));
        tokio::time::sleep(BETWEEN).await;
        let refused_by_then = refused(&cluster).await - refused_before;
        assert!((1..=REFUSED_MAX * 3).contains(&refused_by_then), "{refused_by_then} calls were refused");
        assert!(held.hold().is_held(), "the hold goes on");
        assert!(!waiting.is_finished() && !join.is_finished(), "neither is granted the lock, or a place, or fails");
        cluster.move_slot(slot, to).await.expect("the slot moves");
        soon("the release", held.release()).await.expect("it is given back");
        let next = soon("the next grant", waiting).await.expect("a task").expect("the lock is granted");
        soon("the release", next.release()).await.expect("it is given back");
        soon("a place", join).await.expect("a task").expect("a place");
        soon("the end", joining.close()).await.expect("the end");
        for keeper in &keepers {
            soon("the end", keeper.close()).await.expect("the end");
        }
    }
}

/// A replica has a tenth of the session timeout to have its copy.
const COPIES: &str = "?replicas=1&session_timeout=10s";

/// Long enough for one on a busy machine.
const PATIENT_COPIES: &str = "?replicas=1&session_timeout=40s";

/// Waits until the master counts its replica: until then it asks it for nothing.
async fn until_heard_of(master: &Server) {
    let is_heard_of = async || {
        let replica = master.info("slave0").await.ok()?;
        (replica.contains("state=online") && replica.contains("lag=0")).then_some(())
    };
    wait::until("the replica is heard of", SOON, is_heard_of).await.expect("it is heard of");
}

/// Joins until a place is given: a machine that stands still for as long as copies are waited for has none.
async fn placed(session: &dyn Session, ticket: Ticket) {
    let place = async || match session.enqueue_one(&door(), entry(ticket)).await {
        Err(refused) if refused.advice() == Advice::Transient => None,
        answer => Some(answer.expect("a place")),
    };
    wait::until("a place", SOON, place).await.expect("a place");
}

#[tokio::test]
async fn a_join_counts_once_a_replica_has_it_and_is_taken_back_where_none_has() {
    let Some(master) = Server::standalone_or_skip().await else { return };
    let mut replica = Setup::new().replica_of(&master).start().await.expect("a server");
    soon("the replica", until_heard_of(&master)).await;
    let backend = backend(master.address(), PATIENT_COPIES);
    let ours = session(&backend).await;
    let copied = ticket();
    placed(&*ours, copied).await;
    let found: u64 = replica.ask(&["EXISTS", &format!("{{lockkeeper}}:c:{copied}")]).await.expect("a look");
    assert_eq!(found, 1, "the replica has it by then");
    replica.pause().expect("it runs");
    let refused = soon("the refusal", ours.enqueue_one(&door(), entry(ticket()))).await.expect_err("no copy");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{refused}");
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");
    assert_eq!(tickets(&*ours).await, [Some(copied)], "what has no copy does not stay");
    replica.resume().expect("it runs");
    placed(&*ours, ticket()).await;
    assert!(ours.bond().liveness().is_held());
    soon("the end", ours.close()).await.expect("the end");
}

#[tokio::test]
async fn a_session_that_asks_for_copies_is_refused_where_no_replica_is() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let refused = soon("the refusal", backend(server.address(), COPIES).session()).await.expect_err("no replica");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::ConnectionLost, Advice::Transient), "{refused}");
    assert!(refused.to_string().contains("0 of the 1 replicas"), "{refused}");
}

#[tokio::test]
async fn locks_of_two_databases_do_not_meet() {
    let Some(server) = Server::standalone_or_skip().await else { return };
    let [first, third, same] = ["", "/3", "/3"].map(|database| backend(server.address(), database));
    let (of_first, of_third, of_same) = (session(&first).await, session(&third).await, session(&same).await);
    let [one, other, behind] = [ticket(), ticket(), ticket()];
    soon("a place", of_first.enqueue_one(&door(), entry(one))).await.expect("a place");
    soon("a place", of_third.enqueue_one(&door(), entry(other))).await.expect("a place");
    soon("a place", of_same.enqueue_one(&door(), entry(behind))).await.expect("a place");
    assert_eq!(tickets(&*of_first).await, [Some(one)]);
    assert_eq!(tickets(&*of_third).await, [Some(other), Some(behind)]);
    server.ask::<String>(&["FLUSHDB"]).await.expect("the first one is emptied");
    assert_eq!(tickets(&*of_same).await, [Some(other), Some(behind)]);
    for session in [of_third, of_same] {
        soon("the end", session.close()).await.expect("the end");
    }
}

#[tokio::test]
async fn a_cluster_has_no_other_database_and_says_so_in_one_line() {
    if !redis::availability().or_skip_here() {
        return;
    }
    let cluster = Cluster::start().await.expect("a cluster");
    let refused = soon("the refusal", backend(cluster.addresses()[0], "/3").session()).await.expect_err("a cluster");
    assert_eq!((refused.kind(), refused.advice()), (ErrorKind::InvalidConfig, Advice::Permanent), "{refused:#}");
    let told = format!("{refused:#}");
    assert!(told.contains("the database 3 cannot be used") && !told.contains('\n'), "{told}");
}
