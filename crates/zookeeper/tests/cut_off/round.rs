//! One round: two holders on one server, a rival for each lock on the others, the cut, and what each of them believed.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::soon;
use lockkeeper_core::LossReason;
use lockkeeper_core::clock::{BootInstant, Clock, SystemClock};
use lockkeeper_faults::Result;
use lockkeeper_faults::namespaces::Network;
use lockkeeper_faults::zookeeper::{Ensemble, Setup};
use lockkeeper_recipes::Hold;

use crate::bare::BareHolder;
use crate::holder::Holder;
use crate::ledger::{Ledger, Rule, now};
use crate::plan::{Round, TICK, Victim};
use crate::rival::Rival;

/// What happened in one round.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) round: Round,
    /// How long after the last acknowledged write of each the server was cut off: the library's, then the bare
    /// holder's.
    pub(crate) cut_after: [Duration; 2],
    /// Why the library's hold ended.
    pub(crate) ended_by: LossReason,
    /// Whether the library's hold still stood when the rival was granted its lock.
    pub(crate) is_shared: bool,
    /// How long before the rival's grant the library's hold had ended.
    pub(crate) margin: Span,
    library: Overlaps,
    bare: Overlaps,
}

/// Whose exchanges a rule is applied to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    Library,
    Bare,
}

impl Outcome {
    /// By how much a rule's belief in a holder's session outlasted the grant of its lock to the rival; negative if it
    /// had ended before, none if there never was one.
    pub(crate) fn overlap(&self, whose: Whose, rule: Rule) -> Option<Span> {
        match whose {
            Whose::Library => self.library[rule as usize],
            Whose::Bare => self.bare[rule as usize],
        }
    }

    /// Whether a rule's belief outlasted the grant: two would have held at once.
    pub(crate) fn shares(&self, whose: Whose, rule: Rule) -> bool {
        self.overlap(whose, rule).is_some_and(|overlap| overlap > 0.0)
    }
}

/// A span of time with a sign, in seconds.
pub(crate) type Span = f64;

/// The overlap under each rule; none if it never believed in the session.
type Overlaps = [Option<Span>; Rule::ALL.len()];

/// An ensemble in a network that can be cut.
pub(crate) struct Stage {
    network: Arc<Network>,
    ensemble: Ensemble,
}

impl Stage {
    pub(crate) async fn start() -> Result<Self> {
        let network = Arc::new(Network::new(3)?);
        // Without these a server that comes back waits for seconds before it takes part.
        let setup = Setup::new()
            .tick(TICK)
            .property("zookeeper.fastleader.maxNotificationInterval", "500")
            .property("zookeeper.cnxTimeout", "1000");
        let ensemble = Ensemble::start_in(&network, setup).await?;
        Ok(Self { network, ensemble })
    }

    /// Plays one round, and has all servers serve again.
    pub(crate) async fn play(&mut self, mut round: Round) -> Result<Outcome> {
        let (victim, others) = self.cast(&mut round).await?;
        let server = self.ensemble.servers()[victim].address();
        let (queue, bare_queue) = (format!("/library-{}", round.name()), format!("/bare-{}", round.name()));
        let (holder, bare) =
            tokio::join!(Holder::start(server, &queue, &round), BareHolder::start(server, &bare_queue, &round));
        let (hold, ledger, bare_ledger) = (holder.hold.clone(), holder.ledger.clone(), bare.ledger.clone());
        let rival = Rival::new(&others);
        let granted = rival.contend(&queue, look(hold.clone(), ledger.clone()));
        let bare_granted = rival.contend(&bare_queue, judge(bare_ledger.clone()));
        rival.queued(2).await;
        let ended = tokio::spawn(watch(hold.clone()));

        let moment = now().saturating_add(round.prelude);
        let (running, bare) = (holder.begin(moment), bare.begin(moment));
        let sent_at = soon("a write of the library", written(&ledger, moment)).await;
        let bare = bare.now().await;
        SystemClock.sleep_until(now().saturating_add(round.cut_after)).await;
        assert!(hold.is_held(), "{round}: the hold stands until the cut");
        let bare_sent_at = *bare_ledger.acknowledged().borrow();
        self.cut(victim).await?;
        let cut_at = now();

        let (is_shared, granted_at, library) = soon("the grant", granted).await.expect("no panic");
        let bare_overlaps = soon("the bare grant", bare_granted).await.expect("no panic");
        let (ended_at, ended_by) = soon("the end of the hold", ended).await.expect("no panic");
        self.network.heal(victim)?;
        drop(bare);
        tokio::join!(running.end(), rival.close());
        self.ensemble.serving().await?;
        let cut_after =
            [sent_at, bare_sent_at.expect("it was acknowledged")].map(|at| cut_at.saturating_duration_since(at));
        let margin = span(ended_at, granted_at);
        Ok(Outcome { round, cut_after, ended_by, is_shared, margin, library, bare: bare_overlaps })
    }

    /// Chooses the server to be cut off, and how the others are reached.
    async fn cast(&self, round: &mut Round) -> Result<(usize, String)> {
        let leader = self.ensemble.leader().await?;
        let count = self.ensemble.servers().len();
        let victim = match round.victim {
            Victim::Leader => leader,
            Victim::Follower => (leader + 1 + round.random.below(count as u64 - 1) as usize) % count,
        };
        let others = self.ensemble.servers().iter().enumerate().filter(|(index, _)| *index != victim);
        let others: Vec<_> = others.map(|(_, server)| server.address().to_string()).collect();
        Ok((victim, others.join(",")))
    }

    /// Cuts a server off; the sockets of this thread are served meanwhile.
    async fn cut(&self, victim: usize) -> Result<()> {
        let network = self.network.clone();
        tokio::task::spawn_blocking(move || network.isolate(victim)).await.expect("no panic")
    }
}

/// What the rival sees of the library's holder when it is granted the lock.
fn look(hold: Hold, ledger: Ledger) -> impl FnOnce(BootInstant) -> (bool, BootInstant, Overlaps) {
    move |granted_at| (hold.is_held(), granted_at, judge(ledger)(granted_at))
}

/// What each rule believes of a session when the rival is granted the lock.
fn judge(ledger: Ledger) -> impl FnOnce(BootInstant) -> Overlaps {
    move |granted_at| Rule::ALL.map(|rule| ledger.believed_until(rule).map(|until| span(granted_at, until)))
}

/// Waits until the hold is lost: when that was seen, which is not earlier than when it was so, and why.
async fn watch(hold: Hold) -> (BootInstant, LossReason) {
    let reason = hold.lost().await;
    assert!(!hold.is_held());
    (now(), reason)
}

/// Waits until a write is acknowledged that was sent at `moment` or later, and tells when it was sent.
async fn written(ledger: &Ledger, moment: BootInstant) -> BootInstant {
    let mut acknowledged = ledger.acknowledged();
    let sent_at = acknowledged.wait_for(|sent_at| sent_at.is_some_and(|sent_at| sent_at >= moment)).await;
    sent_at.expect("the ledger lives").expect("waited for")
}

/// The time from `from` to `to`, negative if `to` is earlier.
fn span(from: BootInstant, to: BootInstant) -> Span {
    (to.as_nanos() as f64 - from.as_nanos() as f64) / 1e9
}
