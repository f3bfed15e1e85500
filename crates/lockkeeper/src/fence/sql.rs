//! Fences in a database: statements for the user's own transaction. Texts for any driver, and [`bind`] for two.
//!
//! A table in the user's schema has a row for each lock, with the greatest token seen. A transaction that writes under
//! a lock first binds its token there. The row stays locked until the transaction ends, so two holders never write at
//! once, and a restart of the database forgets nothing that it has committed.
//!
//! ```text
//! BEGIN;
//! INSERT INTO lk_fence … RETURNING 1;   -- POSTGRES.bind: no row: overtaken, ROLLBACK
//! UPDATE account SET …;
//! COMMIT;
//! ```
//!
//! The parameters of all statements, in this order: the name of the lock ([`QueueName::encoded`]), the token's grant
//! ([`FencingToken::as_i64`]) and, in the form for pairs, its turn ([`FencingToken::turn`]). A resource that is written
//! by one process at a time may bind the grant alone; one that tasks of a process write in turn binds the pair. All
//! clients of one table use the same form.
//!
//! [`QueueName::encoded`]: crate::QueueName::encoded
//! [`FencingToken::as_i64`]: crate::FencingToken::as_i64
//! [`FencingToken::turn`]: crate::FencingToken::turn

mod bind;

pub use bind::{BindError, FencedTransaction, bind};

/// The statements of one kind of database, in one form.
///
/// The transaction rolls back where the answer has no row: the token was overtaken, and nothing must be written. The
/// next holder's bind waits for the end of this one's transaction. One that stops in the middle keeps it waiting until
/// the server ends its connection: at once where the connection breaks, and else by a setting of the server,
/// `idle_in_transaction_session_timeout` on PostgreSQL, `idle_write_transaction_timeout` on MariaDB and `wait_timeout`
/// on MySQL; what waits gives up after its `lock_timeout`, or `innodb_lock_wait_timeout`. A
/// transaction that is isolated as REPEATABLE READ or SERIALIZABLE may be refused in passing (on PostgreSQL with
/// SQLSTATE 40001) where another binds at the same time; it begins again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Statements {
    /// Makes the table of the greatest tokens, if it is missing; many may do so at once. It is the same for both forms.
    pub table: &'static str,
    /// Binds a token. Its answer has a row unless the token was overtaken; but see [`confirm`](Self::confirm).
    pub bind: &'static str,
    /// Where this is a text, the answer to [`bind`](Self::bind) proves nothing: MySQL counts no row as changed for an
    /// equal token. It is executed behind it, with the same parameters, and its answer has the row.
    pub confirm: Option<&'static str>,
}

// Of two that make a table at once, one fails, whether or not it says IF NOT EXISTS: so they wait for one another.
const POSTGRES_TABLE: &str = "DO $$ BEGIN
  IF to_regclass('lk_fence') IS NULL THEN
    PERFORM pg_advisory_xact_lock(hashtext('lk_fence'));
    CREATE TABLE IF NOT EXISTS lk_fence (
      name text PRIMARY KEY,
      grant_no bigint NOT NULL CHECK (grant_no >= 0),
      turn bigint NOT NULL DEFAULT 0 CHECK (turn >= 0)
    );
  END IF;
END $$";

const SQLITE_TABLE: &str = "CREATE TABLE IF NOT EXISTS lk_fence (
  name TEXT PRIMARY KEY NOT NULL,
  grant_no INTEGER NOT NULL CHECK (typeof(grant_no) = 'integer' AND grant_no >= 0),
  turn INTEGER NOT NULL DEFAULT 0 CHECK (typeof(turn) = 'integer' AND turn >= 0)
)";

// A name has at most 200 letters, all of them ASCII; `a` and `A` are two names.
const MYSQL_TABLE: &str = "CREATE TABLE IF NOT EXISTS lk_fence (
  name varchar(200) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
  grant_no bigint NOT NULL CHECK (grant_no >= 0),
  turn bigint NOT NULL DEFAULT 0 CHECK (turn >= 0)
) ENGINE = InnoDB";

/// PostgreSQL, for the grant alone.
pub const POSTGRES: Statements = Statements {
    table: POSTGRES_TABLE,
    bind: "INSERT INTO lk_fence AS f (name, grant_no) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE
  SET turn = CASE WHEN f.grant_no = excluded.grant_no THEN f.turn ELSE 0 END, grant_no = excluded.grant_no
  WHERE f.grant_no <= excluded.grant_no
RETURNING 1",
    confirm: None,
};

/// PostgreSQL, for the pair of grant and turn.
pub const POSTGRES_PAIR: Statements = Statements {
    table: POSTGRES_TABLE,
    bind: "INSERT INTO lk_fence AS f (name, grant_no, turn) VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET grant_no = excluded.grant_no, turn = excluded.turn
  WHERE (f.grant_no, f.turn) <= (excluded.grant_no, excluded.turn)
RETURNING 1",
    confirm: None,
};

/// SQLite 3.35 or later, for the grant alone. The transaction begins by `BEGIN IMMEDIATE`. Each connection has a busy
/// timeout, or a statement beside another fails.
pub const SQLITE: Statements = Statements {
    table: SQLITE_TABLE,
    bind: "INSERT INTO lk_fence AS f (name, grant_no) VALUES (?1, ?2)
ON CONFLICT (name) DO UPDATE
  SET turn = CASE WHEN f.grant_no = excluded.grant_no THEN f.turn ELSE 0 END, grant_no = excluded.grant_no
  WHERE f.grant_no <= excluded.grant_no
RETURNING 1",
    confirm: None,
};

/// SQLite 3.35 or later, for the pair of grant and turn. The transaction begins by `BEGIN IMMEDIATE`.
pub const SQLITE_PAIR: Statements = Statements {
    table: SQLITE_TABLE,
    bind: "INSERT INTO lk_fence AS f (name, grant_no, turn) VALUES (?1, ?2, ?3)
ON CONFLICT (name) DO UPDATE SET grant_no = excluded.grant_no, turn = excluded.turn
  WHERE (f.grant_no, f.turn) <= (excluded.grant_no, excluded.turn)
RETURNING 1",
    confirm: None,
};

/// MariaDB and MySQL, for the grant alone.
pub const MYSQL: Statements = Statements {
    table: MYSQL_TABLE,
    bind: "INSERT INTO lk_fence (name, grant_no) VALUES (?, ?)
ON DUPLICATE KEY UPDATE
  turn = IF(VALUES(grant_no) > grant_no, 0, turn), grant_no = GREATEST(grant_no, VALUES(grant_no))",
    confirm: Some("SELECT 1 FROM lk_fence WHERE name = ? AND grant_no = ? FOR UPDATE"),
};

/// MariaDB and MySQL, for the pair of grant and turn.
pub const MYSQL_PAIR: Statements = Statements {
    table: MYSQL_TABLE,
    bind: "INSERT INTO lk_fence (name, grant_no, turn) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
  turn = CASE
    WHEN VALUES(grant_no) > grant_no THEN VALUES(turn)
    WHEN VALUES(grant_no) = grant_no THEN GREATEST(turn, VALUES(turn))
    ELSE turn
  END,
  grant_no = GREATEST(grant_no, VALUES(grant_no))",
    confirm: Some(MYSQL_PAIR_CONFIRM),
};

const MYSQL_PAIR_CONFIRM: &str = "SELECT 1 FROM lk_fence WHERE name = ? AND grant_no = ? AND turn = ? FOR UPDATE";

/// The statement by which a transaction on PostgreSQL is a part of the hold: it commits while the lock is ours, or not
/// at all. It is for data in the database that has the locks, whose schema (`?schema=`) this is.
///
/// Its parameter is the hold's ticket as a text (`hold.ticket().to_string()`). No row: the lock is lost, and the
/// transaction rolls back. A row: the contender cannot be removed before the transaction ends, so no other is granted
/// what the hold excludes, however long that takes; a release, too, waits for the end. So it is not kept open for long:
/// after the time of a lock on a row (2 s) the release is tried again.
///
/// The role needs what a user of the locks needs: the right to run the functions of the schema.
pub fn postgres_pin(schema: &str) -> String {
    format!("SELECT pin FROM {schema}.pin_v1($1::text::uuid) pin")
}
