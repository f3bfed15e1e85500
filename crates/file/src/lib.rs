//! Lockkeeper's file-system backend: fair, fenced locks among the processes of one machine, with nothing to install.
//!
//! A base directory holds one `counter` and, under `queues`, one directory for each queue. A contender is a named pipe
//! there whose write end its process keeps open. The kernel closes it when the process dies, however it dies, and whoever
//! waits holds the read end and sees it at once. There are no timeouts, no polling and no background threads; a thread is
//! used for the moment in which an entry has to wait for another process.
//!
//! | file | what it is for |
//! | --- | --- |
//! | `counter` | the numbers, for all queues; one flush to disk in a thousand |
//! | `queues/<name>/.enter` | its flock admits one entrant at a time |
//! | `queues/<name>/.name` | the queue's name, where the directory's is a digest |
//! | `queues/<name>/<number>-<ticket>-<mode>-<pid>-<host>-<command>` | a contender |
//!
//! Recipes (what a mutex is) live in `lockkeeper-core`; this crate gives queues and knows none.

#[cfg(not(target_os = "linux"))]
compile_error!("the file backend is for Linux only for now: it needs tee(2) and inotify(7)");

mod backend;
mod base;
mod counter;
mod default_directory;
mod directory;
mod entry_name;
mod errors;
mod filesystem;
mod gate;
mod pipe;
mod session;
mod shared_files;
mod standing;
mod table;
mod watch;

pub use backend::FileBackend;
pub use default_directory::default_directory;

/// Locks a mutex whose data no panic can leave half changed.
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
