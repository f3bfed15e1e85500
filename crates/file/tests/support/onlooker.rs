//! One that follows all locks of a directory, and what it was told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, FollowEvent, Follower, Picture, Scope};
use lockkeeper_file::FileBackend;

use super::backend;

#[derive(Debug)]
pub(crate) struct Onlooker {
    backend: FileBackend,
    follower: Follower,
    pub(crate) picture: Picture,
    /// How often all locks were told of.
    pub(crate) wholes: usize,
}

impl Onlooker {
    /// Follows all locks; comes back when all were told of.
    pub(crate) async fn begin(directory: &Path) -> Self {
        let backend = backend(directory);
        let follower = backend.admin().follow(&Scope::default()).expect("files tell");
        let mut onlooker = Self { backend, follower, picture: Picture::default(), wholes: 0 };
        while !onlooker.picture.is_whole() {
            onlooker.hear().await;
        }
        onlooker
    }

    /// Hears the next telling; returns the names of its locks.
    pub(crate) async fn hear(&mut self) -> Vec<String> {
        let told = soon("a telling", self.follower.next()).await.expect("the follower goes on");
        self.wholes += usize::from(matches!(told, FollowEvent::All(_)));
        self.picture.take(told).iter().map(ToString::to_string).collect()
    }

    /// Waits until what was told is what looks show, while nothing changes.
    pub(crate) async fn until_equal(&mut self) {
        let mut expected = Vec::new();
        for name in self.backend.admin().queues("").await.expect("the locks are named") {
            let contenders = self.backend.admin().inspect(&name).await.expect("a look");
            expected.push((name, contenders.into_iter().map(Arc::new).collect()));
        }
        let expected: BTreeMap<_, _> = expected.into_iter().collect();
        while self.picture.lost().is_some() || *self.picture.locks() != expected {
            self.hear().await;
        }
    }

    /// Waits until so many locks have contenders.
    pub(crate) async fn until_locks(&mut self, count: usize) {
        while self.picture.locks().len() != count {
            self.hear().await;
        }
    }
}
