//! The runtimes that measurements run on.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// For one call after the other: calls are compared, and not how soon a machine wakes the threads of one program.
pub(crate) fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// For many tasks: two threads on every machine.
pub(crate) fn two_threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
