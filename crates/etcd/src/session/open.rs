//! Opens a session: a lease, its key, and the connection that both were made on.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use lockkeeper_core::{Error, ErrorKind, Operation, Result};
use lockkeeper_session::{Failure, Server, keep};
use tokio::runtime::Handle;

use crate::proto::{LeaseGrantRequest, LeaseRevokeRequest};
use crate::rpc::{Connection, Watches, absent, for_lack_of, key_range, put, txn};
use crate::session::belief::{Belief, Renewal};
use crate::session::core::{Core, Parts};
use crate::session::driver::Driver;
use crate::session::link::{Epoch, Link, first_offset, header};
use crate::session::restore::session_data;
#[cfg(feature = "testing")]
use crate::testing::Testing;
use crate::url::Config;

/// The number of a session's first connection.
const FIRST_CONNECTION: u64 = 1;

/// What a session is opened with.
pub(crate) struct Opening {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The server that is tried first.
    pub(crate) first_server: usize,
    #[cfg(feature = "testing")]
    pub(crate) testing: Testing,
}

/// Opens a session at the first server that lets us. Dropping the future ends what it has begun.
pub(crate) async fn open(opening: Opening) -> Result<Arc<Core>> {
    let runtime = Handle::try_current().map_err(|_| {
        let message = "a session on etcd needs a tokio runtime";
        Error::permanent(ErrorKind::InvalidConfig, Operation::Connect, message)
    })?;
    let deadline = opening.clock.now().saturating_add(opening.config.connect_timeout);
    let mut finder = opening.config.finder(opening.first_server, &opening.clock);
    let (opening, place) = (&opening, &runtime);
    let opened = finder.round(deadline, |server, attempt_ends| attempt(opening, server, attempt_ends, place));
    let rights = opening.config.layout().rights();
    let opened = opened.await.map_err(|failure| for_lack_of(failure, &rights).into_core(Operation::Connect, false));
    let (core, link) = opened?;
    runtime.spawn(keep(
        Driver { core: core.clone(), finder, next_connection: AtomicU64::new(FIRST_CONNECTION + 1) },
        link,
    ));
    Ok(core)
}

async fn attempt(
    opening: &Opening,
    server: Server,
    deadline: BootInstant,
    runtime: &Handle,
) -> Result<(Arc<Core>, Arc<Link>), Failure> {
    let Opening { config, clock, .. } = opening;
    let connection = Connection::open(&server, &config.access, clock, deadline).await?;
    let sent_at = clock.now();
    let ttl = i64::try_from(config.session_timeout().as_secs()).unwrap_or(i64::MAX);
    let granted = connection.call(LeaseGrantRequest { ttl }, deadline).await;
    let granted = granted.map_err(|failure| connection.of_first_call(failure, &config.access))?;
    let unclaimed = Unclaimed { connection: Some(connection), lease: granted.id, clock: clock.clone(), runtime };
    let timeout = Duration::from_secs(granted.ttl.try_into().map_err(|_| Failure::unexpected())?);
    let term = granted.header.ok_or_else(Failure::unexpected)?.raft_term;
    let renewal = Renewal { sent_at, connection: FIRST_CONNECTION, term };
    let mut belief = Belief::new(renewal, timeout);
    let begun = begin(opening, &unclaimed, &mut belief, deadline);
    let ((epoch, stamp), watches) = tokio::try_join!(begun, Watches::open(unclaimed.connection(), deadline))?;
    let connection = unclaimed.claim();
    let parts = Parts {
        config: config.clone(),
        clock: clock.clone(),
        lease: granted.id,
        timeout,
        // A grant whose term had passed at once is believed after the first renewal.
        safe_until: belief.safe_until().unwrap_or_else(|| sent_at.saturating_add(timeout / 2)),
        belief,
        #[cfg(feature = "testing")]
        testing: opening.testing.clone(),
    };
    let core = Arc::new(Core::new(parts, runtime.clone()));
    core.set_epoch(epoch);
    core.note_revision(stamp);
    let link =
        Arc::new(Link { connection: Arc::new(connection), watches, number: FIRST_CONNECTION, stamp: Some(stamp) });
    Ok((core, link))
}

/// Writes the session's key, and the offset of tokens if there is none. Returns the offset, and the session's stamp.
async fn begin(
    opening: &Opening,
    unclaimed: &Unclaimed<'_>,
    belief: &mut Belief,
    deadline: BootInstant,
) -> Result<(Epoch, i64), Failure> {
    let layout = opening.config.layout();
    let offset = first_offset(opening.clock.unix_time());
    let session = || put(layout.session(unclaimed.lease), session_data(FIRST_CONNECTION), unclaimed.lease);
    let read = || key_range(layout.offset()).into();
    let request = txn(
        vec![absent(layout.offset())],
        vec![put(layout.offset(), offset.to_string(), 0), session(), read()],
        vec![session(), read()],
    );
    let witness = belief.witness(FIRST_CONNECTION);
    let answer = unclaimed.connection().call(request, deadline).await?;
    let header = header(&answer)?;
    belief.prove(witness, header.raft_term);
    let epoch = answer.responses.into_iter().find_map(Epoch::of).ok_or_else(Failure::unexpected)?;
    Ok((epoch, header.revision))
}

/// A lease that no session has taken over yet: it is revoked if none does.
struct Unclaimed<'a> {
    connection: Option<Connection>,
    lease: i64,
    clock: Arc<dyn Clock>,
    runtime: &'a Handle,
}

impl Unclaimed<'_> {
    fn connection(&self) -> &Connection {
        self.connection.as_ref().expect("it is taken when the lease is claimed, which is the end")
    }

    fn claim(mut self) -> Connection {
        self.connection.take().expect("it is claimed once")
    }
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        let (lease, clock) = (self.lease, self.clock.clone());
        self.runtime.spawn(async move {
            let deadline = clock.now().saturating_add(REVOKED_WITHIN);
            // What could not be revoked runs out.
            let _ = connection.call(LeaseRevokeRequest { id: lease }, deadline).await;
        });
    }
}

/// How long the end of a lease that is not used may take.
const REVOKED_WITHIN: Duration = Duration::from_secs(2);
