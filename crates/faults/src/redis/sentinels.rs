//! A master with replicas, and the sentinels that agree on a new master.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::{Server, Setup};
use crate::daemon::SERVING_WITHIN;
use crate::{Error, Result, wait};

/// How many sentinels there are, and how many of them must miss a master to replace it.
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// How long a server may be silent before a sentinel misses it. A loaded machine keeps one waiting for a while, too.
const MISSED_AFTER_MS: u32 = 3_000;

/// How long a sentinel waits before it tries again to replace a master.
const AGAIN_AFTER_MS: u32 = 9_000;

/// Real servers that sentinels watch, both numbered from 0; dropping it kills them all.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl Sentinels {
    /// The name of the master.
    pub const MASTER: &str = "locks";

    /// Starts a master (server 0) with so many replicas, and three sentinels; waits until all know one another.
    pub async fn start(replicas: usize) -> Result<Self> {
        let mut servers = vec![Setup::new().start().await?];
        for _ in 0..replicas {
            let replica = Setup::new().replica_of(&servers[0]).start().await?;
            replica.replicating().await?;
            servers.push(replica);
        }
        let mut sentinels = Vec::new();
        for _ in 0..SENTINELS {
            sentinels.push(Setup::sentinel(watching(servers[0].address())).start().await?);
        }
        let this = Self { servers, sentinels };
        this.acquainted().await?;
        Ok(this)
    }

    /// Waits until each sentinel knows the other ones and the replicas.
    async fn acquainted(&self) -> Result<()> {
        let known = [("num-slaves", self.servers.len() - 1), ("num-other-sentinels", SENTINELS - 1)];
        let wanted = known.map(|(field, count)| (field, count.to_string()));
        for sentinel in &self.sentinels {
            wait::until(&format!("{} knowing the others", sentinel.address()), SERVING_WITHIN, async || {
                let asked = sentinel.ask::<HashMap<String, String>>(&["SENTINEL", "MASTER", Self::MASTER]).await;
                let told = asked.ok()?;
                wanted.iter().all(|(field, count)| told.get(*field) == Some(count)).then_some(())
            })
            .await?;
        }
        Ok(())
    }

    /// Where clients ask for the master, by index of the sentinels.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// The servers, by index.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One server, to kill or to pause.
    pub fn server_mut(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// The index of the master that all sentinels name and that takes itself for one, waiting until they agree.
    /// Sentinels that do not run are passed over.
    pub async fn master(&self) -> Result<usize> {
        self.master_but(None).await
    }

    /// Has a replica promoted in the master's place, as an operator does; returns the new master's index.
    pub async fn failover(&self) -> Result<usize> {
        let old = self.master().await?;
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.pid().is_some());
        let sentinel = sentinel.ok_or_else(|| Error::new("no sentinel runs"))?;
        // A replica is fit once the sentinel has heard of it lately.
        wait::until("a failover", SERVING_WITHIN, async || {
            sentinel.ask::<()>(&["SENTINEL", "FAILOVER", Self::MASTER]).await.ok()
        })
        .await?;
        self.master_but(Some(old)).await
    }

    async fn master_but(&self, old: Option<usize>) -> Result<usize> {
        wait::until("a master that all sentinels name", SERVING_WITHIN, async || {
            let mut named = Vec::new();
            for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.pid().is_some()) {
                let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER];
                let (host, port) = sentinel.ask::<(String, u16)>(&question).await.ok()?;
                named.push(format!("{host}:{port}"));
            }
            let first = named.first().filter(|first| named.iter().all(|name| name == *first))?;
            let index = self.servers.iter().position(|server| server.address().to_string() == *first)?;
            let is_master = self.servers[index].info("role").await.ok()? == "master";
            (is_master && Some(index) != old).then_some(index)
        })
        .await
    }
}

/// What makes a sentinel watch a master.
fn watching(master: SocketAddr) -> [String; 3] {
    let name = Sentinels::MASTER;
    [
        format!("sentinel monitor {name} {} {} {QUORUM}", master.ip(), master.port()),
        format!("sentinel down-after-milliseconds {name} {MISSED_AFTER_MS}"),
        format!("sentinel failover-timeout {name} {AGAIN_AFTER_MS}"),
    ]
}
