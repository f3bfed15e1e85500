//! Lockkeeper on etcd: fair, fenced locks whose contenders are leased keys.
//!
//! Most programs use the crate `lockkeeper` with the feature `etcd`, and give it a URL: `etcd://h1,h2,h3`. This crate
//! is for programs that want the backend alone: [`EtcdBackend`].
//!
//! ```no_run
//! # async fn example() -> Result<(), lockkeeper_core::Error> {
//! use std::sync::Arc;
//!
//! use lockkeeper_etcd::EtcdBackend;
//! use lockkeeper_recipes::Keeper;
//!
//! let keeper = Keeper::new(Arc::new(EtcdBackend::open(&"etcd://h1,h2,h3?session_timeout=20s".parse()?)?));
//! let guard = keeper.mutex("nightly-backup")?.lock().await?;
//! println!("ours, with token {}", guard.fencing_token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A map of the code, from the inside out: `proto` has the messages, `rpc` makes the calls over one connection,
//! `layout` knows the keys, `session` is a lease that is kept alive and proven, `queue` is what locks ask of it,
//! `follow` tells of all locks, and `backend` opens sessions and looks.
//!
//! # How it works
//!
//! A contender is a key that goes with its session's lease; a queue is ordered by the revisions at which its keys were
//! created. tonic carries the calls; the messages are written by hand, so that no build needs protoc. A `Connection`
//! (`rpc`) is one socket and never comes back: a channel that connects again by itself would send requests to another
//! state of the server, unnoticed.
//!
//! - **Order.** Requests of one connection are not executed in the order in which they were sent. So calls on one lock
//!   go through a lane (`session/lanes.rs`), one after the other; a look waits for earlier writes on its lock and for
//!   nothing else.
//! - **Late joins.** Each connection of a session begins by writing the session's key anew; the revision is its stamp.
//!   A join is one transaction that stores the contender if the stamp is still that of its connection. So a join that
//!   was given up is undone for good by a deletion on a later connection, and one whose answer was lost is sent again
//!   without harm.
//! - **Late writes.** A contender's key is used again while an earlier deletion of it, or a request to it, may still be
//!   on its way. So both name the revision at which their contender was created, or that of the record that was read
//!   (`queue/leave.rs`, `queue/writes.rs`), and so does the mark that it was broken. The withdrawal of a join without
//!   an answer looks first. A value is written under the stamp too, or on the state that was read (`queue/writes.rs`).
//! - **Belief** (`session/belief.rs`, pure). The answer to a keepalive counts once a linearizable request that was sent
//!   after it was answered by the same member in the same term of raft. A leader that stood still while another was
//!   elected answers keepalives too. So one read proves what sessions of a process have just renewed
//!   (`session/proofs.rs`). A renewal that takes long goes to another member as well (`session/driver.rs`).
//! - **Names** (`layout/name.rs`). A server walks over every key of a range that was there since its last compaction.
//!   So a session names its contenders by slots, and uses a slot again once its contender is certainly gone. A
//!   contender is known by its key and the revision at which that was created (`layout/record.rs`); its ticket is in
//!   the record. Other clients use their keys again too.
//! - **Long queues** lie in segments of some 32 contenders (`queue/tail.rs`), since the server sorts nothing but by
//!   reading all of it. A key beside the queue says which segment is at the tail; a join names it in its transaction,
//!   and so all of one segment stand ahead of all of the next. A place among thousands is read as its segment, the one
//!   ahead, and the first few (`queue/around.rs`, pure); the server counts the rest.
//! - **Requests** go on when their caller gives up (`rpc.rs`): etcd 3.5.0 to 3.5.6 can crash when a
//!   transaction that only reads is reset.
//! - **Waits** watch one key, from now on, and then look once: a watch from a past revision would be told a tenth of a
//!   second late. A member reports a change a moment before its own looks show it. So a look after a report must be of
//!   that revision or asks the quorum (`queue/view.rs`), and a wait for a change makes its watch anew before each
//!   look, which comes behind the change that was told (`queue/watch.rs`).
//! - **Following** (`follow`) reads all keys of all locks over its own connection and watches them from the next
//!   revision on. `known`, pure, makes locks of keys by the code of looks (`look.rs`). After the end of the watch,
//!   by a compaction too, it reads all keys again.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod backend;
mod examine;
mod follow;
mod layout;
mod look;
mod proto;
mod queue;
mod rpc;
mod session;
mod url;

pub use backend::EtcdBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, ClientTesting};
pub use url::{BASE_DEFAULT, Config, ContenderKey, PORT_DEFAULT, SETTINGS};
