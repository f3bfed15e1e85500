//! Many locks with a contender each, and changes of them at an even pace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Ticket};
use lockkeeper_zookeeper::{Client, Config, NewNode, ZooKeeperBackend};

/// How many locks there are.
pub(crate) const LOCKS: usize = 10_000;

/// The time between two changes: 100 a second.
const CHANGE_INTERVAL: Duration = Duration::from_millis(10);

/// How many nodes one transaction makes: some 100 kB.
const NODES_AT_ONCE: usize = 250;

/// How many contenders stand at most beside those that stay; once they do, one goes and one comes in turns.
const GUESTS: usize = 500;

/// From one changed lock to the next one: all come by, far from each other.
const STEP: usize = 7_919;

/// When each lock was last changed whose change was not told yet.
pub(crate) type Untold = Arc<Mutex<BTreeMap<String, Instant>>>;

/// The locks of a server, and who changes them.
pub(crate) struct Locks {
    client: Client,
    /// What a contender of ours has in its node.
    data: Vec<u8>,
    guests: VecDeque<(usize, String)>,
    next: usize,
    pub(crate) untold: Untold,
}

pub(crate) fn name(number: usize) -> String {
    format!("job-{number}")
}

fn node(number: usize) -> String {
    format!("/lockkeeper/{}/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", name(number))
}

impl Locks {
    /// Makes the locks.
    pub(crate) async fn make(url: &str) -> Result<Self, Failed> {
        let url = url.parse()?;
        let client = Client::connect(&Config::from_url(&url)?).await?;
        let data = contender_data(&client, &ZooKeeperBackend::open(&url)?).await?;
        let locks = Self { client, data, guests: VecDeque::new(), next: 0, untold: Untold::default() };
        for first in (0..LOCKS).step_by(NODES_AT_ONCE) {
            let numbers = first..(first + NODES_AT_ONCE).min(LOCKS);
            let mut making = locks.client.transaction();
            for number in numbers {
                let lock = NewNode::persistent(format!("/lockkeeper/{}", name(number)));
                let contender = NewNode::ephemeral_sequential(node(number)).with_data(locks.data.clone());
                making = making.create(lock).create(contender);
            }
            making.commit().await?;
        }
        Ok(locks)
    }

    /// Changes locks at an even pace for a while: a contender comes, or one goes that came before.
    #[expect(clippy::disallowed_methods, reason = "a test measures how soon a change is told")]
    pub(crate) async fn change_for(&mut self, time: Duration) -> Result<(), Failed> {
        let mut pace = tokio::time::interval(CHANGE_INTERVAL);
        let end = Instant::now() + time;
        while Instant::now() < end {
            pace.tick().await;
            if self.guests.len() < GUESTS {
                self.next = (self.next + STEP) % LOCKS;
                self.note(self.next);
                let guest = NewNode::ephemeral_sequential(node(self.next)).with_data(self.data.clone());
                let made = self.client.create(guest).await?;
                self.guests.push_back((self.next, made.path));
            } else if let Some((number, path)) = self.guests.pop_front() {
                self.note(number);
                self.client.delete(&path, None).await?;
            }
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a test measures how soon a change is told")]
    fn note(&self, number: usize) {
        self.untold.lock().expect("no panic").insert(name(number), Instant::now());
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
