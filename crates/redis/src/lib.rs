//! Lockkeeper on Redis and Valkey: one fair queue with fencing tokens for each lock.
//!
//! # How it works
//!
//! A queue is a sorted set for each mode, ordered by grants; what changes it is a script, which the server runs in one
//! piece (`script/*.lua`, each behind what it needs of `common.lua`). The crate `redis` carries RESP3 over a socket
//! that we open. All keys of a base have one hash tag (`layout.rs`), so that a script may touch a session and all of
//! its queues in a cluster too.
//!
//! - **One connection** for a session, in order: what is sent later is executed later. The session is opened in the
//!   batch that asks what the server is; an opening that is given up goes on until it can be undone
//!   (`session.rs`). A `Connection` (`connection.rs`) never comes back. `connection/find.rs` finds the server
//!   with the keys: a master, what sentinels say, or where a cluster leads.
//! - **Plain locks** (`layout=setnx`: `script/setnx.lua`, `queue/watch.rs`). A view for the first contender takes the
//!   key that has the lock's name, renewals renew it, and the removal of the contender gives it back. While another
//!   client has it, views show that first.
//! - **Waits** are tracked reads (`CLIENT TRACKING`, `connection/tracking.rs`): the server tells once when the record
//!   of the contender ahead changes, by a script, by hand, by an eviction or FLUSHALL. Our own contenders are watched
//!   in the same way, once they have stood for 0.1 s (`queue/watch.rs`).
//! - **Late joins.** Each connection of a session takes the session over with a greater epoch (`attach.lua`); a join of
//!   an older one is answered `stale`. So a join that was given up is undone for good. So it is with values
//!   (`set_value.lua`).
//! - **Late writes.** A contender's record and its place in a queue have its ticket in their names, and no ticket comes
//!   twice. So a removal or a request that is taken in late finds its own contender or none.
//! - **The service's time** (`common.lua`) goes on with the server's clock, but between two calls by no more than a
//!   guard, the least of all living sessions. So no jump of that clock, and no standstill, ends a session that is
//!   believed. `session/belief.rs`, pure, ends belief earlier by that guard.
//! - **Alone.** A join finds out before it stores whether a lock has any contender. If not, it reads no queue and
//!   answers one text. What is settled for this millisecond is not written again: the clock, the session's end, the
//!   search for the dead.
//! - **Leaving** takes one script that does not look at the session: if that is believed when the answer comes, it
//!   lived all the time. If it is not, or the contender was gone before, a second script says what became of it
//!   (`leave_judged.lua`).
//! - **The dead** are removed by the living: each renewal and each join removes some, in pieces, since all others wait
//!   meanwhile.
//! - **Memory.** What frees memory or renews begins with a write that needs none, since a server whose memory is full
//!   refuses the rest of a script only if its first write needs some.
//! - **Long queues.** A view shows what decides for a place: the nearest ahead of each mode and the first; the server
//!   counts the rest.
//! - **Examination** (`examine`) tries what locks need; `judge` knows the rules for what the server says.
//! - **Following** (`follow`) has its own connection, which is told of every change of a queue or a record (`BCAST`).
//!   It marks keys (`connection/tracking.rs`), and their locks are looked at again by the code of looks. It asks for
//!   dead sessions, since a death changes no key, and reads plain locks over a second connection. Where a report may be
//!   missing, it looks at all locks again.

#![warn(clippy::exhaustive_enums, unnameable_types)]

mod backend;
mod connection;
mod examine;
mod follow;
mod layout;
mod look;
mod queue;
mod script;
mod session;
mod url;

pub use backend::RedisBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, ClientTesting};
pub use url::{BASE_DEFAULT, Config, PORT_DEFAULT, SENTINEL_PORT_DEFAULT, SETTINGS};
