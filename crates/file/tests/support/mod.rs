//! What the tests of this crate share: sessions in a directory, and a lock made of nothing but the waist.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Departure, Enqueued, Entry, Mode, Owner, QueueName, Result, Session, Ticket};
use lockkeeper_file::FileBackend;

/// How long a test waits for what must happen; on a machine that has time it takes a thousandth of it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Opens a backend.
pub(crate) fn backend(directory: &Path) -> FileBackend {
    FileBackend::open(directory, Arc::new(SystemClock)).unwrap()
}

/// Opens a session; it needs no runtime.
pub(crate) fn session(directory: &Path) -> Arc<dyn Session> {
    use std::task::{Context, Poll, Waker};

    match backend(directory).session().as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(session) => session.unwrap(),
        Poll::Pending => panic!("a session of files opens at once"),
    }
}

/// Names a queue.
pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Makes an entry of a mutex.
pub(crate) fn entry() -> Entry {
    Entry { ticket: Ticket::mint().unwrap(), mode: Mode::Mutex, owner: Arc::new(Owner::this_process()) }
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) session: Arc<dyn Session>,
    pub(crate) queue: QueueName,
    pub(crate) ticket: Ticket,
    pub(crate) joined: Enqueued,
}

impl Place {
    /// Joins a queue.
    pub(crate) async fn join(session: &Arc<dyn Session>, queue: &QueueName) -> Result<Self> {
        let entry = entry();
        let ticket = entry.ticket;
        let joined = session.enqueue(queue, entry).await?;
        Ok(Self { session: session.clone(), queue: queue.clone(), ticket, joined })
    }

    /// Waits until this place is the first.
    pub(crate) async fn granted(&mut self) -> Result<()> {
        loop {
            let contenders = &self.joined.view.contenders;
            let position =
                contenders.iter().position(|other| other.id == self.joined.id).expect("we stand in the queue");
            let Some(ahead) = position.checked_sub(1) else {
                return Ok(());
            };
            let (seen, ahead) = (self.joined.view.version, contenders[ahead].id.clone());
            let departure = self.session.departure(&self.queue, Some(&self.joined.id), &ahead, seen).await?;
            if departure == Departure::Gone && position == 1 {
                return Ok(());
            }
            self.joined.view = self.session.view(&self.queue).await?;
        }
    }

    /// Leaves the queue.
    pub(crate) async fn leave(self) -> Result<()> {
        self.session.withdraw(&self.queue, self.ticket).await
    }

    /// Returns the number that the place was given.
    pub(crate) fn number(&self) -> u64 {
        self.joined.token.as_u64()
    }
}

/// Joins a queue and waits for the first place.
pub(crate) async fn lock(session: &Arc<dyn Session>, queue: &QueueName) -> Result<Place> {
    let mut place = Place::join(session, queue).await?;
    place.granted().await?;
    Ok(place)
}

/// Bounds what must happen.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it must happen in time")
}
