//! The runtime of places that are kept while no task of the program holds their lock.
//!
//! A place must be given up when another contender joins, also while the program's own runtime is busy. So the sessions
//! of such places, and what watches them, run on a thread for themselves, one for all keepers of the process.

use std::sync::{Mutex, PoisonError};
use std::{future, io, thread};

use lockkeeper_core::{Error, ErrorKind, Home, Operation, Result};
use tokio::runtime::{Builder, Handle};

/// The runtime's handle, once it runs, and the process that has its thread. It runs until that process ends.
static RUNTIME: Mutex<Option<(Home, Handle)>> = Mutex::new(None);

/// Returns the runtime; the first call starts it.
///
/// # Errors
///
/// Transient if the system gives no thread, or no descriptors for it.
pub(crate) fn runtime() -> Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((home, running)) = &*runtime
        && !home.is_left()
    {
        return Ok(running.clone());
    }
    let started = start().map_err(|error| {
        let message = "no thread could be started for the places that are kept";
        Error::transient(ErrorKind::Backend, Operation::Connect, message).caused_by(error)
    })?;
    // A fork has the handle of its parent's too, and no thread of it.
    std::mem::forget(runtime.replace((Home::here(), started.clone())));
    Ok(started)
}

fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(future::pending::<()>());
    thread::Builder::new().name("lockkeeper-kept".to_owned()).spawn(run)?;
    Ok(handle)
}
