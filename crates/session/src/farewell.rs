//! The end of a session whose runtime ends: none of its tasks goes on, so a thread tells the service.
//!
//! The clients of protocols do not go on without their runtime either. So the thread has a small runtime for itself,
//! and ends the session over a fresh connection. The old runtime waits for it, since the program may end next.

use std::thread;
use std::time::Duration;

use lockkeeper_core::clock::{BootInstant, Clock};
use tokio::runtime::Builder;

use crate::{Effect, Failure, Mutex, Server};

/// How long the end of a runtime waits for the service to be told: for the greeting and the end of a session at a
/// service that is near. A program that ends should not stay for one that does not answer.
const FAREWELL_MAX: Duration = Duration::from_millis(250);

/// The server of the last session that could not be ended in time, and when that was. All sessions of a program end at
/// once, so the others are not tried over that server: else each would wait as long.
static SILENT: Mutex<Option<(Option<Server>, BootInstant)>> = Mutex::new(None);

/// Has a session ended on another thread, and waits for that; it is told until when it may take. `last` is the server
/// of its connection.
///
/// # Errors
///
/// Why the service could not be told.
pub(crate) fn farewell<F>(
    clock: &dyn Clock,
    last: Option<&Server>,
    end: impl FnOnce(BootInstant) -> F + Send,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let (begun, silent) = (clock.now(), SILENT.lock().clone());
    if silent.is_some_and(|(server, at)| server.as_ref() == last && begun < at.saturating_add(FAREWELL_MAX)) {
        return Err(Failure::late(Effect::None));
    }
    let deadline = begun.saturating_add(FAREWELL_MAX);
    let told = on_a_thread(move || async move {
        tokio::select! {
            biased;
            told = end(deadline) => told,
            () = clock.sleep_until(deadline) => Err(Failure::late(Effect::Unknown)),
        }
    });
    if clock.now() >= deadline {
        *SILENT.lock() = Some((last.cloned(), clock.now()));
    }
    told.unwrap_or_else(|| Err(Failure::broken(Effect::None)))
}

/// Does this in a runtime on another thread: a thread of a runtime, as this may be, enters no other. `None` if the
/// system gives none.
fn on_a_thread<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> Option<T> {
    thread::scope(|scope| {
        let working = thread::Builder::new().name("lockkeeper-end".to_owned()).spawn_scoped(scope, || {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let done = runtime.block_on(work());
            // The machine's resolver may be busy for longer.
            runtime.shutdown_background();
            Some(done)
        });
        // It may be a panic that drops the runtime, so this is not the place for another.
        working.ok()?.join().ok()?
    })
}
