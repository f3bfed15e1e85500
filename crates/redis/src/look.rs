//! Looks without a session: over which connection they go, which contenders stand in queues, and which locks have some.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockkeeper_core::{ConnectionNumber, Contender, ContenderInfo, Operation, Part, QueueName, Result};
use lockkeeper_session::{Failure, part_letter};
use redis::{Cmd, Value, cmd};

use crate::connection::{Batch, Connection, answer, only, texts};
use crate::layout::{Layout, QueueMember, read_listed};
use crate::queue::view::{self, StoredRecord, describe, is_foreign};
use crate::script::Script;
use crate::session::{taught, teach};
use crate::url::RedisSite;

pub(crate) type Onlooker = lockkeeper_session::Onlooker<Connection, (), Layout>;

pub(crate) fn onlooker(site: &RedisSite) -> Onlooker {
    let site = site.clone();
    let (clock, layout, timeout) = (site.clock.clone(), site.layout.clone(), site.config.operation_timeout);
    Onlooker::new(clock, layout, timeout, Failure::needs_another, move || Box::pin(open_for_looks(site.clone())))
}

async fn open_for_looks(site: RedisSite) -> Result<Arc<Connection>> {
    let RedisSite { config, layout, clock, .. } = &site;
    let deadline = clock.now().saturating_add(config.connect_timeout);
    let mut finder = config.finder(clock);
    let opened = finder.round(deadline, |server, attempt_ends| async move {
        let connection = Connection::open(&server, &config.access, clock, attempt_ends).await?;
        config.check(&connection)?;
        // A server of a cluster that does not have the keys says so.
        let mut probe = cmd("HGET");
        probe.arg(layout.base()).arg("tok");
        taught(connection.send_until(teach(layout).command(probe), attempt_ends).await?, "HGET")?;
        Ok(Arc::new(connection))
    });
    opened.await.map_err(|failure| failure.into_core(Operation::Connect, false))
}

/// How many records or names are read at once: others wait for the server meanwhile.
const PAGE: usize = 200;

/// How many pages of names are read: a service of a million locks is a mistake.
const PAGES_MAX: usize = 5_000;

/// The parts of a lock, as they are shown: of a semaphore the permits come first.
const PARTS: [Part; 3] = [Part::Line, Part::Permits, Part::Waiters];

pub(crate) type RedisLook<'a> = lockkeeper_session::Onlooking<'a, Connection, Layout>;

pub(crate) async fn inspect(looking: RedisLook<'_>, lock: &QueueName) -> Result<Vec<ContenderInfo>, Failure> {
    inspect_each(looking, std::slice::from_ref(lock)).await?.pop().ok_or_else(Failure::unexpected)
}

/// Shows the contenders of several locks, in few round trips.
pub(crate) async fn inspect_each(
    looking: RedisLook<'_>,
    locks: &[QueueName],
) -> Result<Vec<Vec<ContenderInfo>>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
    let mut shown = shown(looking, locks).await?;
    let mut infos = foreigners(looking, locks, &mut shown).await?;
    let shown: Vec<_> =
        shown.into_iter().enumerate().flat_map(|(at, shown)| shown.into_iter().map(move |one| (at, one))).collect();
    for page in shown.chunks(PAGE) {
        let tickets = page.iter().filter_map(|(_, contender)| contender.ticket);
        let batch = tickets.fold(Batch::new(), |batch, ticket| batch.command(get(&layout.contender(ticket))));
        let records = connection.send_until(batch, deadline).await?;
        for ((at, contender), record) in page.iter().zip(records) {
            infos[*at].extend(info(contender, answer(record, "GET")?));
        }
    }
    Ok(infos)
}

/// Looks at all queues of each of these locks.
async fn shown(looking: RedisLook<'_>, locks: &[QueueName]) -> Result<Vec<Vec<Contender>>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
    let batch = locks.iter().fold(Batch::new(), |batch, lock| {
        let name = lock.encoded();
        PARTS.into_iter().fold(batch, |batch, part| {
            batch.script(layout.script(Script::Look), &[layout.base()], &[part_letter(part), &name, "", "whole"][..])
        })
    });
    let mut shown = Vec::with_capacity(locks.len());
    for looked in connection.send_until(batch, deadline).await?.chunks(PARTS.len()) {
        let mut contenders = Vec::new();
        for view in looked {
            let view = view::read(ConnectionNumber(0), answer(view.clone(), "look")?)?;
            contenders.extend(view.contenders.iter().cloned());
        }
        shown.push(contenders);
    }
    Ok(shown)
}

/// Describes the other clients that have the plain locks of these locks, and takes them out of what is shown of each.
async fn foreigners(
    looking: RedisLook<'_>,
    locks: &[QueueName],
    shown: &mut [Vec<Contender>],
) -> Result<Vec<Vec<ContenderInfo>>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
    let mut found = Vec::new();
    let mut batch = Batch::new();
    for (at, (lock, shown)) in locks.iter().zip(shown).enumerate() {
        if let Some(plain) = layout.plain(lock)
            && shown.first().is_some_and(|first| is_foreign(&first.id))
        {
            found.push((at, shown.remove(0)));
            batch = batch.command(get(plain));
        }
    }
    let mut infos = vec![Vec::new(); locks.len()];
    let values = connection.send_until(batch, deadline).await?;
    for ((at, foreign), value) in found.iter().zip(values) {
        infos[*at].push(describe(foreign, value));
    }
    Ok(infos)
}

fn get(key: &str) -> Cmd {
    let mut get = cmd("GET");
    get.arg(key);
    get
}

/// Describes a contender; `None` if it has left meanwhile.
fn info(contender: &Contender, record: Value) -> Option<ContenderInfo> {
    let Value::BulkString(bytes) = record else {
        return None;
    };
    let member = QueueMember::of(&contender.id)?;
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.ticket = contender.ticket;
    info.token = member.token();
    info.session = member.session.map(|session| session.to_string());
    if let Some(stored) = StoredRecord::read(&bytes) {
        stored.describe(&mut info);
    }
    Some(info)
}

/// Names the locks that have contenders and whose names begin with `prefix`, in the order of their names.
pub(crate) async fn names(looking: RedisLook<'_>, prefix: &str) -> Result<Vec<QueueName>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
    let (mut names, mut last) = (BTreeSet::new(), String::new());
    for _ in 0..PAGES_MAX {
        let page = PAGE.to_string();
        let batch = Batch::new().script(layout.script(Script::Names), &[layout.base()], &[last.as_str(), &page][..]);
        let answers = connection.send_until(batch, deadline).await?;
        let mut read = texts(answer(only(answers)?, "names")?)?.into_iter();
        last = read.next().ok_or_else(Failure::unexpected)?;
        let named = read.filter_map(|listed| read_listed(&listed));
        names.extend(named.filter(|name| name.as_str().starts_with(prefix)));
        if last.is_empty() {
            break;
        }
    }
    Ok(names.into_iter().collect())
}

/// Finds the name of a lock in use of which its keys have a digest alone; `None` if it has no contenders any more.
pub(crate) async fn long_name(looking: RedisLook<'_>, digest: &str) -> Result<Option<QueueName>, Failure> {
    let RedisLook { connection, layout, deadline } = looking;
    let mut range = cmd("ZRANGEBYLEX");
    range.arg(layout.names()).arg(format!("[{digest} ")).arg(format!("({digest}!"));
    let answers = connection.send_until(Batch::new().command(range), deadline).await?;
    let listed = texts(answer(only(answers)?, "ZRANGEBYLEX")?)?;
    Ok(listed.first().and_then(|listed| read_listed(listed)))
}
