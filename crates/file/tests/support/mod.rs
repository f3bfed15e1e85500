//! Support for the tests of this crate: sessions in a directory, and a lock made of the backend traits alone.

mod onlooker;
mod place;

use std::path::Path;
use std::sync::Arc;

use lockkeeper_core::clock::SystemClock;
use lockkeeper_core::{Backend, Entry, Mode, Owner, QueueName, Session, Ticket};
use lockkeeper_file::FileBackend;

pub(crate) use onlooker::Onlooker;
pub(crate) use place::{Place, lock};

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

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// Makes an entry of a mutex.
pub(crate) fn entry() -> Entry {
    Entry::new(Ticket::mint().unwrap(), Mode::Mutex, Arc::new(Owner::this_process()))
}
