//! A leader that stands still while another one is elected, and then goes on.
//!
//! It takes itself for the leader for a moment, and answers keepalives with the full time though its successor hears
//! nothing of them: who believes in that holds on while the next is granted the lock. In each round some bare holders
//! send one keepalive to it just before it goes on. Two rules judge the same exchanges: the simple one, a timeout from
//! the sending of a keepalive that was answered, and ours. The long run must see double holds under the simple one. In
//! the short run that hangs on chance, and a rule that believes a little longer stands for it.
//!
//! Both releases have a fault beside this: such a leader may revoke leases that its successor has renewed. So a holder
//! of the library, which goes on at another member, is told that its session has ended, and that is counted.
//!
//! A bare holder is one without the library: a lease and a leased key at one member, asked by its gateway, and an
//! account of what was exchanged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lockkeeper_conformance::Random;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_core::{FencingToken, LossReason, Severity};
use lockkeeper_faults::etcd::{Cluster, Release, Server};
use lockkeeper_faults::long;
use lockkeeper_trials::{Contest, Ends, Outcome, Rival, Span, none_of, now, span};
use serde_json::{Value, json};

use crate::belief::{LeaseBelief, MemberTerm, Renewal};
use crate::service::ETCD;
use crate::{findings, on_both_releases};

const ROUNDS: u32 = 20;

/// How much longer than the simple rule the one believes by which the short run must see double holds.
const LONGER: Span = 1.0;

const BARE_HOLDERS: usize = 6;

/// The bare holders' timeout: more than the standstill, or else the leader that goes on knows that it is over.
const BARE_TIMEOUT: Duration = Duration::from_secs(8);

/// The rivals' timeout: so long that the leader which goes on takes no session of theirs for over.
const RIVAL: &str = "session_timeout=20s";

/// The holder's: less than the standstill.
const HOLDER: &str = "session_timeout=5s";

/// How long the leader stands still: longer than that of the library's session, so that this leader takes it for over.
const STANDSTILL: Duration = Duration::from_millis(6_500);

/// How long before its end at most a bare holder sends its keepalive.
const SENT_BEFORE_MAX_MS: u64 = 400;

/// How long after it goes on a leader revokes what it takes for over, on a busy machine too.
const REVOKED_WITHIN: Span = 5.0;

/// What a bare holder has shown.
struct Planted {
    /// By how much the simple rule's belief outlasted the grant to the rival; negative if it had ended before.
    overlap: Span,
}

pub(crate) fn play(random: Random) -> Result<(), String> {
    let (shared, rounds) = (&AtomicU32::new(0), &AtomicU32::new(0));
    let worst = &std::sync::Mutex::new(f64::NEG_INFINITY);
    let tally = on_both_releases(ROUNDS, random, |release, share, mut random| async move {
        let mut cluster = Cluster::start(release, 3).await.expect("a cluster");
        let found = findings(&cluster.addresses(), RIVAL).await;
        let is_told = found.iter().any(|finding| {
            finding.severity == Severity::Warning && finding.to_string().contains("revoke a lease that was renewed")
        });
        assert!(is_told, "both releases have the fault: {found:?}");
        let mut outcomes = Vec::new();
        for round in 0..share {
            let (played, planted) = play_round(&mut cluster, release, round, &mut random).await;
            let doubles = planted.iter().filter(|planted| planted.overlap > 0.0).count();
            shared.fetch_add(doubles as u32, Ordering::SeqCst);
            let overlaps: Vec<_> = planted.iter().map(|planted| format!("{:+.2}", planted.overlap)).collect();
            println!("{release:?}, round {round}: the simple rule outlasted the grants by {}", overlaps.join(" "));
            let worst_of_round = planted.iter().map(|planted| planted.overlap).fold(f64::NEG_INFINITY, f64::max);
            let mut worst = worst.lock().expect("no panic");
            *worst = worst.max(worst_of_round);
            drop(worst);
            outcomes.extend(played);
            rounds.fetch_add(1, Ordering::SeqCst);
        }
        outcomes
    });
    let (doubles, worst) = (shared.load(Ordering::SeqCst), *worst.lock().expect("no panic"));
    let revoked = tally.outcomes.iter().filter(|outcome| outcome.ended_by == Some(LossReason::Expired)).count();
    let of_library = rounds.load(Ordering::SeqCst);
    tally.tell(
        "faults: leaders stopped and continued",
        &format!(
            "; send time + TTL on the same exchanges: {doubles} double holds, worst overlap {worst:.2} s; {revoked} of \
             {of_library} renewed leases revoked by the server, their holders told"
        ),
    );
    judge(&tally.outcomes)?;
    let is_seen = if long::is_asked_for() { doubles > 0 } else { worst > -LONGER };
    if !is_seen {
        return Err("no double hold was seen under the planted rule".to_owned());
    }
    tally.check_tokens()?;
    if of_library < long::rounds(ROUNDS) { Err(format!("only {of_library} rounds were played")) } else { Ok(()) }
}

/// Ours shares nothing by itself. What the server's fault revokes is told at once, and happens as the leader goes on.
fn judge(outcomes: &[Outcome]) -> Result<(), String> {
    let is_fault = |outcome: &Outcome| {
        let after = span(outcome.struck_at, outcome.granted_at);
        outcome.ended_by == Some(LossReason::Expired) && (0.0..REVOKED_WITHIN).contains(&after)
    };
    none_of(outcomes.iter().filter(|outcome| outcome.is_shared() && !is_fault(outcome)), "two held at once")
}

async fn play_round(
    cluster: &mut Cluster,
    release: Release,
    round: u32,
    random: &mut Random,
) -> (Vec<Outcome>, Vec<Planted>) {
    let addresses = cluster.addresses();
    let leader = cluster.leader().await.expect("a leader");
    let others: Vec<_> = addresses.iter().copied().filter(|address| *address != addresses[leader]).collect();
    let lock = |who: usize| format!("{release:?}-{round}-bare-{who}");
    let contest =
        Contest::between(&ETCD, (&addresses, HOLDER), (&others, RIVAL), &format!("{release:?}-{round}-library")).await;
    let mut bares = Vec::new();
    for who in 0..BARE_HOLDERS {
        let bare = Bare::start(addresses[leader], BARE_TIMEOUT, &lock(who)).await;
        bares.push((bare, Rival::queue_up(&ETCD, &others, RIVAL, &lock(who)).await));
    }
    for (bare, _) in &mut bares {
        bare.renew().await;
    }
    cluster.server_mut(leader).pause().expect("it runs");
    let goes_on_at = now().saturating_add(STANDSTILL);
    let mut renewing = Vec::new();
    for (bare, rival) in bares {
        let before = Duration::from_millis(1 + random.below(SENT_BEFORE_MAX_MS));
        renewing.push((tokio::spawn(bare.renew_at(goes_on_at.saturating_sub(before))), rival));
    }
    SystemClock.sleep_until(goes_on_at).await;
    let resumed_at = now();
    cluster.server_mut(leader).resume().expect("it runs");
    // Long enough for what the leader does by mistake.
    SystemClock.sleep_until(resumed_at.saturating_add(Duration::from_secs(1))).await;
    let mut outcomes = vec![contest.end("the leader stood still", resumed_at, Ends::WhenGivenBack).await];
    let mut planted = Vec::new();
    for (who, (renewing, mut rival)) in renewing.into_iter().enumerate() {
        let granted = rival.granted().await;
        let bare = renewing.await.expect("no panic");
        planted.push(Planted { overlap: span(granted.at, bare.renewed_until) });
        outcomes.push(Outcome {
            what: format!("{}: the leader stood still, a bare holder", lock(who)),
            struck_at: resumed_at,
            token: bare.token,
            last_held: bare.belief.safe_until(),
            ended_by: Some(LossReason::Lapsed),
            next_token: granted.token(),
            granted_at: granted.at,
        });
        rival.end(granted).await;
    }
    cluster.serving().await.expect("all serve");
    (outcomes, planted)
}

/// A holder whose key stands first in the queue.
struct Bare {
    member: SocketAddr,
    lease: String,
    key: String,
    token: FencingToken,
    belief: LeaseBelief,
    /// Until when it is believed by the simple rule: a timeout from the sending of a keepalive that was answered.
    renewed_until: BootInstant,
}

impl Bare {
    /// Makes a lease at a member, and with it the key of a contender for a mutex.
    async fn start(member: SocketAddr, timeout: Duration, lock: &str) -> Self {
        let sent_at = now();
        let granted = ask(member, "/v3/lease/grant", json!({ "TTL": timeout.as_secs().to_string() })).await;
        let lease = granted["ID"].as_str().expect("a lease").to_owned();
        let belief = LeaseBelief::new(renewal(sent_at, &granted["header"]), timeout);
        let number = lease.parse::<i64>().expect("a number");
        let key = format!("/lockkeeper/q/{lock}/l/m/00000000/{number:016x}-00000000.0000");
        let put = json!({ "key": encoded(&key), "value": encoded("{}"), "lease": lease });
        let stored = ask(member, "/v3/kv/put", put).await;
        let revision = stored["header"]["revision"].as_str().and_then(|revision| revision.parse().ok());
        let token = FencingToken::new(revision.expect("a number"), 0).expect("it is small");
        let renewed_until = sent_at.saturating_add(timeout);
        let mut bare = Self { member, lease, key, token, belief, renewed_until };
        bare.renew().await;
        bare
    }

    /// Renews the lease, and asks for its key behind the answer; a member that stands still answers when it goes on.
    /// A call that fails proves nothing.
    async fn renew(&mut self) {
        let sent_at = now();
        let request = json!({ "ID": self.lease }).to_string();
        let Ok(answer) = Server::ask(self.member, "/v3/lease/keepalive", &request).await else {
            return;
        };
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let Some(seconds) = answer["result"]["TTL"].as_str().and_then(|ttl| ttl.parse().ok()) else {
            return;
        };
        let timeout = Duration::from_secs(seconds);
        self.belief.renewed(renewal(sent_at, &answer["result"]["header"]), timeout);
        self.renewed_until = self.renewed_until.max(sent_at.saturating_add(timeout));
        let witness = self.belief.witness();
        let request = json!({ "key": encoded(&self.key), "keys_only": true }).to_string();
        if let Ok(answer) = Server::ask(self.member, "/v3/kv/range", &request).await {
            let answer: Value = serde_json::from_str(&answer).expect("JSON");
            self.belief.prove(witness, member_term(&answer["header"]));
        }
    }

    /// Renews once at this moment, and no more: then it is cut off.
    async fn renew_at(mut self, moment: BootInstant) -> Self {
        SystemClock.sleep_until(moment).await;
        self.renew().await;
        self
    }
}

async fn ask(member: SocketAddr, path: &str, request: Value) -> Value {
    let answer = Server::ask(member, path, &request.to_string()).await.expect("the member serves");
    serde_json::from_str(&answer).expect("JSON")
}

fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn renewal(sent_at: BootInstant, header: &Value) -> Renewal {
    Renewal { sent_at, by: member_term(header) }
}

fn member_term(header: &Value) -> MemberTerm {
    let number = |name: &str| header[name].as_str().and_then(|number| number.parse().ok()).expect(name);
    MemberTerm { cluster: number("cluster_id"), member: number("member_id"), term: number("raft_term") }
}
