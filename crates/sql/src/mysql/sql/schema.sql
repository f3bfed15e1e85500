-- The tables. `{schema}` is replaced by the database's name. All of it can be sent again: it only adds. A line `//` ends
-- each statement.
--
-- Everywhere, locks are taken in this order: meta, state, session, queue (by name and part), contender.
CREATE DATABASE IF NOT EXISTS {schema} CHARACTER SET utf8mb4
//
-- One row. `floor` is a number below which no queue gives out tokens.
CREATE TABLE IF NOT EXISTS {schema}.meta (
  one tinyint NOT NULL DEFAULT 1 PRIMARY KEY,
  version int NOT NULL,
  floor bigint NOT NULL DEFAULT 0
) ENGINE=InnoDB
//
-- One row: the state of the data that is served. Each start of the server begins another one, `id`. It is not settled
-- until a client has waited for `wait_ms`; until then no lock is granted. `run` is the number of the server's run that
-- it was told of. No session may be opened with a timeout above `timeout_max_ms`.
CREATE TABLE IF NOT EXISTS {schema}.state (
  one tinyint NOT NULL DEFAULT 1 PRIMARY KEY,
  id varbinary(36) NOT NULL DEFAULT '',
  instance varbinary(500),
  run varbinary(17),
  is_settled boolean NOT NULL DEFAULT TRUE,
  wait_ms bigint NOT NULL DEFAULT 0,
  timeout_max_ms bigint NOT NULL
) ENGINE=InnoDB
//
CREATE TABLE IF NOT EXISTS {schema}.session (
  id binary(16) NOT NULL PRIMARY KEY,
  epoch bigint NOT NULL,
  beat bigint NOT NULL,
  timeout_ms bigint NOT NULL,
  owner text CHARACTER SET utf8mb4 NOT NULL
) ENGINE=InnoDB
//
-- `last` is the greatest number given out, as a token or a version. `modes` has a bit for each mode that stands there,
-- and maybe for more. `joined` counts the contenders that have joined, for who looks now and then; behind a rest of
-- `last` it begins anew.
CREATE TABLE IF NOT EXISTS {schema}.queue (
  name varbinary(200) NOT NULL,
  part tinyint NOT NULL,
  last bigint NOT NULL,
  modes int NOT NULL DEFAULT 0,
  joined bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (name, part)
) ENGINE=InnoDB
//
-- `session` is NULL where the contender outlives its session. `pin` is for transactions of others, which lock a row
-- here. The rows of a view are read from the index alone.
CREATE TABLE IF NOT EXISTS {schema}.contender (
  ticket binary(16) NOT NULL PRIMARY KEY,
  name varbinary(200) NOT NULL,
  part tinyint NOT NULL,
  token bigint NOT NULL,
  place double NOT NULL,
  mode tinyint NOT NULL,
  session binary(16),
  record mediumtext CHARACTER SET utf8mb4 NOT NULL,
  ask mediumtext CHARACTER SET utf8mb4,
  pin int NOT NULL DEFAULT 0,
  INDEX contender_queue (name, part, token, place, ticket, mode),
  INDEX contender_session (session)
) ENGINE=InnoDB
//
CREATE TABLE IF NOT EXISTS {schema}.value (
  name varbinary(200) NOT NULL,
  part tinyint NOT NULL,
  version bigint NOT NULL,
  bytes mediumblob NOT NULL,
  PRIMARY KEY (name, part)
) ENGINE=InnoDB
//
-- Which sessions watch which queues. Nothing is told to them here; they look.
CREATE TABLE IF NOT EXISTS {schema}.watch (
  name varbinary(200) NOT NULL,
  part tinyint NOT NULL,
  session binary(16) NOT NULL,
  PRIMARY KEY (name, part, session),
  INDEX watch_session (session)
) ENGINE=InnoDB
//
-- Contenders that an operator removed, until their session has withdrawn them.
CREATE TABLE IF NOT EXISTS {schema}.broken (
  ticket binary(16) NOT NULL PRIMARY KEY,
  session binary(16) NOT NULL,
  INDEX broken_session (session)
) ENGINE=InnoDB
//
-- The numbers from 0 to 999, by which a list of tickets is cut into rows.
CREATE TABLE IF NOT EXISTS {schema}.number (n int NOT NULL PRIMARY KEY) ENGINE=InnoDB
//
INSERT IGNORE INTO {schema}.number (n)
  SELECT a.n + 10 * b.n + 100 * c.n FROM
    (SELECT 0 AS n {digits}) a CROSS JOIN (SELECT 0 AS n {digits}) b CROSS JOIN (SELECT 0 AS n {digits}) c
//
