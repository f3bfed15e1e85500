//! Lockkeeper on PostgreSQL, MariaDB and MySQL: one fair queue with fencing tokens for each lock.
//!
//! # How it works
//!
//! A queue is rows of one table. Each call of the waist is one statement, a stored function that is one transaction.
//!
//! - **Three floors.** `queue` makes what locks ask for; `session` keeps a session alive and knows the others;
//!   `engine.rs` is what both see of a database: `DatabaseEngine` connects, `Wire` asks. `postgres` and `mysql` are the
//!   engines. Nothing above them knows SQL: a `Statement` names a function and its arguments, and all functions answer
//!   rows of one shape (`statement.rs`, read in `answer.rs`). `site.rs` connects to both kinds; what their schemas
//!   share is in `schema.rs`; `tests` is one suite over both.
//! - **A connection** asks in one message what the server is and has, and gets its settings with it (`greeting.rs` and
//!   `open.rs` of each engine). Where that is refused, MariaDB is asked in steps, and what is not PostgreSQL is refused
//!   by its name. Statements are prepared beside the first calls, which do not wait for it. MariaDB is sent one
//!   statement after the other; only a session's beginning and its end go in one message with what stands before them
//!   (`mysql/wire.rs`). What is not sent yet stands in a line (`line.rs`), where many releases become one statement.
//! - **A pool of the program's** (`postgres/lent.rs`) is asked as a pooler is: by messages of text, one after the other
//!   but for beats, each of which checks where it has come to. Where one has no answer, the use of the pool ends as
//!   that of a connection does, and begins again with a greater epoch.
//! - **Belief** (pure): a session is believed from the sending of its newest answered beat, for a time that `timing.rs`
//!   says. **Observation** (`session/others.rs`): another one is dead when its beat stood still for its timeout on our
//!   clock.
//! - **Late joins.** Each connection of a session takes it over with a greater epoch (`session/beat.rs`), which waits
//!   for what an older one still does and refuses what comes later. It removes what the session does not know of.
//! - **Waits** (`session/waits`) are kept in one table: what the server tells, beats, named locks and looks end them. A
//!   departure is proven by the row's absence on the primary, or by what was told over the connection on which the
//!   contender was seen. PostgreSQL wakes all sessions that listen at each notification. So a session that is far from
//!   its turn in a quick queue listens only when it comes near (`session/serving.rs`, by the rules of
//!   `waits/handoff_rate.rs`), and looks once after it does.
//! - **Following** (`follow`): nothing tells an onlooker, so one statement shows all locks, again and again, for a
//!   hundredth of the time. What has changed is told, and how old it is.
//! - **Settling** (`session/settling.rs`): over another state of the data, calls wait until no holder of before can
//!   believe itself. The row `state` says which start of the server it is of; each statement that could grant a lock
//!   compares that with the server's own (`sql/part/settled.sql` of each engine). A client that misses what it had says
//!   so (`doubt`).
//! - **Flushing.** PostgreSQL flushes a join behind its grant. A row that is not logged tells each statement that the
//!   server lost nothing since (`start` in `sql/schema.sql`); and a join whose token is not below a ceiling, which is
//!   flushed and ahead of the clock (`sql/part/raise_ceiling.sql`), is flushed first, so that no token comes twice.
//! - **Trial** (`trial.rs`): a look-alike that the URL says to be unverified is tried when the first session is opened.
//! - **Examination** (`examine`): the function `examine` answers facts, each a name and a value, with the rights of the
//!   schema's owner; `judge` reads them, and knows the rules.

#![warn(clippy::exhaustive_enums, unnameable_types)]
#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "tls")),
    allow(dead_code, reason = "each kind of database has parts that another has not, and so has TLS")
)]

mod answer;
mod backend;
mod engine;
mod examine;
mod follow;
mod line;
mod look;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod schema;
mod session;
mod site;
mod statement;
#[cfg(all(test, feature = "deadpool-postgres", feature = "mysql", feature = "postgres", feature = "tls"))]
mod tests;
mod timing;
mod trial;
mod url;

pub use backend::SqlBackend;
#[cfg(feature = "testing")]
pub use lockkeeper_session::{Bug, ClientTesting};
#[cfg(feature = "postgres")]
pub use postgres::{PoolError, PostgresPool, TextRow};
pub use url::{Config, MYSQL_PORT_DEFAULT, POSTGRES_PORT_DEFAULT, SCHEMA_DEFAULT, SETTINGS};
