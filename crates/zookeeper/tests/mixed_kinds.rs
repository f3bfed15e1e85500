//! Mixed fleets of every kind of lock: real Curator, kazoo and go-zookeeper take turns with ours, for thousands of
//! grants, on a ground where two that must not meet are certainly seen.
//!
//! Which pairs exclude each other, and what each must be told, is the table of `docs/mixed-fleets.md`; `mixed_pairs.rs`
//! tries it pair by pair.

mod support;

use std::time::Duration;

use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, curator, go, kazoo};
use lockkeeper_faults::zookeeper::{self, Server, Setup};
use lockkeeper_recipes::{Keeper, Permits};
use support::{Party, until};

const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the turns may take: there are no long waits in them, but a slow machine.
const TURNS_TIME_MAX: Duration = Duration::from_secs(120);

/// A name that starts with a slash is a node's path.
const PATH: &str = "/fleet/lock";

/// The count that says how many permits there are.
const COUNT: &str = "/fleet/permits";

/// How many contenders of each client there are, and how often each takes the lock.
type Turns = (u32, u32);

/// One of a peer's sessions, and what it contends for.
struct Theirs {
    peer: Peer,
    kind: Kind,
}

/// What ours contend for.
#[derive(Clone, Debug)]
enum Ours {
    Mutex,
    Read,
    Write,
    Semaphore(Permits),
}

async fn fleet(test: &str, needed: &[fn() -> Availability]) -> Option<(Server, Ground)> {
    let availability = needed.iter().fold(zookeeper::availability(), |all, one| all.and(one));
    if !availability.or_skip(test) {
        return None;
    }
    Some((Server::standalone(Setup::new()).await.unwrap(), Ground::new().unwrap()))
}

async fn curators(server: &Server, kind: Kind) -> Theirs {
    Theirs { peer: curator::start(&server.address().to_string(), PEER_SESSION_TIMEOUT).await.unwrap(), kind }
}

async fn kazoos(server: &Server, kind: Kind) -> Theirs {
    Theirs { peer: kazoo::start(&server.address().to_string(), PEER_SESSION_TIMEOUT).await.unwrap(), kind }
}

async fn gos(server: &Server) -> Theirs {
    Theirs { peer: go::start(&server.address().to_string(), PEER_SESSION_TIMEOUT).await.unwrap(), kind: Kind::Mutex }
}

/// Has all contenders take their turns at once; returns the most that any of them met inside.
async fn take_turns(
    ground: &Ground,
    path: &'static str,
    theirs: Vec<Theirs>,
    ours: Vec<(Keeper, Ours)>,
    turns: Turns,
) -> usize {
    let (contenders, rounds) = turns;
    let mut tasks = tokio::task::JoinSet::new();
    for Theirs { mut peer, kind } in theirs {
        let ground = ground.clone();
        tasks.spawn(async move { peer.take_turns(kind, path, &ground, turns, TURNS_TIME_MAX).await.unwrap() });
    }
    for (number, (keeper, kind)) in ours.into_iter().enumerate() {
        for contender in 0..contenders {
            let (keeper, kind, ground) = (keeper.clone(), kind.clone(), ground.clone());
            let who = format!("{number}-{contender}");
            tasks.spawn(async move {
                let mut most = 0;
                for _ in 0..rounds {
                    most = most.max(visit(&keeper, path, &kind, &ground, &who).await);
                }
                most
            });
        }
    }
    let mut most = 0;
    while let Some(met) = tokio::time::timeout(TURNS_TIME_MAX, tasks.join_next()).await.expect("in time") {
        most = most.max(met.expect("no panic"));
    }
    assert_eq!(ground.faults().unwrap(), [""; 0], "none met inside");
    assert_eq!(ground.inside().unwrap(), [""; 0]);
    most
}

/// One turn of ours.
async fn visit(keeper: &Keeper, path: &str, ours: &Ours, ground: &Ground, who: &str) -> usize {
    match ours {
        Ours::Mutex => {
            let guard = keeper.mutex(path).unwrap().lock().await.unwrap();
            let met = ground.visit(Mode::Write, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Write => {
            let guard = keeper.rw_lock(path).unwrap().write().await.unwrap();
            let met = ground.visit(Mode::Write, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Read => {
            let guard = keeper.rw_lock(path).unwrap().read().await.unwrap();
            let met = ground.visit(Mode::Read, who, guard.hold().contender().as_str()).await.unwrap();
            guard.release().await.unwrap();
            met
        }
        Ours::Semaphore(permits) => {
            let permit = keeper.semaphore(path, permits.clone()).unwrap().acquire().await.unwrap();
            let met = ground.visit(Mode::Permit, who, permit.hold().contender().as_str()).await.unwrap();
            permit.release().await.unwrap();
            met
        }
    }
}

fn ours(server: &Server, settings: &str, kinds: &[Ours]) -> Vec<(Keeper, Ours)> {
    kinds.iter().map(|kind| (Party::new(server.address(), settings).keeper, kind.clone())).collect()
}

/// Every writer has counted the number up by one, and every grant was written down.
fn expect_grants(ground: &Ground, writers: u64, others: u64) {
    assert_eq!(ground.number().unwrap(), writers);
    assert_eq!(ground.grants().unwrap().len() as u64, writers + others);
}

/// No node of any client is left in the queue.
async fn expect_nothing_left(server: &Server, path: &str) {
    until("no contender is left", async || server.ephemerals_under(path).await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_go_zookeeper_and_ours_share_a_mutex_as_they_come() {
    let test = "curator_go_zookeeper_and_ours_share_a_mutex_as_they_come";
    let Some((server, ground)) = fleet(test, &[curator::availability, go::availability]).await else { return };
    let theirs = vec![curators(&server, Kind::Mutex).await, gos(&server).await];
    let ours = ours(&server, "", &[Ours::Mutex, Ours::Mutex]);
    // Four clients with four contenders each.
    let most = take_turns(&ground, PATH, theirs, ours, (4, 100)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 100, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_go_zookeeper_kazoo_with_curators_names_and_ours_share_a_mutex() {
    let test = "curator_go_zookeeper_kazoo_with_curators_names_and_ours_share_a_mutex";
    let needed: [fn() -> Availability; 3] = [curator::availability, go::availability, kazoo::availability];
    let Some((server, ground)) = fleet(test, &needed).await else { return };
    let theirs =
        vec![curators(&server, Kind::Mutex).await, gos(&server).await, kazoos(&server, Kind::CuratorNamedMutex).await];
    let ours = ours(&server, "", &[Ours::Mutex]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 125)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 125, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_told_of_each_other_share_a_mutex_with_ours_in_either_layout() {
    let test = "curator_and_kazoo_told_of_each_other_share_a_mutex_with_ours_in_either_layout";
    let Some((server, ground)) = fleet(test, &[curator::availability, kazoo::availability]).await else { return };
    let theirs = vec![curators(&server, Kind::MixedMutex).await, kazoos(&server, Kind::MixedMutex).await];
    let mut everybody = ours(&server, "", &[Ours::Mutex]);
    everybody.extend(ours(&server, "?layout=kazoo", &[Ours::Mutex]));
    let most = take_turns(&ground, PATH, theirs, everybody, (4, 75)).await;
    assert_eq!(most, 1);
    expect_grants(&ground, 4 * 4 * 75, 0);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_a_read_write_lock() {
    let test = "curator_and_ours_share_a_read_write_lock";
    let Some((server, ground)) = fleet(test, &[curator::availability]).await else { return };
    let theirs = vec![curators(&server, Kind::Read).await, curators(&server, Kind::Write).await];
    let ours = ours(&server, "", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 80)).await;
    expect_grants(&ground, 2 * 3 * 80, 2 * 3 * 80);
    assert_eq!(ground.overtaken().unwrap(), []);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_told_of_our_names_and_ours_share_a_read_write_lock() {
    let test = "kazoo_told_of_our_names_and_ours_share_a_read_write_lock";
    let Some((server, ground)) = fleet(test, &[kazoo::availability]).await else { return };
    let theirs = vec![kazoos(&server, Kind::MixedRead).await, kazoos(&server, Kind::MixedWrite).await];
    let ours = ours(&server, "", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 60)).await;
    expect_grants(&ground, 2 * 3 * 60, 2 * 3 * 60);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_as_it_comes_and_ours_in_its_layout_share_a_read_write_lock() {
    let test = "kazoo_as_it_comes_and_ours_in_its_layout_share_a_read_write_lock";
    let Some((server, ground)) = fleet(test, &[kazoo::availability]).await else { return };
    let theirs = vec![kazoos(&server, Kind::Read).await, kazoos(&server, Kind::Write).await];
    let ours = ours(&server, "?layout=kazoo", &[Ours::Read, Ours::Write]);
    take_turns(&ground, PATH, theirs, ours, (3, 60)).await;
    expect_grants(&ground, 2 * 3 * 60, 2 * 3 * 60);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_the_permits_of_a_semaphore() {
    let test = "curator_and_ours_share_the_permits_of_a_semaphore";
    let Some((server, _)) = fleet(test, &[curator::availability]).await else { return };
    // Long enough inside that all permits are in use at times.
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let theirs = vec![curators(&server, Kind::Semaphore { permits: 3 }).await];
    let ours = ours(&server, "", &[Ours::Semaphore(Permits::Fixed(3)), Ours::Semaphore(Permits::Fixed(3))]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 40)).await;
    assert_eq!(most, 3, "so many at once, and never more");
    expect_grants(&ground, 0, 3 * 4 * 40);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_ours_share_permits_whose_number_a_shared_count_says() {
    let test = "curator_and_ours_share_permits_whose_number_a_shared_count_says";
    let Some((server, _)) = fleet(test, &[curator::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let mut theirs = curators(&server, Kind::SharedSemaphore { count: COUNT }).await;
    theirs.peer.set_shared_count(COUNT, 2).await.unwrap();
    let ours = ours(&server, "", &[Ours::Semaphore(Permits::Counter(COUNT.to_owned()))]);
    let most = take_turns(&ground, PATH, vec![theirs], ours, (4, 30)).await;
    assert_eq!(most, 2, "so many at once, and never more");
    expect_grants(&ground, 0, 2 * 4 * 30);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_semaphore_mutex_is_our_semaphore_of_one_permit() {
    let test = "curators_semaphore_mutex_is_our_semaphore_of_one_permit";
    let Some((server, ground)) = fleet(test, &[curator::availability]).await else { return };
    let theirs = vec![curators(&server, Kind::SemaphoreMutex).await];
    let ours = ours(&server, "", &[Ours::Semaphore(Permits::Fixed(1))]);
    // A peer visits the ground as its kind does: Curator's semaphore mutex as a writer, our permit as a permit.
    let most = take_turns(&ground, PATH, theirs, ours, (4, 60)).await;
    assert_eq!(most, 1);
    expect_nothing_left(&server, PATH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_semaphore_and_ours_in_its_layout_share_permits() {
    let test = "kazoos_semaphore_and_ours_in_its_layout_share_permits";
    let Some((server, _)) = fleet(test, &[kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(25)).unwrap();
    let theirs = vec![kazoos(&server, Kind::Semaphore { permits: 3 }).await];
    let ours = ours(&server, "?layout=kazoo", &[Ours::Semaphore(Permits::Fixed(3))]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 40)).await;
    assert_eq!(most, 3, "so many at once, and never more");
    expect_grants(&ground, 0, 2 * 4 * 40);
    expect_nothing_left(&server, PATH).await;
}

/// In a queue that readers and writers join by turns, no two readers need ever meet; so readers alone must.
#[tokio::test(flavor = "multi_thread")]
async fn curators_readers_kazoos_and_ours_share() {
    let test = "curators_readers_kazoos_and_ours_share";
    let Some((server, _)) = fleet(test, &[curator::availability, kazoo::availability]).await else { return };
    let ground = Ground::with_stay(Duration::from_millis(20)).unwrap();
    let theirs = vec![curators(&server, Kind::Read).await, kazoos(&server, Kind::MixedRead).await];
    let ours = ours(&server, "", &[Ours::Read]);
    let most = take_turns(&ground, PATH, theirs, ours, (4, 20)).await;
    assert!(most > 4, "readers of different clients meet, not {most} at most");
    expect_grants(&ground, 0, 3 * 4 * 20);
}

/// The proof that the ground tells: contenders on two paths are no fleet.
#[tokio::test(flavor = "multi_thread")]
async fn contenders_that_share_no_lock_are_seen_to_meet() {
    let test = "contenders_that_share_no_lock_are_seen_to_meet";
    let Some((server, ground)) = fleet(test, &[]).await else { return };
    let mut tasks = tokio::task::JoinSet::new();
    for (who, path) in ["/one", "/two"].into_iter().enumerate() {
        let (keeper, ground) = (Party::new(server.address(), "").keeper, ground.clone());
        tasks.spawn(async move {
            for _ in 0..50 {
                visit(&keeper, path, &Ours::Mutex, &ground, &who.to_string()).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    assert_ne!(ground.faults().unwrap(), [""; 0]);
}
