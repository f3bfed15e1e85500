//! Many locks with a contender each, and changes of them at an even pace.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Ticket};
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};

pub(crate) const LOCKS: usize = 10_000;

/// The time between two changes: 100 a second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);

/// How many nodes one transaction makes: some 100 kB.
const NODES_AT_ONCE: usize = 250;

/// How many contenders stand at most beside those that stay; once they do, one goes and one comes in turns.
const GUESTS: usize = 500;

/// From one changed lock to the next one: all come by, far from each other.
const STEP: usize = 7_919;

pub(crate) struct Locks {
    client: Client,
    /// What a contender of ours has in its node.
    data: Vec<u8>,
    guests: VecDeque<String>,
    next: usize,
}

fn lock(number: usize) -> String {
    format!("/lockkeeper/job-{number}")
}

impl Locks {
    pub(crate) async fn make(url: &str) -> Result<Self, Failed> {
        let url = url.parse()?;
        let client = Client::connect(&Config::from_url(&url)?).await?;
        let data = contender_data(&client, &ZooKeeperBackend::open(&url)?).await?;
        let locks = Self { client, data, guests: VecDeque::new(), next: 0 };
        for first in (0..LOCKS).step_by(NODES_AT_ONCE) {
            let mut making = locks.client.transaction();
            for number in first..(first + NODES_AT_ONCE).min(LOCKS) {
                making = making.create(NewNode::persistent(lock(number))).create(locks.contender(number));
            }
            making.commit().await?;
        }
        Ok(locks)
    }

    fn contender(&self, number: usize) -> NewNode {
        let node = format!("{}/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", lock(number));
        NewNode::ephemeral_sequential(node).with_data(self.data.clone())
    }

    /// Changes locks at an even pace for a while: a contender comes, or one goes that came before.
    #[expect(clippy::disallowed_methods, reason = "a test measures work over time")]
    pub(crate) async fn change_for(&mut self, time: Duration) -> Result<(), Failed> {
        let mut pace = tokio::time::interval(CHANGE_INTERVAL);
        let end = Instant::now() + time;
        while Instant::now() < end {
            pace.tick().await;
            if self.guests.len() < GUESTS {
                self.next = (self.next + STEP) % LOCKS;
                self.guests.push_back(self.client.create(self.contender(self.next)).await?.path);
            } else if let Some(path) = self.guests.pop_front() {
                self.client.delete(&path, None).await?;
            }
        }
        Ok(())
    }
}

/// Reads what a contender of ours has in its node.
async fn contender_data(client: &Client, backend: &ZooKeeperBackend) -> Result<Vec<u8>, Failed> {
    let (session, queue) = (backend.session().await?, QueueName::new("sample")?);
    let entry = Entry::new(Ticket::mint()?, Mode::Mutex, Arc::new(Owner::this_process()));
    let joined = session.enqueue_one(&queue, entry).await?;
    let (data, _) = client.get_data(&format!("/lockkeeper/sample/{}", joined.id)).await?;
    session.close().await?;
    Ok(data.to_vec())
}
