//! The opening of a session: a lease, its key, and the connection on which both were made.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Operation, Result};
use lockkeeper_session::{FIRST_CONNECTION, Failure, Server, Unclaimed, keep, runtime_for};
use tokio::runtime::Handle;

use crate::proto::{LeaseGrantRequest, LeaseRevokeRequest};
use crate::rpc::{Connection, KeyWatches, absent, key_range, put, txn};
use crate::session::belief::{LeaseBelief, Renewal};
use crate::session::driver::{Driver, session_data};
use crate::session::{Begun, Core, EtcdLink, GrantedLease, TokenEpoch, first_offset, header};
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
    let opened = finder.round(deadline, |server, attempt_ends| attempt(site, server, attempt_ends, place)).await;
    let (core, link) = opened.map_err(|failure| failure.into_core(Operation::Connect, false))?;
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
    let sent_at = clock.now();
    let ttl = i64::try_from(config.session_timeout().as_secs()).unwrap_or(i64::MAX);
    let granted = connection.call(LeaseGrantRequest { ttl }, deadline).await;
    let granted = granted.map_err(|failure| connection.of_first_call(failure, &config.access))?;
    let lease = granted.id;
    let connection = Unclaimed::new(connection, |connection| {
        let deadline = clock.now().saturating_add(REVOKED_WITHIN);
        // A lease that could not be revoked expires.
        runtime.spawn(async move { connection.call(LeaseRevokeRequest { id: lease }, deadline).await.map(drop) });
    });
    let timeout = Duration::from_secs(granted.ttl.try_into().map_err(|_| Failure::unexpected())?);
    let term = granted.header.ok_or_else(Failure::unexpected)?.raft_term;
    let renewal = Renewal { sent_at, connection: FIRST_CONNECTION, term };
    let mut belief = LeaseBelief::new(renewal, timeout);
    let begun = begin(site, &connection, lease, &mut belief, deadline);
    let ((epoch, stamp), watches) =
        tokio::try_join!(begun, KeyWatches::open(&connection, site.layout.offset(), deadline))?;
    // A grant whose term had passed at once is believed after the first renewal.
    let safe_until = belief.safe_until().unwrap_or_else(|| sent_at.saturating_add(timeout / 2));
    let core = Arc::new(Core::new(site, GrantedLease { lease, timeout, belief, safe_until }, runtime.clone()));
    core.set_epoch(epoch);
    core.note_revision(stamp);
    Ok((core, EtcdLink::new(connection.claim(), FIRST_CONNECTION, Begun { watches, stamp: Some(stamp) })))
}

/// Writes the session's key, and the offset of tokens if there is none. Returns the offset, and the session's stamp.
async fn begin(
    site: &EtcdSite,
    connection: &Connection,
    lease: i64,
    belief: &mut LeaseBelief,
    deadline: BootInstant,
) -> Result<(TokenEpoch, i64), Failure> {
    let layout = &site.layout;
    let offset = first_offset(site.clock.unix_time());
    let session = || put(layout.session(lease), session_data(FIRST_CONNECTION), lease);
    let read = || key_range(layout.offset()).into();
    let request = txn(
        vec![absent(layout.offset())],
        vec![put(layout.offset(), offset.to_string(), 0), session(), read()],
        vec![session(), read()],
    );
    let witness = belief.witness(FIRST_CONNECTION);
    let answer = connection.call(request, deadline).await?;
    let header = header(&answer)?;
    belief.prove(witness, header.raft_term);
    let epoch = answer.responses.iter().find_map(TokenEpoch::of).ok_or_else(Failure::unexpected)?;
    Ok((epoch, header.revision))
}

#[cfg(test)]
mod tests {
    use lockkeeper_conformance::soon;
    use lockkeeper_core::clock::SystemClock;
    use lockkeeper_core::{Backend, Scrutiny};
    use lockkeeper_faults::etcd::{Server, availability};
    use lockkeeper_faults::ports::ReservedPort;
    use lockkeeper_session::Names;
    use tokio::net::TcpListener;

    use crate::{Config, EtcdBackend};

    #[tokio::test]
    async fn of_a_name_with_several_addresses_the_member_is_found_past_those_that_do_not_answer() {
        if !availability().or_skip_here() {
            return;
        }
        let member = Server::standalone().await.expect("a member");
        // It accepts connections by the kernel alone.
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gone = ReservedPort::take().expect("a port");
        let mut config = Config::from_url(&"etcd://many?connect_timeout=6s".parse().expect("a URL")).expect("good");
        config.names = Names::at(vec![silent.local_addr().expect("its address"), gone.address(), member.address()]);
        let backend = EtcdBackend::with(config, std::sync::Arc::new(SystemClock));
        soon("a session", backend.session()).await.expect("the member serves");
        soon("a look", backend.admin().queues("")).await.expect("the member shows");
        let found = soon("an examination", backend.admin().examine(Scrutiny::Full)).await.expect("the member tells");
        assert!(found.iter().all(|finding| !finding.what.contains("gives no answer")), "{found:?}");
    }
}
