//! Looks at queues without a session: who stands in them, and which locks have contenders.

use std::collections::BTreeSet;

use lockkeeper_core::{Answers, ContenderInfo, Part, QueueName};
use lockkeeper_session::Failure;

use crate::layout::{Layout, Position};
use crate::proto::{KeyValue, RangeRequest, Response, ResponseOp};
use crate::queue::record::Record;
use crate::rpc::{Connection, key_range, prefix_end, prefix_range, txn};
use crate::session::{Epoch, header};

/// How many contenders are read at once.
const PAGE: i64 = 500;

/// How many pages of one lock, or locks of one service, are read: a queue or a service of a million is a mistake.
const PAGES_MAX: usize = 2_000;

/// What a look is made over.
pub(crate) type Onlooking<'a> = lockkeeper_session::Onlooking<'a, Connection, Layout>;

/// Shows the contenders in all queues of a lock.
pub(crate) async fn inspect(looking: &Onlooking<'_>, lock: &QueueName) -> Result<Vec<ContenderInfo>, Failure> {
    let shot = snapshot(looking, prefix_range(looking.layout.lock(lock))).await?;
    let seen = shot.kvs.iter().filter_map(|kv| Seen::read(looking.layout, lock, kv)).collect();
    Ok(in_order(seen, shot.epoch.map(|epoch| looking.layout.first_token(epoch.offset))))
}

/// What lay in a range of keys at one revision.
pub(crate) struct Snapshot {
    pub(crate) revision: i64,
    /// Where tokens began then; `None` before the service's first session.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) kvs: Vec<KeyValue>,
}

/// Reads a range of keys, page by page.
pub(crate) async fn snapshot(looking: &Onlooking<'_>, range: RangeRequest) -> Result<Snapshot, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let first = RangeRequest { limit: PAGE, ..range };
    let request = txn(Vec::new(), vec![first.clone().into(), key_range(layout.offset()).into()], Vec::new());
    let answer = connection.call(request, *deadline).await?;
    // The pages of a range that is read at an older revision are all of that.
    let revision = if first.revision == 0 { header(&answer)?.revision } else { first.revision };
    let mut answers = answer.responses.into_iter();
    let Some(ResponseOp { response: Some(Response::Range(mut page)) }) = answers.next() else {
        return Err(Failure::unexpected());
    };
    let epoch = answers.next().and_then(Epoch::of);
    let mut kvs = std::mem::take(&mut page.kvs);
    for _ in 1..PAGES_MAX {
        let Some(last) = kvs.last().filter(|_| page.more) else {
            break;
        };
        let mut key = last.key.clone();
        key.push(0);
        page = connection.call(RangeRequest { key, revision, ..first.clone() }, *deadline).await?;
        kvs.append(&mut page.kvs);
    }
    Ok(Snapshot { revision, epoch, kvs })
}

/// A contender as a look shows it, but for its token; and where it stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Seen {
    rank: u8,
    position: Position,
    info: ContenderInfo,
}

impl Seen {
    /// Reads a contender of this lock from its key.
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
        if let Some(record) = Record::read(&kv.value).filter(|_| stored.is_ours) {
            record.describe(&mut info);
        }
        Some(Self { rank, position: stored.position, info })
    }
}

/// Shows the contenders of a lock in the order of its queues, with their tokens.
pub(crate) fn in_order(mut seen: Vec<Seen>, first_token: Option<u64>) -> Vec<ContenderInfo> {
    let key = |seen: &Seen| (seen.rank, seen.position);
    seen.sort_by(|one, other| (key(one), &one.info.id).cmp(&(key(other), &other.info.id)));
    let with_token = |Seen { position, mut info, .. }: Seen| {
        info.token = first_token.and_then(|first| position.token(first));
        info
    };
    seen.into_iter().map(with_token).collect()
}

/// Reads the name of a lock from what is stored under a contender's key, where the key does not say it.
pub(crate) fn name_in(value: &[u8]) -> Option<QueueName> {
    Record::read(value)?.lock_name()
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names. It reads
/// pages of keys, and passes over the rest of a lock's contenders where a page ends among them.
pub(crate) async fn names(looking: &Onlooking<'_>, prefix: &str) -> Result<Vec<QueueName>, Failure> {
    let Onlooking { connection, layout, deadline } = looking;
    let range_end = prefix_end(&layout.queues(prefix));
    // No key is empty.
    let mut key = Some(layout.queues(prefix)).filter(|key| !key.is_empty()).unwrap_or_else(|| vec![0]);
    let mut names = BTreeSet::new();
    for _ in 0..PAGES_MAX {
        let range_end = range_end.clone();
        let request = RangeRequest { key, range_end, limit: PAGE, keys_only: true, ..RangeRequest::default() };
        let page = connection.call(request, *deadline).await?;
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
async fn name_of(looking: &Onlooking<'_>, lock: &str, key: &[u8]) -> Result<Option<QueueName>, Failure> {
    if let Some(name) = looking.layout.lock_name(lock) {
        return Ok(Some(name));
    }
    let found = looking.connection.call(key_range(key), looking.deadline).await?.kvs.into_iter().next();
    Ok(found.and_then(|kv| name_in(&kv.value)))
}
