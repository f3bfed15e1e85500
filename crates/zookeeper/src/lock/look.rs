//! Looking at queues without taking part: who stands there, and which queues there are.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use lockkeeper_core::clock::Clock;
use lockkeeper_core::{Contender, ContenderInfo, FencingToken, Operation, QueueName, Result};
use lockkeeper_zk_proto::message::{ErrorCode, OpCode, Request, Response, Stat};
use tokio::sync::Mutex;

use crate::client::Client;
use crate::config::Config;
use crate::dial::Dial;
use crate::error::{ClientError, ClientErrorKind};
use crate::layout::{ForeignPolicy, read_queue};
use crate::link::{Call, Link};
use crate::lock::owner;
use crate::lock::paths::QueuePath;

/// How many reads are under way at once: enough to fill a round trip, and far from what a session may queue.
const READS_AT_ONCE_MAX: usize = 500;

/// How often a look is tried again because the connection was lost under it.
const ATTEMPTS_MAX: u32 = 3;

/// Where looks go: over the session of a lock if there is one, else over a client of its own, opened at the first look.
pub(super) struct Onlooker {
    config: Arc<Config>,
    dial: Arc<dyn Dial>,
    clock: Arc<dyn Clock>,
    client: Mutex<Option<Client>>,
    /// The session that was opened last for locks; servers limit the connections of one address.
    lent: StdMutex<Weak<Link>>,
}

impl Onlooker {
    pub(super) fn new(config: Arc<Config>, dial: Arc<dyn Dial>, clock: Arc<dyn Clock>) -> Self {
        Self { config, dial, clock, client: Mutex::default(), lent: StdMutex::default() }
    }

    /// Lets looks go over a lock's session for as long as that stands.
    pub(super) fn lend(&self, link: &Arc<Link>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(link);
    }

    /// Closes the client of its own, if there is one.
    pub(super) async fn close(&self) -> Result<()> {
        match self.client.lock().await.take() {
            Some(client) => client.close().await.map_err(|error| error.into_core(Operation::Close, None)),
            None => Ok(()),
        }
    }

    async fn link(&self) -> Result<Arc<Link>, ClientError> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(link) = lent.filter(|link| !link.is_over() && link.bond().liveness().is_held()) {
            return Ok(link);
        }
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.link().is_over()) {
            return Ok(client.link().clone());
        }
        let client = Client::connect_over(&self.config, self.dial.clone(), self.clock.clone()).await?;
        let link = client.link().clone();
        *slot = Some(client);
        Ok(link)
    }

    /// Shows who stands in a queue, first contender first.
    pub(super) async fn inspect(&self, queue: &QueueName) -> Result<Vec<ContenderInfo>> {
        let fail = |error: ClientError| error.into_core(Operation::Inspect, None).at(queue);
        let link = self.link().await.map_err(fail)?;
        let path = QueuePath::of(queue, &self.config.base, link.chroot())?;
        let on_server = path.on_server();
        let children = children(&link, &on_server, path.shown()).await.map_err(fail)?;
        // Whoever looks sees everybody, also those that a lock would refuse to queue with.
        let contenders = read_queue(children, ForeignPolicy::Wait).contenders;
        let mut infos = Vec::with_capacity(contenders.len());
        for batch in contenders.chunks(READS_AT_ONCE_MAX) {
            let read = |contender: &Contender| {
                let request = Request::GetData { path: path.child_on_server(contender.id.as_str()), watch: false };
                link.call(&request, path.shown())
            };
            let calls: Vec<Call> = batch.iter().map(read).collect();
            for (contender, call) in batch.iter().zip(calls) {
                match call.response().await {
                    Ok(Response::GetData { data, stat }) => {
                        infos.push(describe(contender, &data.unwrap_or_default(), &stat));
                    }
                    Err(error) if error.is(ErrorCode::NoNode) => {}
                    // It stands there all the same.
                    Err(error) if error.is(ErrorCode::NoAuth) => {
                        infos.push(ContenderInfo::new(contender.id.clone(), contender.mode));
                    }
                    Ok(_) => return Err(fail(ClientError::unexpected(OpCode::GetData, path.shown()))),
                    Err(error) => return Err(fail(error)),
                }
            }
        }
        Ok(infos)
    }

    /// Names the queues below the base in which anybody stands. Queues at paths of their own are not among them.
    pub(super) async fn queues(&self, prefix: &str) -> Result<Vec<QueueName>> {
        let fail = |error: ClientError| error.into_core(Operation::Inspect, None);
        let link = self.link().await.map_err(fail)?;
        let base = link.chroot().join(&self.config.base);
        let shown = self.config.base.as_str();
        let nodes = children(&link, base.as_str(), shown).await.map_err(fail)?;
        let mut names = Vec::new();
        for batch in nodes.chunks(READS_AT_ONCE_MAX) {
            let read = |node: &String| {
                let path = if base.is_root() { format!("/{node}") } else { format!("{base}/{node}") };
                link.call(&Request::GetData { path, watch: false }, shown)
            };
            let calls: Vec<Call> = batch.iter().map(read).collect();
            for (node, call) in batch.iter().zip(calls) {
                match call.response().await {
                    Ok(Response::GetData { data, stat }) if stat.num_children > 0 => {
                        let name = QueueName::decode(node);
                        names.extend(name.or_else(|| owner::read_queue_data(&data.unwrap_or_default(), node)));
                    }
                    Ok(_) => {}
                    Err(error) if error.is(ErrorCode::NoNode) || error.is(ErrorCode::NoAuth) => {}
                    Err(error) => return Err(fail(error)),
                }
            }
        }
        names.retain(|name| name.as_str().starts_with(prefix));
        names.sort();
        Ok(names)
    }
}

/// Lists a node's children after a sync; none if there is no such node.
async fn children(link: &Arc<Link>, path: &str, shown: &str) -> Result<Vec<String>, ClientError> {
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

fn describe(contender: &Contender, data: &[u8], stat: &Stat) -> ContenderInfo {
    let (owner, since_unix) = owner::read_contender_data(data).unzip();
    let made_at = u64::try_from(stat.ctime).ok().map(Duration::from_millis);
    let session = (stat.ephemeral_owner != 0).then(|| format!("{:#x}", stat.ephemeral_owner));
    let mut info = ContenderInfo::new(contender.id.clone(), contender.mode);
    info.token = u64::try_from(stat.czxid).ok().and_then(|grant| FencingToken::new(grant, 0));
    info.session = session;
    info.owner = owner;
    info.since_unix = since_unix.or(made_at);
    info
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Onlooker").field(&self.config).finish()
    }
}
