//! One session: a lease that is kept alive, until when it may be believed, and the order of what is asked under it.
//!
//! Here is the state that all parts of a session share, and what a connection of it begins with.
//!
//! - `belief`: the rule, pure. `proofs`: what sessions of a process share of it. `lanes`: the order of the calls.
//! - `opening`: has the lease granted. `driver`: keeps it alive, connects again, and ends the session.
//!
//! What is stored for locks, and what is asked of them, is left to `queue`.

mod belief;
mod driver;
mod lanes;
mod opening;
mod proofs;
#[cfg(test)]
mod tests;

pub(crate) use belief::Timing;
pub(crate) use lanes::QueuedRemoval;
pub(crate) use opening::open;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Beginning, Bug, Effect, Failure, FailureKind, Life, Link as _, Lookable as _, Server};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::layout::Layout;
use crate::proto::{Compare, KeyValue, RequestOp, ResponseHeader, ResponseOp, TxnRequest};
use crate::rpc::{Connection, KeyWatches, RevisionAnswer, UnaryCall, range_of, txn};
use crate::session::belief::{LeaseBelief, MemberTerm, TermWitness};
use crate::session::lanes::Lanes;
use crate::session::proofs::SharedProofs;
use crate::url::{Config, EtcdSite};

/// The shared state of a session. It does not keep the session alive.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) layout: Layout,
    pub(crate) lease: i64,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<EtcdLink>>,
    belief: Mutex<LeaseBelief>,
    epoch: Mutex<TokenEpoch>,
    /// The greatest revision that a quorum has answered with.
    revision: AtomicI64,
    pub(crate) lanes: Arc<Lanes>,
    present_use: Mutex<SessionUse>,
    /// Wakes the renewal when a first contender may hold.
    may_hold: Notify,
}

/// What a session is used for at present, by which it is renewed more or less often.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SessionUse {
    /// One of its contenders holds a lock, or may.
    Holds,
    /// It has contenders, and all of them wait.
    Waits,
    /// It has no contender.
    Rests,
}

struct GrantedLease {
    lease: i64,
    timeout: Duration,
    belief: LeaseBelief,
    safe_until: BootInstant,
}

impl Core {
    fn new(site: &EtcdSite, granted: GrantedLease, runtime: Handle) -> Self {
        let EtcdSite { config, layout, clock, testing } = site.clone();
        let GrantedLease { lease, timeout, belief, safe_until } = granted;
        let (timing, asked) = (Timing { timeout }, config.session_timeout());
        let (session, operation_timeout) = (lease.to_string(), config.operation_timeout);
        let beginning = Beginning { session, testing, timing, safe_until, operation_timeout };
        Self {
            config,
            layout,
            lease,
            timing,
            lanes: Lanes::new(runtime.clone()),
            life: Arc::new(Life::new(clock, runtime, beginning).asked_for(asked)),
            belief: Mutex::new(belief),
            epoch: Mutex::new(TokenEpoch { offset: 0, written: 0 }),
            revision: AtomicI64::new(0),
            present_use: Mutex::new(SessionUse::Rests),
            may_hold: Notify::new(),
        }
    }

    pub(crate) fn epoch(&self) -> TokenEpoch {
        *self.epoch.lock()
    }

    pub(crate) fn set_epoch(&self, epoch: TokenEpoch) {
        *self.epoch.lock() = epoch;
    }

    /// Notes a revision with which a quorum has answered. `false` if it is less than one before: then the service's
    /// data went back.
    fn note_revision(&self, revision: i64) -> bool {
        self.revision.fetch_max(revision, Ordering::SeqCst) <= revision
    }

    fn greatest_revision(&self) -> i64 {
        self.revision.load(Ordering::SeqCst)
    }

    fn begin_revisions_at(&self, revision: i64) {
        self.revision.store(revision, Ordering::SeqCst);
    }

    /// Notes what the session is used for from now on.
    pub(crate) fn note_use(&self, present: SessionUse) {
        let before = std::mem::replace(&mut *self.present_use.lock(), present);
        if present == SessionUse::Holds && before != SessionUse::Holds {
            self.may_hold.notify_one();
        }
    }

    fn present_use(&self) -> SessionUse {
        *self.present_use.lock()
    }

    /// Waits until this connection is not in use any more, but not beyond the deadline.
    pub(crate) async fn until_other(&self, link: &EtcdLink, deadline: BootInstant) {
        tokio::select! {
            biased;
            () = self.life.until_other(link) => {}
            () = self.life.clock.sleep_until(deadline) => {}
        }
    }

    /// A change of what it is meant for, and of nothing that came after that: it may be taken in late.
    pub(crate) fn meant(
        &self,
        conditions: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> TxnRequest {
        let is_planted = self.life.testing.has(Bug::IgnoresConditions);
        txn(if is_planted { Vec::new() } else { conditions }, success, failure)
    }

    async fn connect(&self, server: &Server, deadline: BootInstant) -> Result<Connection, Failure> {
        Connection::open(server, &self.config.access, &self.life.clock, deadline).await
    }

    /// Makes a request that goes through the quorum, so that its answer proves the session too.
    pub(crate) async fn ask<C: UnaryCall<Answer: RevisionAnswer>>(
        &self,
        link: &EtcdLink,
        request: C,
        operation: Operation,
        deadline: BootInstant,
    ) -> Result<C::Answer, Failure> {
        let witness = self.belief.lock().witness();
        let answer = self.send(link, request, operation, deadline).await?;
        let header = header(&answer)?;
        self.note_revision(header.revision);
        self.prove(link, witness, header);
        Ok(answer)
    }

    /// Notes such an answer, to a request of any session that was sent behind the witness.
    fn prove(&self, link: &EtcdLink, witness: TermWitness, header: ResponseHeader) {
        let proven = self.belief.lock().prove(witness, member_term(header));
        if let Some(safe_until) = proven.filter(|_| !link.connection.is_over()) {
            self.life.believe(safe_until);
        }
    }

    /// Makes a request that proves nothing: one that the member answers by itself.
    pub(crate) async fn send<C: UnaryCall>(
        &self,
        link: &EtcdLink,
        request: C,
        operation: Operation,
        deadline: BootInstant,
    ) -> Result<C::Answer, Failure> {
        let answer = link.connection.call(request, deadline).await;
        // A request that the service may still take in must not take effect after later ones: the next connection
        // begins with a new stamp. So it is with a new token.
        if answer.as_ref().is_err_and(needs_another) {
            link.shut();
        }
        self.life.hear(link, operation, answer)
    }
}

fn needs_another(failure: &Failure) -> bool {
    failure.kind == FailureKind::Broken || failure.effect == Effect::Unknown
}

/// Where the tokens of a service begin, and when that was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TokenEpoch {
    pub(crate) offset: u64,
    pub(crate) written: i64,
}

/// A connection of a session. It is used once the session's stamp was written over it.
pub(crate) type EtcdLink = lockkeeper_session::Linked<Connection, Begun>;

pub(crate) struct Begun {
    /// The first of them is of the session's key.
    pub(crate) watches: KeyWatches,
    /// The revision at which the session's key was written when this connection began. A join names it, so that none of
    /// an older connection takes effect any more. `None` if the service had no room for that: then nothing joins.
    pub(crate) stamp: Option<i64>,
    /// What it shares with other sessions at its member.
    proofs: Arc<SharedProofs>,
}

impl Begun {
    fn new(connection: &Connection, watches: KeyWatches, stamp: Option<i64>) -> Self {
        Self { watches, stamp, proofs: SharedProofs::at(connection.server()) }
    }
}

/// How far tokens may run ahead of a service's revisions: so many revisions a millisecond leave room for a service that
/// begins anew.
const OFFSET_SHIFT: u32 = 20;

/// Where tokens begin in a service that is used from now on.
pub(crate) fn first_offset(unix_time: Duration) -> u64 {
    u64::try_from(unix_time.as_millis()).unwrap_or(u64::MAX).saturating_mul(1 << OFFSET_SHIFT)
}

/// What this header says of its answer.
fn member_term(header: ResponseHeader) -> MemberTerm {
    MemberTerm { cluster: header.cluster_id, member: header.member_id, term: header.raft_term }
}

pub(crate) fn header(answer: &impl RevisionAnswer) -> Result<ResponseHeader, Failure> {
    answer.header().ok_or_else(Failure::unexpected)
}

impl TokenEpoch {
    /// Reads the offset of tokens from the answer to a range of its key.
    pub(crate) fn of(answer: &ResponseOp) -> Option<Self> {
        Self::read(range_of(answer).ok()?.kvs.first()?)
    }

    pub(crate) fn read(kv: &KeyValue) -> Option<Self> {
        let offset = str::from_utf8(&kv.value).ok()?.parse().ok()?;
        Some(Self { offset, written: kv.mod_revision })
    }
}
