//! One of several locks, and its place in the common order.

use lockkeeper_core::{Caller, Mode, QueueName, Result, Wait};

use crate::contend::OnePlace;
use crate::lock::Lock;
use crate::mutex::Mutex;
use crate::owner_key::OwnerKey;
use crate::owner_key::multi_lock::guard::Taken;
use crate::rw_lock::RwLock;

/// One of the locks of a [`MultiLock`](crate::MultiLock), with its mode.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Member {
    /// A mutex.
    Mutex(Mutex),
    /// A share of a read/write lock.
    Read(RwLock),
    /// A read/write lock, alone.
    Write(RwLock),
}

impl Member {
    /// Asks for a share of this lock.
    pub const fn read(rw_lock: RwLock) -> Self {
        Self::Read(rw_lock)
    }

    /// Asks for this lock alone.
    pub const fn write(rw_lock: RwLock) -> Self {
        Self::Write(rw_lock)
    }

    pub(super) const fn wanted(&self) -> (&Lock, Mode) {
        match self {
            Self::Mutex(mutex) => (&mutex.lock, Mode::Mutex),
            Self::Read(rw_lock) => (&rw_lock.lock, Mode::Read),
            Self::Write(rw_lock) => (&rw_lock.lock, Mode::Write),
        }
    }

    /// Returns its place in the common order.
    pub(super) fn rank(&self) -> (String, &QueueName) {
        let (lock, _) = self.wanted();
        (lock.shared.backend.service(), &lock.queue)
    }

    pub(super) async fn grant(&self, owner: &OwnerKey, wait: Wait) -> Result<Option<Taken>> {
        let (lock, _) = self.wanted();
        Ok(match self {
            Self::Mutex(_) => owner.have(lock, wait).await?.map(Taken::Mutex),
            Self::Read(_) => owner.have(lock, wait).await?.map(Taken::Read),
            Self::Write(_) => owner.have(lock, wait).await?.map(Taken::Write),
        })
    }

    /// Tells whether it looks free, without a write.
    pub(super) async fn looks_free(&self) -> Result<bool> {
        let (lock, mode) = self.wanted();
        let place = OnePlace::new(&lock.queue, mode, Caller::default());
        place.look(&lock.shared).await.map(|session| session.is_some())
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Self {
        Self::Mutex(mutex)
    }
}
