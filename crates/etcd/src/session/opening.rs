//! The opening of a session: a lease is granted, and the session's key is written under it.
//!
//! A member that has more to do than it can turns requests away. Others it answers no more after some seconds, and may
//! take them in all the same. Thousands of clients that come to it together and each begin anew then would keep it
//! busy for ever with leases that none of them uses. So the lease has a number of ours, its key is written once, and
//! both are asked for again over the same connection until the member says that they are there.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Operation, Result, randomness};
use lockkeeper_session::{
    Effect, FIRST_CONNECTION, Failure, FailureKind, Server, Unclaimed, keep, runtime_for, until_taken,
};
use tokio::runtime::Handle;

use crate::proto::{LeaseGrantRequest, LeaseRevokeRequest, ResponseHeader};
use crate::rpc::{Connection, KeepAlive, KeyWatches, absent, key_range, put, range_of, txn};
use crate::session::belief::{LeaseBelief, Renewal};
use crate::session::driver::{Driver, begin_tokens, session_data};
use crate::session::{Begun, Core, EtcdLink, GrantedLease, TokenEpoch, first_offset, header, member_term};
use crate::url::EtcdSite;

/// How long the end of a lease that is not used may take.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);

/// Opens a session at the first server that lets us, beginning with this one of the URL. Dropping the future ends what
/// it has begun.
pub(crate) async fn open(site: EtcdSite, first_server: usize) -> Result<Arc<Core>> {
    let runtime = runtime_for("etcd")?;
    let deadline = site.clock.now().saturating_add(site.config.connect_timeout);
    let mut finder = site.config.finder(first_server, &site.clock);
    let (site, place) = (&site, &runtime);
    let told = |failure: Failure| failure.into_core(Operation::Connect, false);
    let turn = finder.turn(deadline).await.map_err(told)?;
    let opened = finder.round(deadline, |server, attempt_ends| attempt(site, server, attempt_ends, place)).await;
    drop(turn);
    let (core, link) = opened.map_err(told)?;
    runtime.spawn(keep(Driver(core.clone()), finder, link));
    Ok(core)
}

async fn attempt(
    site: &EtcdSite,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<EtcdLink>), Failure> {
    let EtcdSite { config, clock, .. } = site;
    let connection = Connection::open(&server, &config.access, clock, deadline).await?;
    let ttl = i64::try_from(config.session_timeout().as_secs()).unwrap_or(i64::MAX);
    // Without randomness it is 0, and etcd takes another number.
    let wanted = LeaseGrantRequest { ttl, id: randomness::spread().cast_signed() & i64::MAX };
    let granted = until_taken(&**clock, deadline, || grant(&connection, wanted, &**clock, deadline)).await;
    let granted = granted.map_err(|failure| connection.of_first_call(failure, &config.access))?;
    let lease = granted.lease;
    let connection = Unclaimed::new(connection, |connection| {
        let deadline = clock.now().saturating_add(REVOKED_WITHIN);
        // A lease that could not be revoked expires.
        runtime.spawn(async move { connection.call(LeaseRevokeRequest { id: lease }, deadline).await.map(drop) });
    });
    let (renewal, timeout) = (granted.renewal, granted.timeout);
    let mut belief = LeaseBelief::new(renewal, timeout);
    let begun = begin(site, &connection, lease, &mut belief, deadline);
    let ((epoch, stamp), watches) =
        tokio::try_join!(begun, KeyWatches::open(&connection, site.layout.session(lease), deadline))?;
    // A grant whose term had passed at once is believed after the first renewal.
    let safe_until = belief.safe_until().unwrap_or_else(|| renewal.sent_at.saturating_add(timeout / 2));
    let core = Arc::new(Core::new(site, GrantedLease { lease, timeout, belief, safe_until }, runtime.clone()));
    core.set_epoch(epoch);
    core.note_revision(stamp);
    let begun = Begun::new(&connection, watches, Some(stamp));
    Ok((core, EtcdLink::new(connection.claim(), FIRST_CONNECTION, begun)))
}

/// A lease that is there, and what its belief begins with.
struct OpenedLease {
    lease: i64,
    renewal: Renewal,
    timeout: Duration,
}

/// Has a lease granted; or renewed, if a request before was taken in late.
async fn grant(
    connection: &Connection,
    wanted: LeaseGrantRequest,
    clock: &dyn Clock,
    deadline: BootInstant,
) -> Result<OpenedLease, Failure> {
    let sent_at = clock.now();
    let failure = match connection.call(wanted, deadline).await {
        Ok(granted) => return granted_at(sent_at, granted.id, granted.ttl, granted.header),
        Err(failure) => failure,
    };
    if failure.kind != FailureKind::Exists {
        return Err(failure);
    }
    let sent_at = clock.now();
    let (_, renewed) = KeepAlive::open(connection, wanted.id, deadline).await?;
    if renewed.ttl <= 0 {
        let message = "the lease of a session ended before it was used";
        return Err(Failure::new(FailureKind::Overloaded, Effect::None, message));
    }
    granted_at(sent_at, wanted.id, renewed.ttl, renewed.header)
}

fn granted_at(
    sent_at: BootInstant,
    lease: i64,
    seconds: i64,
    header: Option<ResponseHeader>,
) -> Result<OpenedLease, Failure> {
    let timeout = Duration::from_secs(seconds.try_into().map_err(|_| Failure::unexpected())?);
    let renewal = Renewal { sent_at, by: member_term(header.ok_or_else(Failure::unexpected)?) };
    Ok(OpenedLease { lease, renewal, timeout })
}

/// Writes the session's key, and the offset of tokens if there is none. Returns the offset, and the session's stamp.
async fn begin(
    site: &EtcdSite,
    connection: &Connection,
    lease: i64,
    belief: &mut LeaseBelief,
    deadline: BootInstant,
) -> Result<(TokenEpoch, i64), Failure> {
    let (layout, witness) = (&site.layout, belief.witness());
    let session = layout.session(lease);
    // A request that is taken in late must not change the stamp.
    let request = txn(
        vec![absent(session.clone())],
        vec![put(session.clone(), session_data(FIRST_CONNECTION), lease), key_range(layout.offset()).into()],
        vec![key_range(session).into(), key_range(layout.offset()).into()],
    );
    let answer = until_taken(&*site.clock, deadline, || connection.call(request.clone(), deadline)).await?;
    let header = header(&answer)?;
    belief.prove(witness, member_term(header));
    let stamp = match answer.responses.first() {
        Some(present) if !answer.succeeded => {
            range_of(present)?.kvs.first().ok_or_else(Failure::session_gone)?.mod_revision
        }
        _ => header.revision,
    };
    let epoch = match answer.responses.get(1).and_then(TokenEpoch::of) {
        Some(epoch) => epoch,
        None => {
            let offset = first_offset(site.clock.unix_time());
            begin_tokens(layout, connection, (offset, 0), deadline).await?
        }
    };
    Ok((epoch, stamp))
}

#[cfg(test)]
mod tests {
    use lockkeeper_conformance::{SOON, soon};
    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_core::{Backend, Scrutiny};
    use lockkeeper_faults::etcd::{self, availability};
    use lockkeeper_faults::ports::ReservedPort;
    use lockkeeper_session::Names;
    use tokio::net::TcpListener;

    use super::*;
    use crate::{Config, EtcdBackend};

    #[tokio::test]
    async fn a_session_whose_opening_was_not_answered_is_found_with_its_first_stamp() {
        if !availability().or_skip_here() {
            return;
        }
        let member = etcd::Server::standalone().await.expect("a member");
        let url = format!("etcd://{}", member.address()).parse().expect("a URL");
        let config = Config::from_url(&url).expect("good");
        let layout = config.layout();
        let site = EtcdSite::new(config, layout, Arc::new(SystemClock));
        let deadline = SystemClock.now().saturating_add(SOON);
        let server = site.config.servers[0].clone();
        let connecting = Connection::open(&server, &site.config.access, &site.clock, deadline);
        let connection = soon("a connection", connecting).await.expect("the member serves");
        let wanted = LeaseGrantRequest { ttl: 20, id: 4_711 };
        let mut opened = Vec::new();
        for _ in 0..2 {
            let granted = grant(&connection, wanted, &SystemClock, deadline).await.expect("a lease");
            assert_eq!((granted.lease, granted.timeout), (wanted.id, Duration::from_secs(20)));
            let mut belief = LeaseBelief::new(granted.renewal, granted.timeout);
            let begun = begin(&site, &connection, granted.lease, &mut belief, deadline).await.expect("its key");
            assert!(belief.safe_until().is_some(), "the answer has proven the lease");
            opened.push((begun, granted.renewal.sent_at));
        }
        assert_eq!(opened[0].0, opened[1].0, "the offset of tokens, and the stamp");
        assert!(opened[0].1 < opened[1].1, "the belief begins with the renewal");
    }

    #[tokio::test]
    async fn of_a_name_with_several_addresses_the_member_is_found_past_those_that_do_not_answer() {
        if !availability().or_skip_here() {
            return;
        }
        let member = etcd::Server::standalone().await.expect("a member");
        // It accepts connections by the kernel alone.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gone = ReservedPort::take().expect("a port");
        let mut config = Config::from_url(&"etcd://many?connect_timeout=6s".parse().expect("a URL")).expect("good");
        config.names = Names::at(vec![silent.local_addr().expect("its address"), gone.address(), member.address()]);
        let backend = EtcdBackend::with(config, Arc::new(SystemClock));
        soon("a session", backend.session()).await.expect("the member serves");
        soon("a look", backend.admin().queues("")).await.expect("the member shows");
        let found = soon("an examination", backend.admin().examine(Scrutiny::Full)).await.expect("the member tells");
        assert!(found.iter().all(|finding| !finding.what.contains("gives no answer")), "{found:?}");
    }
}
