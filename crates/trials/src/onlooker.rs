//! One that follows all locks of a service, and what it was told.

use std::fmt;
use std::sync::Arc;

use lockkeeper_conformance::soon;
use lockkeeper_core::{Backend, FollowEvent, Follower, Picture, QueueName, Scope};

/// A follower, with what it was told.
pub struct Onlooker {
    /// The service that is followed, to look at it.
    pub backend: Arc<dyn Backend>,
    follower: Follower,
    /// What was told so far.
    pub picture: Picture,
    /// How often all locks were told of.
    pub wholes: usize,
}

impl fmt::Debug for Onlooker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Onlooker").field("picture", &self.picture).finish_non_exhaustive()
    }
}

impl Onlooker {
    /// Follows all locks; comes back when all were told of.
    pub async fn begin(backend: Arc<dyn Backend>) -> Self {
        let follower = backend.admin().follow(&Scope::default()).expect("it can be followed");
        let mut onlooker = Self { backend, follower, picture: Picture::default(), wholes: 0 };
        onlooker.until("all locks", |_| true).await;
        onlooker
    }

    /// Hears the next telling; `None` if nothing more is told.
    pub async fn next(&mut self) -> Option<FollowEvent> {
        soon("a telling", self.follower.next()).await
    }

    /// Hears the next telling, which must come.
    pub async fn hear(&mut self) {
        let told = self.next().await.expect("the follower goes on");
        self.wholes += usize::from(matches!(told, FollowEvent::All(_)));
        self.picture.take(told);
    }

    /// Waits until what was told is so.
    pub async fn until(&mut self, what: &str, is_so: impl Fn(&Picture) -> bool + Send + Sync) {
        let hearing = async {
            while self.picture.lost().is_some() || !self.picture.is_whole() || !is_so(&self.picture) {
                self.hear().await;
            }
        };
        soon(what, hearing).await;
    }

    /// Waits until these locks, and no other, are told to have so many contenders.
    pub async fn until_counts(&mut self, expected: &[(&str, usize)]) {
        let expected: Vec<_> = expected.iter().map(|&(lock, count)| (lock.to_owned(), count)).collect();
        let counts = |picture: &Picture| {
            let locks = picture.locks().iter();
            locks.map(|(lock, contenders)| (lock.to_string(), contenders.len())).collect::<Vec<_>>()
        };
        self.until(&format!("{expected:?}"), |picture| counts(picture) == expected).await;
    }

    /// Waits until what was told is what looks show, while nothing changes.
    pub async fn until_equal(&mut self) {
        let mut expected = Vec::new();
        for name in self.backend.admin().queues("").await.expect("the locks are named") {
            let contenders = self.backend.admin().inspect(&name).await.expect("a look");
            expected.push(shown(&name, &contenders));
        }
        let shown = |picture: &Picture| {
            picture.locks().iter().map(|(name, contenders)| shown(name, contenders)).collect::<Vec<_>>()
        };
        self.until("what looks show", |picture| shown(picture) == expected).await;
    }
}

fn shown(name: &QueueName, contenders: &impl fmt::Debug) -> String {
    format!("{name}: {contenders:?}")
}
