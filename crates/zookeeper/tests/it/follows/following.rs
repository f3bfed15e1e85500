//! A follower's reports, compared with looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_conformance::{SOON, soon};
use lockkeeper_core::{Backend, ContenderInfo, Error, FollowEvent, Follower, LockSnapshot, Picture, QueueName, Scope};
use lockkeeper_zookeeper::ZooKeeperBackend;

pub(crate) struct Following {
    backend: Arc<ZooKeeperBackend>,
    scope: Scope,
    follower: Follower,
    pub(crate) picture: Picture,
}

impl Following {
    pub(crate) async fn begin(backend: Arc<ZooKeeperBackend>, scope: Scope) -> Self {
        let follower = backend.admin().follow(&scope).expect("it can be followed");
        let mut following = Self { backend, scope, follower, picture: Picture::default() };
        while !following.picture.is_whole() {
            following.hear().await;
        }
        following
    }

    pub(crate) async fn hear(&mut self) {
        soon("the next event", self.take_next()).await;
    }

    async fn take_next(&mut self) {
        let told = self.follower.next().await.expect("the follower goes on");
        self.picture.take(told);
    }

    /// What looks show of all locks with contenders that are followed.
    async fn looks(&self) -> BTreeMap<QueueName, Vec<Arc<ContenderInfo>>> {
        let mut locks = self.backend.admin().queues(&self.scope.prefix).await.expect("the locks are named");
        locks.extend(self.scope.also.iter().cloned());
        let mut shown = BTreeMap::new();
        for lock in locks {
            let contenders = self.backend.admin().inspect(&lock).await.expect("the lock is looked at");
            if !contenders.is_empty() {
                shown.insert(lock, contenders.into_iter().map(Arc::new).collect());
            }
        }
        shown
    }

    /// Waits until the follower has told what looks show, while nothing changes; returns how many contenders stand.
    pub(crate) async fn until_equal(&mut self) -> usize {
        self.until_equal_within(SOON).await
    }

    /// As [`until_equal`](Self::until_equal), where changes are told later than soon.
    pub(crate) async fn until_equal_within(&mut self, time: Duration) -> usize {
        let expected = soon("the looks", self.looks()).await;
        let equal = async {
            while self.picture.lost().is_some() || *self.picture.locks() != expected {
                self.take_next().await;
            }
        };
        if tokio::time::timeout(time, equal).await.is_err() {
            panic!("after {time:?} the follower has\n{:#?}\nand looks show\n{expected:#?}", self.picture.locks());
        }
        expected.values().map(Vec::len).sum()
    }
}

/// Waits until a follower ends, and returns why.
pub(crate) async fn end_of(mut follower: Follower) -> Error {
    let mut why = None;
    while let Some(told) = soon("the end", follower.next()).await {
        match told {
            FollowEvent::Lost(error) => why = Some(error),
            FollowEvent::All(locks) | FollowEvent::Changed(locks) => drop::<Vec<LockSnapshot>>(locks),
            _ => {}
        }
    }
    why.expect("it said why")
}
