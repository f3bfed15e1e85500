//! Looks without a session: over which connection they go, what they show of queues, and remnants for an operator.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{Answers, ContenderInfo, Operation, Part, QueueName, Remnant, RemnantKind, Result};
use lockkeeper_session::{Effect, Failure, Server};

use crate::layout::{KeyRecord, Layout, QueuePosition};
use crate::proto::{KeyValue, OpResponse, RangeRequest, ResponseOp};
use crate::rpc::{Connection, delete, is_turned_away, key_range, modified_at, prefix_range, txn};
use crate::session::{Begun, TokenEpoch, header};
use crate::url::EtcdSite;

pub(crate) type Onlooker = lockkeeper_session::Onlooker<Connection, Begun, Layout>;

pub(crate) fn onlooker(site: &EtcdSite) -> Onlooker {
    let site = site.clone();
    // Holders have no part in a look that took too long, or that came to a member with too much to do.
    let is_useless = |failure: &Failure| is_turned_away(failure) && failure.effect == Effect::Unknown;
    let (clock, layout, timeout) = (site.clock.clone(), site.layout.clone(), site.config.operation_timeout);
    Onlooker::new(clock, layout, timeout, is_useless, move || {
        let site = site.clone();
        Box::pin(async move {
            let opened = open_from(0, &site).await;
            opened.map(Arc::new).map_err(|failure| failure.into_core(Operation::Inspect, false))
        })
    })
}

/// Opens a connection for looks to the first member that accepts one, beginning with this one.
pub(crate) async fn open_from(first: usize, EtcdSite { config, clock, .. }: &EtcdSite) -> Result<Connection, Failure> {
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let attempt = |server: Server, attempt_ends| async move {
        Connection::open_for_looks(&server, &config.access, clock, attempt_ends).await
    };
    config.finder(first, clock).round(deadline, attempt).await
}

const PAGE: i64 = 500;

/// How many pages of one lock, or locks of one service, are read: a queue or a service of a million is a mistake.
const PAGES_MAX: usize = 2_000;

pub(crate) type EtcdLook<'a> = lockkeeper_session::Onlooking<'a, Connection, Layout>;

pub(crate) async fn inspect(looking: EtcdLook<'_>, lock: &QueueName) -> Result<Vec<ContenderInfo>, Failure> {
    let shot = snapshot(looking, prefix_range(looking.layout.lock(lock))).await?;
    let seen = shot.kvs.iter().filter_map(|kv| ShownContender::read(looking.layout, lock, kv)).collect();
    let shown = in_order(seen, shot.epoch.map(|epoch| looking.layout.first_token(epoch.offset)));
    Ok(shown.into_iter().map(Arc::unwrap_or_clone).collect())
}

pub(crate) struct KeySnapshot {
    pub(crate) revision: i64,
    /// Where tokens began then; `None` before the service's first session.
    pub(crate) epoch: Option<TokenEpoch>,
    pub(crate) kvs: Vec<KeyValue>,
}

pub(crate) async fn snapshot(looking: EtcdLook<'_>, range: RangeRequest) -> Result<KeySnapshot, Failure> {
    let EtcdLook { connection, layout, deadline } = looking;
    let first = RangeRequest { limit: PAGE, ..range };
    let request = txn(Vec::new(), vec![first.clone().into(), key_range(layout.offset()).into()], Vec::new());
    let answer = connection.call(request, deadline).await?;
    // The pages of a range that is read at an older revision are all of that.
    let revision = if first.revision == 0 { header(&answer)?.revision } else { first.revision };
    let mut answers = answer.responses.into_iter();
    let Some(ResponseOp { response: Some(OpResponse::Range(mut page)) }) = answers.next() else {
        return Err(Failure::unexpected());
    };
    let epoch = answers.next().as_ref().and_then(TokenEpoch::of);
    let mut kvs = std::mem::take(&mut page.kvs);
    for _ in 1..PAGES_MAX {
        let Some(last) = kvs.last().filter(|_| page.more) else {
            break;
        };
        let mut key = last.key.clone();
        key.push(0);
        page = connection.call(RangeRequest { key, revision, ..first.clone() }, deadline).await?;
        kvs.append(&mut page.kvs);
    }
    Ok(KeySnapshot { revision, epoch, kvs })
}

/// A contender as a look shows it, and where it stands. Its token is not known before it is set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ShownContender {
    rank: u8,
    position: QueuePosition,
    info: Arc<ContenderInfo>,
}

impl ShownContender {
    pub(crate) fn read(layout: &Layout, lock: &QueueName, kv: &KeyValue) -> Option<Self> {
        let (part, stored) = layout.read(lock, kv)?;
        let rank = match part {
            Part::Line => 0,
            Part::Permits => 1,
            Part::Waiters => 2,
        };
        let mut info = ContenderInfo::new(stored.id, stored.mode);
        info.ticket = stored.ticket;
        info.session = (kv.lease != 0).then(|| format!("{:x}", kv.lease));
        info.answers = if stored.is_ours { Answers::Unknown } else { Answers::No };
        // What another client has written there may be anything.
        if let Some(record) = KeyRecord::read(&kv.value).filter(|_| stored.is_ours) {
            record.describe(&mut info);
        }
        Some(Self { rank, position: stored.position, info: Arc::new(info) })
    }

    /// Sets its token, by the one that tokens begin at, if that is known.
    pub(crate) fn set_token(&mut self, first_token: Option<u64>) {
        let token = first_token.and_then(|first| self.position.token(first));
        if self.info.token != token {
            Arc::make_mut(&mut self.info).token = token;
        }
    }
}

/// Shows the contenders of a lock in the order of its queues, with their tokens.
pub(crate) fn in_order(mut seen: Vec<ShownContender>, first_token: Option<u64>) -> Vec<Arc<ContenderInfo>> {
    let key = |seen: &ShownContender| (seen.rank, seen.position);
    seen.sort_by(|one, other| (key(one), &one.info.id).cmp(&(key(other), &other.info.id)));
    seen.iter_mut().for_each(|seen| seen.set_token(first_token));
    seen.into_iter().map(|seen| seen.info).collect()
}

/// The range of all keys that begin with this; no key is empty.
pub(crate) fn keys_below(prefix: Vec<u8>) -> RangeRequest {
    let range = prefix_range(prefix);
    if range.key.is_empty() { RangeRequest { key: vec![0], ..range } } else { range }
}

/// Reads the name of a lock from what is stored under a contender's key, where the key does not say it.
pub(crate) fn name_in(value: &[u8]) -> Option<QueueName> {
    KeyRecord::read(value)?.lock_name()
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names. It reads
/// pages of keys, and passes over the rest of a lock's contenders where a page ends among them.
pub(crate) async fn names(looking: EtcdLook<'_>, prefix: &str) -> Result<Vec<QueueName>, Failure> {
    let EtcdLook { connection, layout, deadline } = looking;
    let RangeRequest { mut key, range_end, .. } = keys_below(layout.queues(prefix));
    let mut names = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let range_end = range_end.clone();
        let request = RangeRequest { key, range_end, limit: PAGE, keys_only: true, ..RangeRequest::default() };
        let page = connection.call(request, deadline).await?;
        let mut last = None;
        for kv in &page.kvs {
            let lock = layout.lock_of(kv);
            if lock != last
                && let Some(lock) = lock
                && let Some(name) = name_of(looking, lock, &kv.key).await?
            {
                names.extend(Some(name).filter(|name| name.as_str().starts_with(prefix)));
            }
            last = lock;
        }
        match page.kvs.last().filter(|_| page.more) {
            Some(kv) => key = layout.behind(&kv.key, last),
            None => break,
        }
    }
    Ok(names.into_iter().filter(|name| layout.refusal(name).is_none()).collect())
}

/// Reads the name of a lock, from one of its contenders if the key does not say it.
async fn name_of(looking: EtcdLook<'_>, lock: &str, key: &[u8]) -> Result<Option<QueueName>, Failure> {
    if let Some(name) = looking.layout.lock_name(lock) {
        return Ok(Some(name));
    }
    let found = looking.connection.call(key_range(key), looking.deadline).await?.kvs.into_iter().next();
    Ok(found.and_then(|kv| name_in(&kv.value)))
}

#[derive(Clone, Debug)]
struct SeenKey {
    key: Vec<u8>,
    /// The revision at which it was last written. No key has it twice.
    mod_revision: i64,
}

/// Lists the contenders that depend on no lease and say no reason why they stand: they block their locks until they are
/// deleted. All others go with their leases. Keys beside the locks of other clients are not listed.
pub(crate) async fn remnants(looking: EtcdLook<'_>) -> Result<Vec<Remnant>, Failure> {
    let layout = looking.layout;
    let stored = snapshot(looking, keys_below(layout.queues(""))).await?;
    Ok(stored.kvs.iter().filter_map(|kv| unbound(layout, kv)).collect())
}

fn unbound(layout: &Layout, kv: &KeyValue) -> Option<Remnant> {
    if kv.lease != 0 {
        return None;
    }
    let record = KeyRecord::read(&kv.value);
    if record.as_ref().is_some_and(KeyRecord::is_frozen) {
        return None;
    }
    let lock = layout.lock_of(kv)?;
    let name = layout.lock_name(lock).or_else(|| record?.lock_name());
    // A key that names no contender blocks no contender.
    layout.read(name.as_ref()?, kv)?;
    let seen = SeenKey { key: kv.key.clone(), mod_revision: kv.mod_revision };
    let place = String::from_utf8_lossy(&kv.key);
    Some(Remnant::new(RemnantKind::Unbound, place, seen).of_lock(name))
}

/// Deletes one if it was not written since; `false` if it was, or is gone.
pub(crate) async fn remove(looking: EtcdLook<'_>, remnant: &Remnant) -> Result<bool, Failure> {
    let Some(SeenKey { key, mod_revision }) = remnant.seen::<SeenKey>() else {
        return Ok(false);
    };
    let conditions = vec![modified_at(key.clone(), *mod_revision)];
    let deletion = txn(conditions, vec![delete(key.clone())], Vec::new());
    Ok(looking.connection.call(deletion, looking.deadline).await?.succeeded)
}
