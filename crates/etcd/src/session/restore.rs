//! Takes a session over to another connection.

use std::sync::Arc;

use lockkeeper_core::clock::BootInstant;
use lockkeeper_session::{Failure, FailureKind};

use crate::proto::TxnResponse;
use crate::rpc::{Connection, Watches, exists, key_range, modified_at, put, txn};
use crate::session::core::Core;
use crate::session::link::{Begun, Epoch, Link, first_offset, header};

/// Writes the session's stamp anew, so that joins of older connections have no effect from then on, and opens the
/// stream of watches.
pub(super) async fn restore(
    core: &Core,
    connection: Connection,
    number: u64,
    deadline: BootInstant,
) -> Result<Arc<Link>, Failure> {
    let stamping = stamp(core, &connection, number, deadline);
    let ((answer, is_stamped), watches) =
        tokio::try_join!(stamping, Watches::open(&connection, core.layout.offset(), deadline))?;
    if !answer.succeeded {
        return Err(Failure::session_gone());
    }
    let revision = header(&answer)?.revision;
    let epoch = answer.responses.into_iter().find_map(Epoch::of).ok_or_else(Failure::unexpected)?;
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
    Ok(Link::new(connection, number, Begun { watches, stamp: is_stamped.then_some(revision) }))
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
    (seen, passed): (Epoch, u64),
    deadline: BootInstant,
) -> Result<Epoch, Failure> {
    let key = core.layout.offset();
    let offset = first_offset(core.life.clock.unix_time()).max(passed);
    let look = || key_range(key.clone()).into();
    let write = put(key.clone(), offset.to_string(), 0);
    let request = txn(vec![modified_at(key.clone(), seen.written)], vec![write, look()], vec![look()]);
    let answer = connection.call(request, deadline).await?;
    tracing::warn!(target: "lockkeeper", "etcd's revisions went back; tokens are counted anew from the clock");
    answer.responses.into_iter().find_map(Epoch::of).ok_or_else(Failure::unexpected)
}

/// What is stored under the session's key, for people.
pub(super) fn session_data(connection: u64) -> String {
    let owner = lockkeeper_core::Owner::this_process();
    serde_json::json!({ "host": owner.host, "pid": owner.pid, "command": owner.command, "connection": connection })
        .to_string()
}
