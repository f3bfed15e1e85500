//! A fleet that mixes real Curator, real kazoo and ours counts one file up on one path, hundreds of grants long.
//!
//! Which clients must be told of which: Curator and ours understand each other as they are. kazoo needs the keyword
//! `extra_lock_patterns=["-lock-"]`, unless all of ours use kazoo's layout. Curator and kazoo in one queue need the
//! keyword and a lock driver of Curator's that knows kazoo's names.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_conformance::{Party, soon};
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Kind, Peer, curator, kazoo};
use lockkeeper_recipes::Keeper;
use tempfile::TempDir;

use crate::support::server::can_run;
use crate::support::{Bench, Make};

/// The lock that all share: a name that starts with a slash is a node's path.
const PATH: &str = "/fleet/counter";

/// How often each takes the lock.
const ROUNDS: u32 = 80;

/// What the file says at first. It is written over in place, so its number of digits stays.
const FIRST: u32 = 1_000;

/// How many of each kind take part.
const OF_EACH: usize = 2;

const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the counting may take: there are no long waits in it, but a slow machine.
const COUNTING_TIME_MAX: Duration = Duration::from_secs(300);

/// A bench, and the file that is counted up.
struct Fleet {
    bench: Bench,
    folder: TempDir,
    curators: Vec<Peer>,
    kazoos: Vec<Peer>,
}

/// The clients that take part beside ours.
struct Others {
    curator: Option<Kind>,
    kazoo: Option<Kind>,
}

impl Others {
    fn availability(&self) -> Availability {
        let present = || Availability::Present;
        let curator = if self.curator.is_some() { curator::availability } else { present };
        let kazoo = if self.kazoo.is_some() { kazoo::availability } else { present };
        curator().and(kazoo)
    }
}

impl Fleet {
    /// None if the test is skipped.
    async fn start(others: &Others) -> Option<Self> {
        if !can_run(others.availability()) {
            return None;
        }
        let bench = Bench::start(Make::Apache).await?;
        let address = bench.servers();
        let (mut curators, mut kazoos) = (Vec::new(), Vec::new());
        for _ in 0..OF_EACH {
            if others.curator.is_some() {
                curators.push(curator::start(&address, PEER_SESSION_TIMEOUT).await.unwrap());
            }
            if others.kazoo.is_some() {
                kazoos.push(kazoo::start(&address, PEER_SESSION_TIMEOUT).await.unwrap());
            }
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("counter"), FIRST.to_string()).unwrap();
        Some(Self { bench, folder, curators, kazoos })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("counter")
    }

    /// Has all clients count at once; returns what the file says then, and what it should say.
    async fn count(&mut self, others: &Others, settings: &str) -> (u32, u32) {
        let file = self.file();
        let parties: Vec<Party> = (0..OF_EACH).map(|_| self.bench.neighbour(settings)).collect();
        let newest = Arc::new(AtomicU64::new(0));
        let ours: Vec<_> = parties
            .iter()
            .map(|party| tokio::spawn(count(party.keeper.clone(), file.clone(), newest.clone())))
            .collect();
        let contenders = ours.len() + self.curators.len() + self.kazoos.len();
        let curators = self.curators.drain(..).map(|peer| (peer, others.curator));
        let kazoos = self.kazoos.drain(..).map(|peer| (peer, others.kazoo));
        let theirs: Vec<_> =
            curators.chain(kazoos).map(|(peer, kind)| tokio::spawn(count_by(peer, kind, file.clone()))).collect();
        for task in ours.into_iter().chain(theirs) {
            tokio::time::timeout(COUNTING_TIME_MAX, task).await.expect("in time").expect("no panic");
        }
        for party in &parties {
            assert_eq!(party.keeper.contenders(PATH).await.unwrap().len(), 0);
        }
        (read(&file) - FIRST, u32::try_from(contenders).unwrap() * ROUNDS)
    }
}

async fn count_by(mut peer: Peer, kind: Option<Kind>, file: PathBuf) {
    let kind = kind.expect("who takes part has a kind");
    peer.count(kind, PATH, &file, ROUNDS, COUNTING_TIME_MAX).await.unwrap();
}

/// Counts the file up under our lock, in a way that two at once lose an increment. Our tokens grow from grant to grant,
/// with any holders in between.
async fn count(keeper: Keeper, file: PathBuf, newest: Arc<AtomicU64>) {
    let mutex = keeper.mutex(PATH).unwrap();
    for _ in 0..ROUNDS {
        let guard = mutex.lock().await.unwrap();
        let before = read(&file);
        let token = guard.fencing_token().as_u64();
        assert!(newest.swap(token, Ordering::SeqCst) < token);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(guard.hold().is_held());
        write(&file, before + 1);
        guard.release().await.unwrap();
    }
}

fn read(file: &Path) -> u32 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

fn write(file: &Path, number: u32) {
    // Not truncated: a client that does not wait for us must not find it empty.
    let mut file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.write_all(number.to_string().as_bytes()).unwrap();
}

async fn assert_all_is_counted(others: Others, settings: &str) {
    let Some(mut fleet) = Fleet::start(&others).await else { return };
    let (counted, expected) = fleet.count(&others, settings).await;
    eprintln!("{counted} of {expected} were counted");
    assert_eq!(counted, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_as_it_comes_counts_with_ours() {
    let others = Others { curator: Some(Kind::Mutex), kazoo: None };
    assert_all_is_counted(others, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_with_its_keyword_counts_with_ours() {
    let others = Others { curator: None, kazoo: Some(Kind::MixedMutex) };
    assert_all_is_counted(others, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_and_kazoo_told_of_each_other_count_with_ours() {
    let others = Others { curator: Some(Kind::MixedMutex), kazoo: Some(Kind::MixedMutex) };
    assert_all_is_counted(others, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoo_as_it_comes_counts_with_ours_in_its_layout() {
    let others = Others { curator: None, kazoo: Some(Kind::Mutex) };
    assert_all_is_counted(others, "?layout=kazoo").await;
}

/// What the tests above would see if exclusion failed: kazoo without its keyword does not wait for names like
/// Curator's.
#[tokio::test(flavor = "multi_thread")]
async fn kazoo_without_its_keyword_does_not_wait_for_ours_and_the_file_shows_it() {
    let others = Others { curator: None, kazoo: Some(Kind::Mutex) };
    let Some(mut fleet) = Fleet::start(&others).await else { return };
    let (counted, expected) = fleet.count(&others, "").await;
    eprintln!("{counted} of {expected} were counted");
    assert!(counted < expected, "{counted} of {expected}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_see_the_same_queue_in_the_same_order() {
    let others = Others { curator: Some(Kind::MixedMutex), kazoo: Some(Kind::MixedMutex) };
    let Some(mut fleet) = Fleet::start(&others).await else { return };
    let party = fleet.bench.neighbour("");
    let mutex = party.keeper.mutex(PATH).unwrap();
    let kind = Kind::MixedMutex;
    let [first, looking_curator] = &mut fleet.curators[..] else { panic!("two of each") };
    let [second, looking_kazoo] = &mut fleet.kazoos[..] else { panic!("two of each") };
    assert!(first.try_lock(kind, PATH).await.unwrap());
    let names = async |count: usize| {
        let look = async || {
            let contenders = party.keeper.contenders(PATH).await.unwrap();
            let names = contenders.iter().map(|contender| contender.id.to_string()).collect::<Vec<_>>();
            (names.len() == count).then_some(names)
        };
        lockkeeper_faults::wait::until("the queue's length", COUNTING_TIME_MAX, look).await.unwrap()
    };
    names(1).await;
    let ours = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await }
    });
    names(2).await;
    let (granted_to_kazoo, ()) = tokio::join!(second.lock(kind, PATH, COUNTING_TIME_MAX), async {
        let seen = names(3).await;
        assert_eq!(looking_curator.participants(kind, PATH).await.unwrap(), seen);
        assert_eq!(looking_kazoo.participants(kind, PATH).await.unwrap(), seen);
        assert!(mutex.try_lock().await.unwrap().is_none());
        first.release(kind, PATH).await.unwrap();
        let guard = soon("our grant", ours).await.unwrap().unwrap();
        assert_eq!(guard.hold().contender().as_str(), seen[1]);
        assert_eq!(names(2).await, seen[1..]);
        guard.release().await.unwrap();
    });
    assert_eq!(granted_to_kazoo, Ok(true));
    second.release(kind, PATH).await.unwrap();
    names(0).await;
}
