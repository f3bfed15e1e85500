//! State that all parts of one session share: its lease, its present connection, what is believed, and its lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use lockkeeper_core::Operation;
use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Beginning, Bug, Effect, Failure, FailureKind, Life, Link as _, Lookable as _, Mutex, Server};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::layout::Layout;
use crate::proto::{Compare, RequestOp, TxnRequest};
use crate::rpc::{Answer, Call, Connection, txn};
use crate::session::belief::{Belief, Timing};
use crate::session::lanes::Lanes;
use crate::session::link::{Epoch, Link, header};
use crate::url::{Config, Site};

/// What the parts of a session share. Holding it does not keep the session alive.
pub(crate) struct Core {
    pub(crate) config: Arc<Config>,
    pub(crate) layout: Layout,
    pub(crate) lease: i64,
    pub(crate) timing: Timing,
    pub(crate) life: Arc<Life<Link>>,
    pub(super) belief: Mutex<Belief>,
    epoch: Mutex<Epoch>,
    /// The greatest revision that a quorum has answered with.
    revision: AtomicI64,
    pub(crate) lanes: Arc<Lanes>,
    /// How many contenders of the session stand in queues, or are about to.
    dependents: AtomicUsize,
    /// Wakes the renewal when there is a first dependent.
    pub(super) entered: Notify,
}

/// What was granted to a session.
pub(super) struct Granted {
    pub(super) lease: i64,
    pub(super) timeout: Duration,
    pub(super) belief: Belief,
    pub(super) safe_until: BootInstant,
}

impl Core {
    pub(super) fn new(site: &Site, granted: Granted, runtime: Handle) -> Self {
        let Site { config, layout, clock, testing } = site.clone();
        let Granted { lease, timeout, belief, safe_until } = granted;
        let (timing, asked) = (Timing { timeout }, config.session_timeout());
        let beginning = Beginning {
            session: lease.to_string(),
            testing,
            timeout,
            safe_until,
            notice: timing.notice(),
            worth_granting: timing.worth_granting(),
            operation_timeout: config.operation_timeout,
        };
        Self {
            config,
            layout,
            lease,
            timing,
            lanes: Lanes::new(runtime.clone()),
            life: Arc::new(Life::new(clock, runtime, beginning).asked_for(asked)),
            belief: Mutex::new(belief),
            epoch: Mutex::new(Epoch { offset: 0, written: 0 }),
            revision: AtomicI64::new(0),
            dependents: AtomicUsize::new(0),
            entered: Notify::new(),
        }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        *self.epoch.lock()
    }

    pub(crate) fn set_epoch(&self, epoch: Epoch) {
        *self.epoch.lock() = epoch;
    }

    /// Notes a revision with which a quorum has answered. `false` if it is less than one before: then the service's
    /// data went back.
    pub(super) fn note_revision(&self, revision: i64) -> bool {
        self.revision.fetch_max(revision, Ordering::SeqCst) <= revision
    }

    pub(super) fn greatest_revision(&self) -> i64 {
        self.revision.load(Ordering::SeqCst)
    }

    /// Begins to note revisions anew from this one.
    pub(super) fn begin_revisions_at(&self, revision: i64) {
        self.revision.store(revision, Ordering::SeqCst);
    }

    /// Notes a contender that depends on the session.
    pub(crate) fn depend(&self) {
        if self.dependents.fetch_add(1, Ordering::SeqCst) == 0 {
            self.entered.notify_one();
        }
    }

    pub(crate) fn remove_dependent(&self) {
        self.dependents.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn has_dependents(&self) -> bool {
        self.dependents.load(Ordering::SeqCst) > 0
    }

    /// Waits until this connection is not in use any more, but not beyond the deadline.
    pub(crate) async fn until_other(&self, link: &Link, deadline: BootInstant) {
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

    /// Opens another connection, for the session alone.
    pub(super) async fn connect(&self, server: &Server, deadline: BootInstant) -> Result<Connection, Failure> {
        Connection::open(server, &self.config.access, &self.life.clock, deadline).await
    }

    /// Makes a request that goes through the quorum, so that its answer proves the session too.
    pub(crate) async fn ask<C: Call<Answer: Answer>>(
        &self,
        link: &Link,
        request: C,
        operation: Operation,
        deadline: BootInstant,
    ) -> Result<C::Answer, Failure> {
        let witness = self.belief.lock().witness(link.number);
        let answer = self.send(link, request, operation, deadline).await?;
        let header = header(&answer)?;
        self.note_revision(header.revision);
        let proven = self.belief.lock().prove(witness, header.raft_term);
        if let Some(safe_until) = proven.filter(|_| !link.connection.is_over()) {
            self.life.believe(safe_until);
        }
        Ok(answer)
    }

    /// Makes a request that proves nothing: one that the member answers by itself.
    pub(crate) async fn send<C: Call>(
        &self,
        link: &Link,
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

/// Whether a failure ends the use of its connection.
fn needs_another(failure: &Failure) -> bool {
    failure.kind == FailureKind::Broken || failure.effect == Effect::Unknown
}
