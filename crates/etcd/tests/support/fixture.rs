//! The fixture of the conformance suite: real servers, separate for each case, or shared by all with a separate base
//! for each; and a proxy for each client and server. Which servers these are, the binary of each suite says.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance as suite;
use lockkeeper_conformance::{Fault, FaultKind, Fixture, Sessions, soon};
use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, BoxFuture, ContenderId, Part, QueueName, Result};
use lockkeeper_etcd::{ClientTesting, Config, EtcdBackend};
use lockkeeper_faults::etcd::Server;
use lockkeeper_faults::proxy::{Direction, Flow};
use lockkeeper_trials::fixture::{Clients, Way, on_one_thread, until_seen};
use tokio::sync::Mutex;

use crate::operator::Operator;

/// How much later than its time a lease may end: the server looks at its leases twice a second.
const LEASE_LATE_MAX: Duration = Duration::from_millis(1_500);

/// The scheme of the keys of contenders.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Naming {
    Ours,
    /// Those that are shared with `etcdctl`: a lock's name is the prefix of its keys, beside the base.
    Etcdctl,
}

/// The servers of a case, or of all cases. The harness's futures stay on one thread.
pub(crate) trait Service: Debug + Send {
    fn addresses(&self) -> Vec<SocketAddr>;

    /// Stops them and starts them again with their data; comes back when they serve.
    fn restart(&mut self) -> Acting<'_>;

    /// Stops them and starts them again without any data; comes back when they serve.
    fn wipe(&mut self) -> Acting<'_>;

    fn pause(&mut self) -> lockkeeper_faults::Result<()>;

    fn resume(&mut self) -> lockkeeper_faults::Result<()>;
}

pub(crate) type Acting<'a> = Pin<Box<dyn Future<Output = lockkeeper_faults::Result<()>> + 'a>>;

impl Service for Server {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address()]
    }

    fn restart(&mut self) -> Acting<'_> {
        Box::pin(Self::restart(self))
    }

    fn wipe(&mut self) -> Acting<'_> {
        Box::pin(Self::wipe(self))
    }

    fn pause(&mut self) -> lockkeeper_faults::Result<()> {
        Self::pause(self)
    }

    fn resume(&mut self) -> lockkeeper_faults::Result<()> {
        Self::resume(self)
    }
}

/// One case's service, or its part of one.
#[derive(Clone, Debug)]
pub(crate) struct EtcdFixture {
    service: Arc<Mutex<dyn Service>>,
    /// Whether other cases use it, below other bases.
    is_shared: bool,
    addresses: Vec<SocketAddr>,
    base: String,
    naming: Naming,
    clients: Clients<ClientTesting>,
}

impl EtcdFixture {
    /// A case whose keys lie below this base, on servers that other cases may use too.
    pub(crate) async fn new(service: Arc<Mutex<dyn Service>>, is_shared: bool, base: String, naming: Naming) -> Self {
        let addresses = service.lock().await.addresses();
        Self { service, is_shared, addresses, base, naming, clients: Clients::default() }
    }

    /// The key of a contender, whose identity ends with the revision at which it was created.
    fn key(&self, queue: &QueueName, contender: &ContenderId) -> String {
        let (contender, _) = contender.as_str().rsplit_once(':').expect("an identity");
        if self.naming == Naming::Etcdctl {
            return format!("{queue}/{contender}");
        }
        let part = match queue.part() {
            Part::Line => "l",
            Part::Waiters => "g",
            Part::Permits => "p",
        };
        format!("{}/q/{}/{part}/{contender}", self.base, queue.encoded())
    }

    /// Any member answers an operator.
    fn operator(&self) -> Operator {
        Operator(self.addresses[0])
    }
}

impl Fixture for EtcdFixture {
    fn prepare(&self, sessions: Sessions) {
        self.clients.prepare(sessions);
    }

    fn client(&self) -> BoxFuture<Result<Arc<dyn suite::Client>>> {
        let fixture = self.clone();
        Box::pin(async move {
            let open = |servers: &[SocketAddr]| {
                let hosts = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                let (base, seconds) = (&fixture.base, fixture.clients.session_timeout().as_secs());
                let layout = if fixture.naming == Naming::Etcdctl { "&layout=etcdctl" } else { "" };
                let url = format!("etcd://{hosts}{base}?session_timeout={seconds}s{layout}");
                let backend = Arc::new(EtcdBackend::with(Config::from_url(&url.parse()?)?, Arc::new(SystemClock)));
                let testing = backend.testing();
                Ok((backend, testing))
            };
            let (backend, way) = fixture.clients.add(&fixture.addresses, open).await?;
            Ok(Arc::new(EtcdClient { fixture, way, backend }) as Arc<dyn suite::Client>)
        })
    }

    fn can_inflict(&self, _kind: FaultKind) -> bool {
        true
    }

    fn session_timeout(&self) -> Option<Duration> {
        Some(self.clients.session_timeout() + LEASE_LATE_MAX)
    }

    /// The contenders and values, by the server's own account.
    fn leftovers(&self) -> BoxFuture<Result<Vec<String>>> {
        let (operator, base, naming) = (self.operator(), self.base.clone(), self.naming);
        Box::pin(async move {
            let below_base = format!("{base}/");
            let stored = operator.keys(if naming == Naming::Ours { &below_base } else { "" }).await?;
            let is_left = |key: &String| match key.strip_prefix(&base) {
                Some(rest) => rest.starts_with("/q/") || (rest.starts_with("/v/") && !rest.ends_with("/p")),
                None => true,
            };
            Ok(stored.into_iter().map(|stored| stored.key).filter(is_left).collect())
        })
    }
}

#[derive(Clone, Debug)]
struct EtcdClient {
    fixture: EtcdFixture,
    way: Way<ClientTesting>,
    backend: Arc<EtcdBackend>,
}

impl EtcdClient {
    /// Has the service end the session. A session that runs out at its timeout is known to its owner before the service
    /// ends it; here the owner is told first, and then the others.
    async fn expire(self) -> Result<()> {
        let (clients, testing) = (&self.fixture.clients, &self.way.testing);
        let ending = async {
            let losses = testing.losses();
            if self.fixture.operator().revoke(testing.session().parse().unwrap_or_default()).await? {
                // A client that stands still is told later.
                let is_told = || testing.losses() > losses;
                let _ = tokio::time::timeout(clients.session_timeout(), until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&self.way, ending).await
    }

    /// Deletes a contender's key. Its owner and those behind it are told in no certain order; here the owner is told
    /// first, unless its runtime stands still.
    async fn remove(self, key: String, stands_still: bool) -> Result<()> {
        let (clients, operator) = (&self.fixture.clients, self.fixture.operator());
        let stored = operator.keys("").await?;
        let lease = stored.iter().find(|stored| stored.key == key).expect("the contender is there").lease;
        let owner = clients.ways().into_iter().find(|way| way.testing.session() == lease.to_string());
        let owner = owner.expect("one of the clients owns it");
        let removing = async {
            let removals = owner.testing.removals();
            assert!(operator.delete(&key).await?, "{key} is there");
            // A client whose runtime stands still is told later.
            if !stands_still {
                let is_told = || owner.testing.removals() > removals;
                soon("the owner's word that its key is gone", until_seen(is_told)).await;
            }
            Ok(())
        };
        clients.before_others(&owner, removing).await
    }

    /// Has the service stand still, or go on: to the clients of this case, if it has others.
    fn stand_still(&self, is_still: bool) -> BoxFuture<Result<()>> {
        if self.fixture.is_shared {
            let flow = if is_still { Flow::Hold } else { Flow::Pass };
            self.fixture.clients.ways().iter().for_each(|way| way.set_flow(Direction::ToServer, flow));
            return Box::pin(std::future::ready(Ok(())));
        }
        on_one_thread(
            &self.fixture.service,
            async move |mut service| if is_still { service.pause() } else { service.resume() },
        )
    }
}

impl suite::Client for EtcdClient {
    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn inflict(&self, fault: Fault) -> BoxFuture<Result<()>> {
        match fault {
            Fault::ExpireSession => return Box::pin(self.clone().expire()),
            Fault::Cut => self.way.cut(),
            Fault::Heal => self.way.heal(),
            Fault::Pause => return self.stand_still(true),
            Fault::Resume => return self.stand_still(false),
            Fault::LoseReply(operation) => self.way.testing.lose_reply(operation),
            Fault::RemoveContender { queue, contender, stands_still } => {
                let key = self.fixture.key(&queue, &contender);
                return Box::pin(self.clone().remove(key, stands_still));
            }
            Fault::Wipe => return on_one_thread(&self.fixture.service, async |mut service| service.wipe().await),
            Fault::Restart => return on_one_thread(&self.fixture.service, async |mut service| service.restart().await),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
