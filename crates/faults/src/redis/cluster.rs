//! Several masters that share the keys by their slots.

use redis::Value;

use super::{Server, Setup};
use crate::daemon::SERVING_WITHIN;
use crate::group::Group;
use crate::server::Kind;
use crate::{Error, Result, wait};

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
        let shares: Vec<(u16, u16, Owner)> = self.servers[0].ask(&["CLUSTER", "SLOTS"]).await?;
        let share = shares.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let address = share.map(|(_, _, (host, port, ..))| format!("{host}:{port}"));
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
