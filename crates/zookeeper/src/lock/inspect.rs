//! Shows the contenders in the queues of a lock, and names the queues that exist: reads only, many at a time.

use std::sync::Arc;

use lockkeeper_core::{
    Answers, Contender, ContenderId, ContenderInfo, FencingToken, Mode, Operation, Part, QueueName, Result,
};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Request, Response, Stat};

use crate::config::Config;
use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{ForeignPolicy, Layout, Named, bare_permits, is_curators, read_queue};
use crate::link::{Call, Link};
use crate::lock::owner::{self, ContenderData};
use crate::lock::paths::QueuePath;

/// How many reads are under way at once: enough to fill a round trip, and far from what a session may queue.
pub(super) const READS_AT_ONCE_MAX: usize = 500;

/// How often a look is tried again after a lost connection.
const ATTEMPTS_MAX: u32 = 3;

/// Shows the contenders in the queues of a lock: in its own, then the permits, then those that wait for permits.
pub(super) async fn inspect(link: &Arc<Link>, config: &Config, lock: &QueueName) -> Result<Vec<ContenderInfo>> {
    let fail = |error: ClientError| error.into_core(Operation::Inspect, None).at(lock);
    let layout = config.naming.layout;
    let path_of = |part, layout| QueuePath::of(&lock.with_part(part), &config.base, link.chroot(), layout);
    let line = path_of(Part::Line, layout)?;
    let in_line = children(link, &line.on_server(), line.shown()).await.map_err(fail)?;
    let kazoo_permits = if layout == Layout::Kazoo { bare_permits(&in_line) } else { Vec::new() };
    // An inspection shows all contenders, also those that a lock would refuse to queue with.
    let reading = read_queue(&in_line, Part::Line, layout, ForeignPolicy::Wait);
    let mut queues = vec![(line.clone(), reading.contenders), (line, kazoo_permits)];
    let mut parts: Vec<_> = reading.parts.into_iter().map(|part| (part, Layout::Curator)).collect();
    if layout == Layout::Kazoo {
        parts.push((Part::Waiters, Layout::Kazoo));
    }
    // The permits before the waiters.
    parts.sort_unstable_by_key(|&(part, layout)| (part == Part::Waiters, layout == Layout::Kazoo));
    for (part, layout) in parts {
        let path = path_of(part, layout)?;
        let children = children(link, &path.on_server(), path.shown()).await.map_err(fail)?;
        let reading = read_queue(&children, part, layout, ForeignPolicy::Wait);
        queues.push((path, reading.contenders));
    }
    let mut infos = Vec::new();
    for (path, contenders) in queues {
        infos.extend(describe_all(link, &path, &contenders).await.map_err(fail)?);
    }
    Ok(infos)
}

/// Reads the contenders of one queue.
async fn describe_all(
    link: &Arc<Link>,
    path: &QueuePath,
    contenders: &[Contender],
) -> Result<Vec<ContenderInfo>, ClientError> {
    let mut infos = Vec::with_capacity(contenders.len());
    let mut writer = None;
    for batch in contenders.chunks(READS_AT_ONCE_MAX) {
        let read = |contender: &Contender| {
            let request = Request::GetData { path: path.child_on_server(contender.id.as_str()), watch: false };
            link.call(&request, path.shown())
        };
        let calls: Vec<Call> = batch.iter().map(read).collect();
        for (contender, call) in batch.iter().zip(calls) {
            match call.response().await {
                Ok(Response::GetData { data, stat }) => {
                    let mut info = describe(contender, &data.unwrap_or_default(), &stat);
                    share_place(&mut info, &mut writer);
                    infos.push(info);
                }
                Err(error) if error.is(ErrorCode::NoNode) => {}
                // The contender stands there nevertheless.
                Err(error) if error.is(ErrorCode::NoAuth) => {
                    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
                    info.ticket = contender.ticket;
                    infos.push(info);
                }
                Ok(_) => return Err(ClientError::unexpected(OpCode::GetData, path.shown())),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(infos)
}

/// Gives a reader with a writer's own number the writer's token while the writer stands: it holds within that.
fn share_place(info: &mut ContenderInfo, writer: &mut Option<(i32, Option<FencingToken>)>) {
    let Named::Contender { sequence, .. } = Named::read(info.id.as_str()) else {
        return;
    };
    match (info.mode, &*writer) {
        (Mode::Read, Some((number, token))) if *number == sequence => info.token = *token,
        (Mode::Write | Mode::Exclusive, _) => *writer = Some((sequence, info.token)),
        _ => {}
    }
}

fn describe(contender: &Contender, data: &[u8], stat: &Stat) -> ContenderInfo {
    let ours = ContenderData::read(data);
    let made_at = u64::try_from(stat.ctime).ok().map(std::time::Duration::from_millis);
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.token = own_token(ours.as_ref(), stat);
    info.session = (stat.ephemeral_owner != 0).then(|| format!("{:#x}", stat.ephemeral_owner));
    info.ticket = contender.ticket;
    info.owner = ours.as_ref().map(ContenderData::owner);
    info.caller = ours.as_ref().map(ContenderData::caller).unwrap_or_default();
    info.label = if ours.is_none() { owner::label(data) } else { None };
    info.since_unix = ours.as_ref().map(ContenderData::since_unix).or(made_at);
    info.answers = match &ours {
        Some(_) => Answers::Yes,
        None if is_curators(contender.id.as_str()) => Answers::Unknown,
        None => Answers::No,
    };
    info.frozen = ours.and_then(|data| data.frozen);
    info.revocation = owner::read_request(data);
    info
}

/// The token that a contender's node itself gives.
fn own_token(data: Option<&ContenderData>, stat: &Stat) -> Option<FencingToken> {
    match data {
        Some(data) => data.token(stat.czxid),
        None => u64::try_from(stat.czxid).ok().and_then(|grant| FencingToken::new(grant, 0)),
    }
}

/// Returns the token that a contender is shown with.
pub(super) async fn token_of(
    link: &Arc<Link>,
    path: &QueuePath,
    id: &str,
    data: &[u8],
    stat: &Stat,
) -> Result<Option<FencingToken>, ClientError> {
    let data = ContenderData::read(data);
    let own = own_token(data.as_ref(), stat);
    let Named::Contender { mode: Mode::Read, sequence, .. } = Named::read(id) else {
        return Ok(own);
    };
    if data.is_some_and(|data| data.shares_place()) {
        return Ok(own);
    }
    // A contender of another client may stand in a writer's place without saying so.
    let is_its_writer = |name: &String| {
        matches!(
            Named::read(name),
            Named::Contender { mode: Mode::Write | Mode::Exclusive, sequence: number, .. } if number == sequence
        )
    };
    let Some(writer) = children(link, &path.on_server(), path.shown()).await?.into_iter().find(is_its_writer) else {
        return Ok(own);
    };
    let request = Request::GetData { path: path.child_on_server(&writer), watch: false };
    match link.call(&request, path.shown()).response().await {
        Ok(Response::GetData { data, stat }) => {
            let contender = Contender { id: ContenderId::new(writer), ticket: None, mode: Mode::Write };
            Ok(describe(&contender, &data.unwrap_or_default(), &stat).token)
        }
        Ok(_) => Err(ClientError::unexpected(OpCode::GetData, path.shown())),
        Err(error) if error.is(ErrorCode::NoNode) => Ok(own),
        Err(error) => Err(error),
    }
}

/// Lists a node's children after a sync; none if there is no such node.
pub(super) async fn children(link: &Arc<Link>, path: &str, shown: &str) -> Result<Vec<String>, ClientError> {
    let mut attempt = 1;
    loop {
        let sync = link.call(&Request::Sync { path: path.to_owned() }, shown);
        let list = link.call(&Request::GetChildren { path: path.to_owned(), watch: false }, shown);
        let listed = match sync.response().await {
            Ok(_) => list.response().await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(Response::GetChildren { children }) => return Ok(children),
            Ok(_) => return Err(ClientError::unexpected(OpCode::GetChildren, shown)),
            Err(error) if error.is(ErrorCode::NoNode) => return Ok(Vec::new()),
            Err(error) if error.kind() == ClientErrorKind::ConnectionLost && attempt < ATTEMPTS_MAX => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
