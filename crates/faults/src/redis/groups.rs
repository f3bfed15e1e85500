//! Several servers: a master with replicas, and the sentinels that agree on a new master; and masters that share the
//! keys by their slots.

use std::collections::HashMap;
use std::net::SocketAddr;

use redis::{Value, from_redis_value_ref};

use super::{Server, Setup};
use crate::daemon::SERVING_WITHIN;
use crate::server::{Group, Kind};
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

/// How many masters there are: the fewest that a cluster is recommended with.
const MASTERS: u16 = 3;

/// How many slots there are, over all masters.
const SLOTS: u16 = 16_384;

/// How many keys of a slot move at once, and how long that may take, in milliseconds.
const KEYS_AT_ONCE: &str = "100";
const MOVED_WITHIN_MS: &str = "60000";

/// How `CLUSTER SLOTS` tells a server: host, port, name, and more about it.
type Owner = (String, u16, Value, Value);

/// A cluster of three real masters without replicas, numbered from 0; dropping it kills them all.
pub type Cluster = Group<Setup>;

impl Cluster {
    /// Starts three masters that share all slots, and waits until all take the cluster for whole.
    pub async fn start() -> Result<Self> {
        let member = Setup::member();
        let grounds = (0..MASTERS).map(|_| member.ground());
        let this = Self::prepare(grounds, |_, _| member.clone())?.started().await?;
        for (server, index) in this.servers.iter().zip(0..) {
            let share = |index: u16| u32::from(SLOTS) * u32::from(index) / u32::from(MASTERS);
            let (first, last) = (share(index).to_string(), (share(index + 1) - 1).to_string());
            server.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
            // Masters that have met with the same epoch first sort out whose is greater.
            server.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await?;
        }
        for server in &this.servers[1..] {
            this.meet(server).await?;
        }
        for server in &this.servers {
            until_whole(server).await?;
        }
        Ok(this)
    }

    /// Has a server meet the others.
    async fn meet(&self, server: &Server) -> Result<()> {
        let (host, port) = (server.address().ip().to_string(), server.address().port().to_string());
        let members = server.daemon.peer_address(1).port().to_string();
        self.servers[0].ask(&["CLUSTER", "MEET", &host, &port, &members]).await
    }

    /// Starts a replica of a server, and waits until it follows that.
    pub async fn replica_of(&self, index: usize) -> Result<Server> {
        let (replica, master) = (Setup::member().start().await?, id(&self.servers[index]).await?);
        self.meet(&replica).await?;
        wait::until(&format!("{} in the cluster", replica.address()), SERVING_WITHIN, async || {
            replica.ask::<()>(&["CLUSTER", "REPLICATE", &master]).await.ok()
        })
        .await?;
        replica.replicating().await?;
        until_whole(&replica).await?;
        Ok(replica)
    }

    /// The slot of a key.
    pub async fn slot_of(&self, key: &str) -> Result<u16> {
        self.servers[0].ask(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// The index of the server that has a slot, as the first server knows it.
    pub async fn owner(&self, slot: u16) -> Result<usize> {
        // A share is its slots and then its servers, the master before its replicas.
        let shares: Vec<Vec<Value>> = self.servers[0].ask(&["CLUSTER", "SLOTS"]).await?;
        let owner = shares.iter().find_map(|share| {
            let [first, last, master, ..] = share.as_slice() else { return None };
            let slots = from_redis_value_ref::<u16>(first).ok()?..=from_redis_value_ref(last).ok()?;
            slots.contains(&slot).then(|| from_redis_value_ref::<Owner>(master).ok())?
        });
        let address = owner.map(|(host, port, ..)| format!("{host}:{port}"));
        let index = self.servers.iter().position(|server| Some(server.address().to_string()) == address);
        index.ok_or_else(|| Error::new(format!("no server has slot {slot}")))
    }

    /// Moves a slot with all its keys to another server, while clients go on: `ASK` for keys that have moved, `MOVED`
    /// when all have. It also ends a move that was [begun](Self::begin_to_move_slot).
    pub async fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.owner(slot).await?;
        if from == to {
            return Ok(());
        }
        self.begin_to_move_slot(slot, to, |_| true).await?;
        let (number, target_id) = (slot.to_string(), id(&self.servers[to]).await?);
        // The target first: it must not learn from another that the slot is its own.
        let others = self.servers.iter().enumerate().filter(|(index, _)| *index != to).map(|(_, server)| server);
        for server in [&self.servers[to]].into_iter().chain(others) {
            server.ask::<()>(&["CLUSTER", "SETSLOT", &number, "NODE", &target_id]).await?;
        }
        Ok(())
    }

    /// Begins to move a slot to another server, as a move that was interrupted leaves it: both know of it, and the keys
    /// that are to move have moved.
    pub async fn begin_to_move_slot(&self, slot: u16, to: usize, moves: impl Fn(&[u8]) -> bool) -> Result<()> {
        let (source, target, number) = (&self.servers[self.owner(slot).await?], &self.servers[to], slot.to_string());
        let (source_id, target_id) = (id(source).await?, id(target).await?);
        target.ask::<()>(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &source_id]).await?;
        source.ask::<()>(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &target_id]).await?;
        let (host, port) = (target.address().ip().to_string(), target.address().port().to_string());
        loop {
            let mut keys: Vec<Vec<u8>> = source.ask(&["CLUSTER", "GETKEYSINSLOT", &number, KEYS_AT_ONCE]).await?;
            keys.retain(|key| moves(key));
            if keys.is_empty() {
                return Ok(());
            }
            let command =
                ["MIGRATE", &host, &port, "", "0", MOVED_WITHIN_MS, "KEYS"].map(|word| word.as_bytes().to_vec());
            source.ask::<()>(&[command.to_vec(), keys].concat()).await?;
        }
    }
}

/// Waits until a server takes the cluster for whole.
async fn until_whole(server: &Server) -> Result<()> {
    wait::until(&format!("{} in a whole cluster", server.address()), SERVING_WITHIN, async || {
        let state: String = server.ask(&["CLUSTER", "INFO"]).await.ok()?;
        let whole = ["cluster_state:ok".to_owned(), format!("cluster_size:{MASTERS}")];
        whole.iter().all(|line| state.lines().any(|said| said == line)).then_some(())
    })
    .await
}

/// By what the others of the cluster know a server.
async fn id(server: &Server) -> Result<String> {
    server.ask(&["CLUSTER", "MYID"]).await
}
