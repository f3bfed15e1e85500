//! A server that is cut off from its peers, and not from its clients, in network namespaces.
//!
//! It goes on answering its clients' pings for a while, and the ensemble ends their sessions meanwhile: a rule that
//! takes an answered ping or a recent write for a proof lets two clients hold a lock. In each round a holder of the
//! library and a bare one are clients of the same server, which is cut off right after an acknowledged write of the
//! bare one; a rival for each lock waits on the other side. What other rules believe on the bare holder's exchanges
//! proves that the test can see two holders. The three tests judge the same rounds, which are played once.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lockkeeper_conformance::Random;
use lockkeeper_core::LossReason;
use lockkeeper_faults::namespaces::Network;
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use lockkeeper_faults::{Result, long};
use lockkeeper_trials::{Contest, Ends, Outcome, Rival, Span, Tally, none_of, now, rounds, span};
use tokio::time::sleep;

use crate::TICK;
use crate::bare::{Bare, Rule, SESSION_TIMEOUT};
use crate::service::ZOOKEEPER;

/// How many rounds the long run has. In a tenth of them the follower and the leader are cut off after each kind of
/// traffic.
const ROUNDS: u32 = 60;

/// How many ensembles are partitioned at the same time, each in a separate network.
const AT_ONCE: u32 = 3;

const SETTINGS: &str = "session_timeout=5s&tick=500ms";

/// How long a holder that goes on after a stall has for what it sends then.
const AFTER_STALL: Duration = Duration::from_millis(50);

/// By how much each rule's belief in the bare holder outlasted the grant to its rival; negative if it had ended before.
type Overlaps = [Option<Span>; Rule::ALL.len()];

#[derive(Debug)]
struct Report {
    library: Tally,
    bare: Vec<Overlaps>,
}

impl Report {
    /// In how many rounds a rule would have let two hold at once, and its worst overlap.
    fn shared(&self, rule: Rule) -> (usize, Span) {
        let overlaps = || self.bare.iter().filter_map(|overlaps| overlaps[rule as usize]);
        (overlaps().filter(|overlap| *overlap > 0.0).count(), overlaps().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// The rounds, which the first that asks plays.
fn report(random: Random) -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        let bare = Mutex::new(Vec::new());
        let library = rounds::play(ROUNDS, AT_ONCE, random, async |number, mut random| {
            let (outcome, overlaps) = play(number, &mut random).await.expect("the ensemble serves");
            bare.lock().expect("no panic").push(overlaps);
            vec![outcome]
        });
        let report = Report { library, bare: bare.into_inner().expect("no panic") };
        let rules = Rule::ALL.map(|rule| {
            let (shared, worst) = report.shared(rule);
            format!("; {rule:?}: {shared} double holds, worst overlap {worst:+.2} s")
        });
        report.library.tell("faults: holders cut off with their server", &rules.concat());
        report
    })
}

/// The library's hold ended before the rival was granted the lock, each time, and by what the holder reckoned: one that
/// is cut off is told of nothing.
pub(crate) fn library_never_shared(random: Random) -> std::result::Result<(), String> {
    let tally = &report(random).library;
    tally.check(long::rounds(ROUNDS))?;
    let early = |outcome: &&Outcome| outcome.last_held.is_none_or(|held| held < outcome.struck_at);
    none_of(tally.outcomes.iter().filter(early), "a hold did not stand until the cut")?;
    let told = |outcome: &&Outcome| outcome.ended_by != Some(LossReason::Lapsed);
    none_of(tally.outcomes.iter().filter(told), "a hold ended by what it was told")
}

/// Every naive rule would have let two hold at once, in some round: the test can see it.
pub(crate) fn naive_rules_shared(random: Random) -> std::result::Result<(), String> {
    let report = report(random);
    match Rule::NAIVE.into_iter().find(|rule| report.shared(*rule).0 == 0) {
        Some(rule) => Err(format!("no double hold was seen under {rule:?}: {report:?}")),
        None => Ok(()),
    }
}

/// The anchor, on the same exchanges, would not.
pub(crate) fn anchor_never_shared(random: Random) -> std::result::Result<(), String> {
    let report = report(random);
    match report.shared(Rule::Anchor) {
        (0, _) => Ok(()),
        (shared, worst) => Err(format!("the anchor outlasted {shared} grants, by {worst:.2} s at most")),
    }
}

/// Plays a round on an ensemble that ends with it.
async fn play(number: u32, random: &mut Random) -> Result<(Outcome, Overlaps)> {
    let (is_stalled, is_leader) = (number % 2 == 1, number / 2 % 2 == 1);
    let network = Arc::new(Network::new(3)?);
    let ensemble = Ensemble::start_in(&network, Setup::new().tick(TICK)).await?;
    let (leader, mut others) = (ensemble.leader().await?, ensemble.addresses());
    let victim = if is_leader { leader } else { (leader + 1) % others.len() };
    let server = others.remove(victim);
    let mut contest = Contest::between(&ZOOKEEPER, (&[server], SETTINGS), (&others, SETTINGS), "/library").await;
    let mut bare = Bare::start(server, "/bare").await;
    let queueing = Rival::queue_up(&ZOOKEEPER, &others, SETTINGS, "/bare");
    let mut rival = bare.serve_until(queueing).await.expect("its server serves");
    if is_stalled {
        bare.prove().await;
        sleep(part(random, 10, 15)).await;
        contest.holder.pause();
        sleep(part(random, 35, 45)).await;
        contest.holder.resume();
        sleep(AFTER_STALL).await;
    } else {
        bare.serve_until(sleep(part(random, 70, 110))).await.expect("its server serves");
    }
    bare.prove().await;
    let struck_at = now();
    let cutting = tokio::task::spawn_blocking(move || network.isolate(victim).map(|()| network));
    let _network = cutting.await.expect("no panic")?;

    let believed = bare.believed.clone();
    let what =
        format!("{} cut off after {}", ["a follower", "the leader"][usize::from(is_leader)], traffic(is_stalled));
    let ending = async {
        tokio::join!(contest.end(&what, struck_at, Ends::ByItself), async {
            let granted = rival.granted().await;
            let (granted_at, believed) = (granted.at, *believed.lock().expect("no panic"));
            rival.end(granted).await;
            believed.map(|until| Some(span(granted_at, until?)))
        })
    };
    tokio::pin!(ending);
    // Pings go on while the server answers.
    match bare.serve_until(&mut ending).await {
        Some(ended) => Ok(ended),
        None => Ok(ending.await),
    }
}

fn traffic(is_stalled: bool) -> &'static str {
    if is_stalled { "a stall" } else { "nothing but pings" }
}

/// A random part of the session timeout, from `least` to `most` per cent of it.
fn part(random: &mut Random, least: u64, most: u64) -> Duration {
    SESSION_TIMEOUT.mul_f64((least + random.below(most - least + 1)) as f64 / 100.0)
}
