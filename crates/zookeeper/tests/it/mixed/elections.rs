//! Elections that real Curator and kazoo share with ours, each in the layout of the peer.

use std::time::Duration;

use lockkeeper_conformance::{SOON, answered, soon, until};
use lockkeeper_core::Wait;
use lockkeeper_faults::Availability;
use lockkeeper_faults::peers::{Ground, Kind, Mode, Peer, curator, kazoo};
use lockkeeper_recipes::Keeper;

use crate::support::server::can_run;
use crate::support::{Bench, Make};

const PEER_SESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The session of a peer that will be killed; the least that these servers grant.
const SHORT_SESSION_TIMEOUT: Duration = Duration::from_secs(4);

/// How long the turns may take: there are no long waits in them, but a slow machine.
const TURNS_TIME_MAX: Duration = Duration::from_secs(300);

/// How long a client that is kept out must have waited: clients list and watch in a few milliseconds.
const KEPT_OUT: Duration = Duration::from_millis(300);

/// How many candidates each client has, and how often each leads.
const TURNS: (u32, u32) = (3, 20);

/// A name that starts with a slash is a node's path.
const PATH: &str = "/elections/one";

/// A peer's recipe, and the layout in which ours takes part.
#[derive(Clone, Copy, Debug)]
struct Pairing {
    kind: Kind,
    settings: &'static str,
}

const LATCH: Pairing = Pairing { kind: Kind::LeaderLatch, settings: "" };
const SELECTOR: Pairing = Pairing { kind: Kind::LeaderSelector, settings: "?election=selector" };
const KAZOO: Pairing = Pairing { kind: Kind::Election, settings: "?election=kazoo" };
const KAZOO_THROUGHOUT: Pairing = Pairing { kind: Kind::Election, settings: "?layout=kazoo" };

impl Pairing {
    /// A bench, if there are such peers too; else the test is skipped.
    async fn bench(self) -> Option<Bench> {
        if can_run(self.availability()) { Bench::start(Make::Apache).await } else { None }
    }

    fn availability(self) -> Availability {
        match self.kind {
            Kind::Election => kazoo::availability(),
            _ => curator::availability(),
        }
    }

    async fn start_peer(self, bench: &Bench, session_timeout: Duration) -> Peer {
        let address = bench.servers();
        match self.kind {
            Kind::Election => kazoo::start(&address, session_timeout).await.unwrap(),
            _ => curator::start(&address, session_timeout).await.unwrap(),
        }
    }

    fn keeper(self, bench: &Bench) -> Keeper {
        bench.neighbour(self.settings).keeper
    }
}

/// Has the peer and two of ours lead by turns, on a ground where two that lead at once are certainly seen.
async fn lead_by_turns(pairing: Pairing) {
    let Some(bench) = pairing.bench().await else { return };
    let ground = Ground::new().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    let mut peer = pairing.start_peer(&bench, PEER_SESSION_TIMEOUT).await;
    let theirs = ground.clone();
    tasks.spawn(async move {
        peer.take_turns(pairing.kind, PATH, &theirs, TURNS, TURNS_TIME_MAX).await.unwrap();
    });
    let (candidates, rounds) = TURNS;
    for number in 0..2 {
        let keeper = pairing.keeper(&bench);
        for candidate in 0..candidates {
            let (election, ground) = (keeper.election(PATH).unwrap(), ground.clone());
            tasks.spawn(async move {
                for _ in 0..rounds {
                    let leadership = election.campaign().await.unwrap();
                    let (who, node) = (format!("{number}-{candidate}"), leadership.hold().contender().as_str());
                    ground.visit(Mode::Write, &who, node).await.unwrap();
                    assert!(leadership.hold().is_held());
                    leadership.resign().await.unwrap();
                }
            });
        }
    }
    while let Some(ended) = tokio::time::timeout(TURNS_TIME_MAX, tasks.join_next()).await.expect("in time") {
        ended.expect("no panic");
    }
    assert_eq!(ground.faults().unwrap(), [""; 0], "none met inside");
    assert_eq!(ground.number().unwrap(), u64::from(3 * candidates * rounds));
    assert_eq!(ground.overtaken().unwrap(), []);
    until("no candidate is left", async || bench.ephemerals_under(PATH).await == 0).await;
}

/// Hands the lead from the peer to ours and back, and checks what ours sees of it.
async fn hand_over_both_ways(pairing: Pairing) {
    let Some(bench) = pairing.bench().await else { return };
    let (mut peer, keeper) = (pairing.start_peer(&bench, PEER_SESSION_TIMEOUT).await, pairing.keeper(&bench));
    let (election, kind) = (keeper.election(PATH).unwrap(), pairing.kind);
    let candidates = async |count: usize| {
        until("the candidates", async || election.candidates().await.unwrap().len() == count).await;
    };
    let mut changes = election.changes();
    assert_eq!(soon("no leader", changes.next()).await.unwrap(), None);

    assert!(peer.lock(kind, PATH, SOON).await.unwrap());
    let theirs = soon("their lead", changes.next()).await.unwrap().expect("one leads");
    assert_eq!(peer.node(kind, PATH).await.unwrap(), format!("{PATH}/{theirs}"));
    assert_eq!(election.leader().await.unwrap().map(|leader| leader.id), Some(theirs.clone()));
    assert!(election.campaign_within(Wait::No).await.unwrap().is_none());
    assert!(answered(async || election.campaign_within(Wait::AtMost(KEPT_OUT)).await).await.is_none());

    let (leadership, ()) = tokio::join!(election.campaign(), async {
        candidates(2).await;
        assert_eq!(election.leader().await.unwrap().map(|leader| leader.id), Some(theirs));
        peer.release(kind, PATH).await.unwrap();
    });
    let leadership = leadership.unwrap();
    let ours = leadership.hold().contender().clone();
    assert_eq!(soon("our lead", changes.next()).await.unwrap(), Some(ours.clone()));
    assert!(!peer.try_lock(kind, PATH).await.unwrap());
    assert!(!peer.lock(kind, PATH, KEPT_OUT).await.unwrap());

    let (granted, ()) = tokio::join!(peer.lock(kind, PATH, SOON), async {
        candidates(2).await;
        leadership.resign().await.unwrap();
    });
    assert!(granted.unwrap());
    assert_ne!(soon("their lead", changes.next()).await.unwrap().expect("one leads"), ours);
    peer.release(kind, PATH).await.unwrap();
    assert_eq!(soon("no leader", changes.next()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_latch_and_ours_lead_by_turns() {
    lead_by_turns(LATCH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_selector_and_ours_lead_by_turns() {
    lead_by_turns(SELECTOR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_election_and_ours_lead_by_turns() {
    lead_by_turns(KAZOO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_election_and_ours_in_its_layout_lead_by_turns() {
    lead_by_turns(KAZOO_THROUGHOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_latch_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(LATCH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_selector_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(SELECTOR).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_election_hands_the_lead_to_ours_and_back() {
    hand_over_both_ways(KAZOO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_leads_after_curators_leader_was_killed_and_curators_latch_after_ours_died() {
    let Some(bench) = LATCH.bench().await else { return };
    let mut killed = LATCH.start_peer(&bench, SHORT_SESSION_TIMEOUT).await;
    let (keeper, mut heir) = (LATCH.keeper(&bench), LATCH.start_peer(&bench, PEER_SESSION_TIMEOUT).await);
    let election = keeper.election(PATH).unwrap();
    assert!(killed.lock(Kind::LeaderLatch, PATH, SOON).await.unwrap());
    let (leadership, ()) = tokio::join!(election.campaign(), async {
        until("both", async || election.candidates().await.unwrap().len() == 2).await;
        killed.process().kill();
    });
    let leadership = leadership.unwrap();
    let (granted, ()) = tokio::join!(heir.lock(Kind::LeaderLatch, PATH, SOON), async {
        until("both", async || election.candidates().await.unwrap().len() == 2).await;
        // The session ends, and with it the lead that was never given up.
        keeper.close().await.unwrap();
    });
    assert!(granted.unwrap());
    assert!(!leadership.hold().is_held());
    heir.release(Kind::LeaderLatch, PATH).await.unwrap();
}
