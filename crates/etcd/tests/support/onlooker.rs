//! One that follows all locks of a service, and what it was told.

use std::fmt::Debug;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, Follower, Picture, QueueName, Scope, Told};
use lockkeeper_etcd::EtcdBackend;

pub(crate) struct Onlooker {
    pub(crate) backend: EtcdBackend,
    follower: Follower,
    pub(crate) picture: Picture,
    /// How often all locks were told of.
    pub(crate) wholes: usize,
}

impl Onlooker {
    /// Follows all locks; comes back when all were told of.
    pub(crate) async fn begin(backend: EtcdBackend) -> Self {
        let follower = backend.follow(&Scope::default()).expect("etcd tells");
        let mut onlooker = Self { backend, follower, picture: Picture::default(), wholes: 0 };
        while !onlooker.picture.is_whole() {
            onlooker.hear().await;
        }
        onlooker
    }

    /// Hears the next telling; `None` if nothing more is told.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        soon("a telling", self.follower.next()).await
    }

    pub(crate) async fn hear(&mut self) {
        let told = self.next().await.expect("the follower goes on");
        self.wholes += usize::from(matches!(told, Told::All(_)));
        self.picture.take(told);
    }

    /// Waits until what was told is what looks show, while nothing changes.
    pub(crate) async fn until_equal(&mut self) {
        let mut expected = Vec::new();
        for name in self.backend.queues("").await.expect("the locks are named") {
            let contenders = self.backend.inspect(&name).await.expect("a look");
            expected.push(shown(&name, &contenders));
        }
        loop {
            let heard: Vec<_> = self.picture.locks().iter().map(|(name, contenders)| shown(name, contenders)).collect();
            if self.picture.lost().is_none() && heard == expected {
                return;
            }
            self.hear().await;
        }
    }
}

fn shown(name: &QueueName, contenders: &impl Debug) -> String {
    format!("{name}: {contenders:?}")
}
