//! Contenders that depend on no lease and say no reason why they stand: they block their locks until they are
//! deleted. All others go with their leases.

use lockkeeper_core::clock::BootInstant;
use lockkeeper_core::{Remnant, RemnantKind};
use lockkeeper_session::Failure;

use crate::layout::Layout;
use crate::proto::{KeyValue, RangeRequest};
use crate::queue::inspect::Onlooking;
use crate::queue::record::Record;
use crate::rpc::{Connection, delete, modified_at, prefix_end, txn};

/// How many keys are read at once, with what is stored there.
const PAGE: i64 = 500;

/// How many pages are read: a service with a million contenders is a mistake.
const PAGES_MAX: usize = 2_000;

/// A key as it was read.
#[derive(Clone, Debug)]
struct Seen {
    key: Vec<u8>,
    /// The revision at which it was last written. No key has it twice.
    mod_revision: i64,
}

/// Lists them. What only lies beside the locks of other clients is not theirs, and not listed.
pub(crate) async fn remnants(looking: &Onlooking<'_>) -> Result<Vec<Remnant>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let range_end = prefix_end(&layout.queues(""));
    // No key is empty.
    let mut key = Some(layout.queues("")).filter(|key| !key.is_empty()).unwrap_or_else(|| vec![0]);
    let mut found = Vec::new();
    for _ in 0..PAGES_MAX {
        let request = RangeRequest { key, range_end: range_end.clone(), limit: PAGE, ..RangeRequest::default() };
        let page = connection.call(request, *deadline).await?;
        found.extend(page.kvs.iter().filter_map(|kv| unbound(layout, kv)));
        match page.kvs.last().filter(|_| page.more) {
            Some(last) => key = [&*last.key, &[0]].concat(),
            None => break,
        }
    }
    Ok(found)
}

fn unbound(layout: &Layout, kv: &KeyValue) -> Option<Remnant> {
    if kv.lease != 0 {
        return None;
    }
    let record = Record::read(&kv.value);
    if record.as_ref().is_some_and(Record::is_frozen) {
        return None;
    }
    let lock = layout.lock_of(kv)?;
    let name = layout.lock_name(lock).or_else(|| record?.lock_name());
    // A key that names no contender blocks no contender.
    layout.read(name.as_ref()?, kv)?;
    let seen = Seen { key: kv.key.clone(), mod_revision: kv.mod_revision };
    let place = String::from_utf8_lossy(&kv.key);
    Some(Remnant::new(RemnantKind::Unbound, place, seen).of_lock(name))
}

/// Deletes one if it was not written since; `false` if it was, or is gone.
pub(crate) async fn remove(connection: &Connection, remnant: &Remnant, deadline: BootInstant) -> Result<bool, Failure> {
    let Some(Seen { key, mod_revision }) = remnant.seen::<Seen>() else {
        return Ok(false);
    };
    let conditions = vec![modified_at(key.clone(), *mod_revision)];
    Ok(connection.call(txn(conditions, vec![delete(key.clone())], Vec::new()), deadline).await?.succeeded)
}
