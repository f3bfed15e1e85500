//! The queues themselves: who stands where. No futures and no faults here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::contender::{Contender, ContenderId, ContenderInfo, Entry, Mode, Owner, QueueView, Ticket, Version};
use crate::{FencingToken, QueueName};

/// One contender, as the service keeps it.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) id: ContenderId,
    pub(super) token: FencingToken,
    session: u64,
    ticket: Ticket,
    mode: Mode,
    owner: Arc<Owner>,
    since_unix: Duration,
    /// Turns true when the contender leaves, and wakes those who watch this one, and nobody else.
    departed: watch::Sender<bool>,
}

impl Stored {
    /// Watches for the departure of this contender.
    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.departed.subscribe()
    }
}

/// All queues of one service.
#[derive(Debug, Default)]
pub(super) struct Queues {
    by_name: BTreeMap<QueueName, Vec<Stored>>,
    last_grant: u64,
}

impl Queues {
    /// Puts an entry at the tail.
    pub(super) fn join(&mut self, queue: &QueueName, entry: Entry, session: u64, since_unix: Duration) -> &Stored {
        self.last_grant += 1;
        let stored = Stored {
            id: ContenderId::new(format!("{:020}", self.last_grant)),
            token: FencingToken::new(self.last_grant, 0).expect("one process never counts beyond 2^63"),
            session,
            ticket: entry.ticket,
            mode: entry.mode,
            owner: entry.owner,
            since_unix,
            departed: watch::Sender::new(false),
        };
        let contenders = self.by_name.entry(queue.clone()).or_default();
        contenders.push(stored);
        contenders.last().expect("one was just added")
    }

    pub(super) fn remove(&mut self, queue: &QueueName, ticket: Ticket) {
        self.retain(|name, stored| name != queue || stored.ticket != ticket);
    }

    pub(super) fn remove_session(&mut self, session: u64) {
        self.retain(|_, stored| stored.session != session);
    }

    pub(super) fn remove_contender(&mut self, queue: &QueueName, id: &ContenderId) {
        self.retain(|name, stored| name != queue || stored.id != *id);
    }

    fn retain(&mut self, keep: impl Fn(&QueueName, &Stored) -> bool) {
        self.by_name.retain(|name, contenders| {
            contenders.retain(|stored| {
                let stays = keep(name, stored);
                if !stays {
                    stored.departed.send_replace(true);
                }
                stays
            });
            !contenders.is_empty()
        });
    }

    pub(super) fn find(&self, queue: &QueueName, id: &ContenderId) -> Option<&Stored> {
        self.contenders(queue).iter().find(|stored| stored.id == *id)
    }

    pub(super) fn view(&self, queue: &QueueName, version: Version) -> QueueView {
        let contenders = self
            .contenders(queue)
            .iter()
            .map(|stored| Contender { id: stored.id.clone(), ticket: Some(stored.ticket), mode: stored.mode })
            .collect();
        QueueView { version, contenders }
    }

    pub(super) fn inspect(&self, queue: &QueueName) -> Vec<ContenderInfo> {
        let info = |stored: &Stored| ContenderInfo {
            token: Some(stored.token),
            session: Some(stored.session.to_string()),
            owner: Some((*stored.owner).clone()),
            since_unix: Some(stored.since_unix),
            ..ContenderInfo::new(stored.id.clone(), stored.mode)
        };
        self.contenders(queue).iter().map(info).collect()
    }

    pub(super) fn names(&self, prefix: &str) -> Vec<QueueName> {
        self.by_name.keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect()
    }

    fn contenders(&self, queue: &QueueName) -> &[Stored] {
        self.by_name.get(queue).map_or(&[], Vec::as_slice)
    }
}
