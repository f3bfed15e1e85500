//! The keeping of a session: its lease is granted, renewed and proven over one connection, the session is taken over to
//! the next one, and ended.
//!
//! Each renewal is proven by a read that goes through the quorum. A member whose leader stands still answers no renewal
//! for seconds, even when the others have elected another leader. Its connection may still be of use for all else, so
//! the lease is renewed over another member before the connection is given up.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Liveness, LossReason, Operation, Result};
use lockkeeper_session::{
    Effect, FIRST_CONNECTION, Failure, FailureKind, Keeping, Life, Lookable as _, Server, SessionTiming as _, in_time,
    late,
};

use crate::layout::Layout;
use crate::proto::{LeaseKeepAliveResponse, LeaseRevokeRequest, RangeRequest, TxnResponse};
use crate::rpc::{Connection, KeepAlive, KeyWatches, exists, key_range, modified_at, put, txn};
use crate::session::belief::Renewal;
use crate::session::proofs::{ProofPart, ProofTeller};
use crate::session::{Begun, Core, EtcdLink, SessionUse, TokenEpoch, first_offset, header, member_term};

/// How long a session that is closed waits for what was asked before.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

pub(super) struct Driver(pub(super) Arc<Core>);

impl Keeping for Driver {
    type Link = EtcdLink;
    type Taken = Arc<EtcdLink>;

    fn life(&self) -> &Life<EtcdLink> {
        &self.0.life
    }

    fn link(taken: &Arc<EtcdLink>) -> Arc<EtcdLink> {
        taken.clone()
    }

    /// The time of an attempt, for each member.
    fn patience(&self) -> Duration {
        let members = u32::try_from(self.0.config.servers.len()).unwrap_or(u32::MAX);
        self.0.timing.patience().saturating_mul(members)
    }

    async fn serve(&mut self, link: Arc<EtcdLink>) -> Failure {
        let core = &self.0;
        core.life.attach(link.clone());
        tokio::select! {
            biased;
            () = link.connection.over() => Failure::broken(Effect::None),
            () = link.watches.over() => Failure::broken(Effect::None),
            failure = renew_until_lost(core, &link) => failure,
        }
    }

    async fn take_over(&self, server: Server, number: u64, deadline: BootInstant) -> Result<Arc<EtcdLink>, Failure> {
        let core = &self.0;
        let deadline = deadline.min(core.life.clock.now().saturating_add(core.timing.patience()));
        restore(core, core.connect(&server, deadline).await?, number, deadline).await
    }

    async fn end(&mut self, link: &EtcdLink) -> Result<(), Failure> {
        match self.0.life.bond().liveness() {
            // Its contenders went with the lease.
            Liveness::Lost(LossReason::Expired) => return Ok(()),
            Liveness::Lost(LossReason::Closed) => self.drain(link).await,
            _ => {}
        }
        revoke(&self.0, &link.connection).await
    }

    async fn end_at(&self, server: Server, deadline: BootInstant) -> Result<(), Failure> {
        revoke(&self.0, &self.0.connect(&server, deadline).await?).await
    }
}

impl Driver {
    async fn drain(&self, link: &EtcdLink) {
        let clock = &self.0.life.clock;
        tokio::select! {
            biased;
            () = self.0.lanes.idle() => {}
            () = link.connection.over() => {}
            () = clock.sleep_until(clock.now().saturating_add(DRAIN_TIME_MAX)) => {}
        }
    }
}

async fn revoke(core: &Core, connection: &Connection) -> Result<(), Failure> {
    let deadline = core.life.clock.now().saturating_add(core.timing.patience());
    match connection.call(LeaseRevokeRequest { id: core.lease }, deadline).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.kind == FailureKind::SessionGone => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Renews until the connection fails, or the service has ended the session: then the failure's kind is
/// [`FailureKind::SessionGone`].
async fn renew_until_lost(core: &Arc<Core>, link: &EtcdLink) -> Failure {
    let mut stream = None;
    let proven_at = core.belief.lock().proven_at();
    let mut is_urged = false;
    if let Some(opened_at) = proven_at.filter(|_| link.number == FIRST_CONNECTION) {
        is_urged = until_due(core, opened_at).await;
    }
    loop {
        let sent_at = core.life.clock.now();
        let may_wait = !is_urged && may_be_proven_late(core, sent_at);
        match renew(core, link, &mut stream, (sent_at, may_wait)).await {
            Ok(()) => {
                core.life.set_trouble(None);
                core.life.proven(sent_at);
                is_urged = until_due(core, sent_at).await;
            }
            Err(failure) if failure.keeps_connection() => {
                core.life.set_trouble(Some(failure));
                // The member has ended it.
                stream = None;
                core.life.clock.sleep_until(core.life.clock.now().saturating_add(core.timing.again_interval())).await;
            }
            Err(failure) => return failure,
        }
    }
}

/// Whether the proof of a renewal that is sent now may wait for those of other sessions: the belief in this one lasts.
fn may_be_proven_late(core: &Core, now: BootInstant) -> bool {
    let believed_until = core.belief.lock().safe_until();
    believed_until.is_some_and(|until| until >= now.saturating_add(core.timing.patience()))
}

/// Waits until the renewal after one that was sent at this moment is due, or is asked for: then it returns `true`.
async fn until_due(core: &Core, sent_at: BootInstant) -> bool {
    loop {
        let interval = match core.present_use() {
            SessionUse::Holds => core.timing.holding_interval(),
            SessionUse::Waits => core.timing.waiting_interval(),
            SessionUse::Rests => core.timing.idle_interval(),
        };
        tokio::select! {
            biased;
            () = core.life.urged() => return true,
            () = core.may_hold.notified() => {}
            () = core.life.clock.sleep_until(sent_at.saturating_add(interval)) => return false,
        }
    }
}

/// Renews over this connection; and over another member too, where that takes long.
async fn renew(
    core: &Arc<Core>,
    link: &EtcdLink,
    stream: &mut Option<KeepAlive>,
    (sent_at, may_wait): (BootInstant, bool),
) -> Result<(), Failure> {
    let deadline = sent_at.saturating_add(core.timing.patience());
    let renewing = renew_over(core, link, stream, (sent_at, may_wait), deadline);
    let elsewhere = async {
        core.life.clock.sleep_until(sent_at.saturating_add(core.timing.doubt())).await;
        renew_elsewhere(core, link.connection.server(), deadline).await;
        // This connection may still be of use.
        std::future::pending().await
    };
    tokio::select! {
        biased;
        renewed = renewing => renewed,
        () = late(&*core.life.clock, deadline) => Err(Failure::late(Effect::Unknown)),
        never = elsewhere => never,
    }
}

async fn renew_over(
    core: &Core,
    link: &EtcdLink,
    stream: &mut Option<KeepAlive>,
    (sent_at, may_wait): (BootInstant, bool),
    deadline: BootInstant,
) -> Result<(), Failure> {
    let answer = match stream {
        Some(stream) => stream.renew().await?,
        None => {
            let (opened, answer) = KeepAlive::open(&link.connection, core.lease, deadline).await?;
            *stream = Some(opened);
            answer
        }
    };
    note_renewal(core, &answer, sent_at)?;
    let Some(teller) = proven_by_another(core, link, sent_at, may_wait).await else { return Ok(()) };
    let answer = core.ask(link, proof(core), Operation::Connect, deadline).await?;
    teller.tell(header(&answer)?);
    if answer.kvs.is_empty() { Err(Failure::session_gone()) } else { Ok(()) }
}

fn note_renewal(core: &Core, answer: &LeaseKeepAliveResponse, sent_at: BootInstant) -> Result<(), Failure> {
    let Ok(seconds @ 1..) = u64::try_from(answer.ttl) else { return Err(Failure::session_gone()) };
    let by = member_term(answer.header.ok_or_else(Failure::unexpected)?);
    core.belief.lock().renewed(Renewal { sent_at, by }, Duration::from_secs(seconds));
    Ok(())
}

/// Waits for another session of this process to prove the renewal that was just answered. Returns `None` once it is
/// proven. Else this session has to ask, and to tell others by what is returned. The proof of another does not show
/// that this session's key is there, but its watch tells of the end of that.
async fn proven_by_another(core: &Core, link: &EtcdLink, sent_at: BootInstant, may_wait: bool) -> Option<ProofTeller> {
    let (life, proofs, witness) = (&core.life, &link.proofs, core.belief.lock().witness());
    let is_alone = proofs.is_of_one();
    let due = async {
        if may_wait && !is_alone {
            tokio::select! {
                biased;
                () = life.urged() => {}
                () = life.clock.sleep_until(life.clock.now().saturating_add(core.timing.proof_waits())) => {}
            }
        }
    };
    let late = life.clock.sleep_until(sent_at.saturating_add(core.timing.doubt()));
    match proofs.next(due, late).await {
        ProofPart::Asks(teller) => Some(teller),
        ProofPart::Told(header) => {
            // What goes back is another service's.
            if core.note_revision(header.revision) {
                core.prove(link, witness, header);
            }
            let is_proven = core.belief.lock().has_proven(witness);
            (!is_proven).then(ProofTeller::default)
        }
    }
}

/// A request that goes through the quorum, and shows the session's key, which goes with the lease.
fn proof(core: &Core) -> RangeRequest {
    key_range(core.layout.session(core.lease))
}

/// Tries the ways to the other members in turn until one has renewed the lease, and has proven it; or until the
/// deadline.
async fn renew_elsewhere(core: &Core, silent: &Server, deadline: BootInstant) {
    let clock = &core.life.clock;
    let renewing = |way: Server, attempt_ends| async move {
        if way == *silent {
            return Err(Failure::late(Effect::None));
        }
        in_time(&**clock, attempt_ends, renew_at(core, &way, attempt_ends)).await
    };
    if let Err(failure) = core.config.finder(0, clock).round(deadline, renewing).await {
        tracing::debug!(target: "lockkeeper", %failure, "no other member has renewed the lease");
    }
}

/// Renews over one member. That the lease has ended is left to the connection in use to tell.
async fn renew_at(core: &Core, server: &Server, deadline: BootInstant) -> Result<(), Failure> {
    let connection = core.connect(server, deadline).await?;
    let sent_at = core.life.clock.now();
    let (_stream, answer) = KeepAlive::open(&connection, core.lease, deadline).await?;
    note_renewal(core, &answer, sent_at).map_err(|_| Failure::unexpected())?;
    let witness = core.belief.lock().witness();
    let answer = connection.call(proof(core), deadline).await?;
    let proven = member_term(header(&answer)?);
    if !answer.kvs.is_empty()
        && let Some(safe_until) = core.belief.lock().prove(witness, proven)
    {
        core.life.bond().note_proof(sent_at);
        core.life.believe(safe_until);
    }
    Ok(())
}

/// Writes the session's stamp anew, so that joins of older connections have no effect from then on, and opens the
/// stream of watches.
async fn restore(
    core: &Core,
    connection: Connection,
    number: u64,
    deadline: BootInstant,
) -> Result<Arc<EtcdLink>, Failure> {
    let stamping = stamp(core, &connection, number, deadline);
    let ((answer, is_stamped), watches) =
        tokio::try_join!(stamping, KeyWatches::open(&connection, core.layout.session(core.lease), deadline))?;
    if !answer.succeeded {
        return Err(Failure::session_gone());
    }
    let revision = header(&answer)?.revision;
    let epoch = answer.responses.iter().find_map(TokenEpoch::of).ok_or_else(Failure::unexpected)?;
    let known = core.epoch();
    let went_back = !core.note_revision(revision) || epoch.offset < known.offset;
    let epoch = if went_back {
        let passed = known.offset.max(epoch.offset).saturating_add(core.greatest_revision().cast_unsigned());
        let anew = begin_anew(core, &connection, (epoch, passed), deadline).await?;
        core.begin_revisions_at(revision);
        anew
    } else {
        epoch
    };
    core.set_epoch(epoch);
    let begun = Begun::new(&connection, watches, is_stamped.then_some(revision));
    Ok(EtcdLink::new(connection, number, begun))
}

/// Writes the session's key, if it is there; without room for that it only looks at it. Returns whether it was written.
async fn stamp(
    core: &Core,
    connection: &Connection,
    number: u64,
    deadline: BootInstant,
) -> Result<(TxnResponse, bool), Failure> {
    let session = core.layout.session(core.lease);
    let look = || key_range(core.layout.offset()).into();
    let write = put(session.clone(), session_data(number), core.lease);
    let stamping = txn(vec![exists(session.clone())], vec![write, look()], Vec::new());
    match connection.call(stamping, deadline).await {
        Ok(answer) => Ok((answer, true)),
        // Holders hold on, and can leave.
        Err(failure) if failure.kind == FailureKind::Full => {
            let looking = txn(vec![exists(session)], vec![look()], Vec::new());
            Ok((connection.call(looking, deadline).await?, false))
        }
        Err(failure) => Err(failure),
    }
}

/// Begins tokens anew, behind the one that this session has passed, also if the clock was set back: the service's
/// revisions, or where tokens begin, went back, as after the restoration of a snapshot, so that tokens come twice.
async fn begin_anew(
    core: &Core,
    connection: &Connection,
    (seen, passed): (TokenEpoch, u64),
    deadline: BootInstant,
) -> Result<TokenEpoch, Failure> {
    let offset = first_offset(core.life.clock.unix_time()).max(passed);
    let epoch = begin_tokens(&core.layout, connection, (offset, seen.written), deadline).await?;
    tracing::warn!(target: "lockkeeper", "etcd's revisions went back; tokens are counted anew from the clock");
    Ok(epoch)
}

/// Writes where tokens begin, unless another client has since the revision at which it was written: 0 if it never was.
pub(super) async fn begin_tokens(
    layout: &Layout,
    connection: &Connection,
    (offset, written): (u64, i64),
    deadline: BootInstant,
) -> Result<TokenEpoch, Failure> {
    let key = layout.offset();
    let look = || key_range(key.clone()).into();
    let write = put(key.clone(), offset.to_string(), 0);
    let request = txn(vec![modified_at(key.clone(), written)], vec![write, look()], vec![look()]);
    let answer = connection.call(request, deadline).await?;
    answer.responses.iter().find_map(TokenEpoch::of).ok_or_else(Failure::unexpected)
}

/// The data under the session's key, for people.
pub(super) fn session_data(connection: u64) -> String {
    let owner = lockkeeper_core::Owner::this_process();
    serde_json::json!({ "host": owner.host, "pid": owner.pid, "command": owner.command, "connection": connection })
        .to_string()
}
