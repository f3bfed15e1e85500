//! Lockkeeper's file-system backend: fair, fenced locks among the processes of one machine, with nothing to install.
//!
//! A base directory holds one `counter` and, under `queues`, one directory for each queue. A contender is a named pipe
//! there whose write end its process keeps open. The kernel closes it when the process dies, however it dies. A waiter
//! holds the read end and sees that at once. There are no timeouts, no polling of other processes and no background
//! threads. A thread is used only while a call has to wait for another process or for the disk. Holders and waiters
//! look twice a second whether the directory was renamed or replaced.
//!
//! | file | what it is for |
//! | --- | --- |
//! | `counter` | the numbers, for all queues; one flush to disk in a thousand |
//! | `queues/<name>/.enter` | its flock admits one entrant at a time |
//! | `queues/<name>/.name` | the lock's name, where the directory's is a digest |
//! | `queues/<name>/<number>[_<rank>]-<ticket>-<mode>[@<part>][+frozen]-<pid>-<host>-<command>[-<marks>]` | a contender: a pipe, or a regular file if it is to outlive its process |
//! | `queues/<name>/.ask-<ticket>` | the request that was left for that contender |
//! | `queues/<name>/.value-<part>` | the value of a queue; a semaphore's goes with its last contender |
//! | `queues/<name>/.new-…` | what is being prepared, or was when its maker died |
//!
//! Recipes (what a mutex is) live in `lockkeeper-recipes`; this crate provides queues and knows no recipe.
//!
//! # How it works
//!
//! Entering happens under the queue's own `flock`: take the next number from the base directory's one counter, make
//! the pipe under a temporary name, open it, rename it in. Owner and caller are in the pipe's name, so they cost
//! nothing, and users who may only read the directory see names and owners, and no more. `site` knows whether the
//! directory's path still leads to it. A guard looks when it is asked, and a turn of a hand-off goes by a look that is
//! at most 50 µs old (`standing`). `access` finds out who may write the base directory, and opens what is made to all
//! of them: by its mode, its group and an access control list.
//!
//! A follower (`follow`) has one inotify instance for all of these directories. `watch_table` knows what a report
//! means, and `known` looks at the locks that it names, by the code of looks. The pipe of a contender stays open only
//! when a process was reported to close it (`changes`). Lost reports and another directory of all locks have all told
//! anew; what is not watched is looked at in between.

#![warn(clippy::exhaustive_enums, unnameable_types)]

#[cfg(not(target_os = "linux"))]
compile_error!("the file backend is for Linux only for now: it needs tee(2) and inotify(7)");

mod access;
mod backend;
mod base;
mod caller_marks;
mod changes;
mod counter;
mod default_directory;
mod departure;
mod directory;
mod entering;
mod entry_name;
mod errors;
mod filesystem;
mod follow;
mod frozen;
mod gate;
mod inner;
mod inspection;
mod joining;
mod pipe;
mod remnants;
mod request;
mod session;
mod shared_files;
mod site;
mod standing;
mod table;
mod tidying;
mod value;
mod watch;

pub use backend::FileBackend;
pub use default_directory::default_directory;
pub use standing::lifeline;
pub use tidying::end_place;
