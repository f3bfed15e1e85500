-- The tables. `{schema}` is replaced by the schema's name. All of it can be sent again: it only adds.
--
-- Everywhere, locks are taken in this order: meta, state, session, queue (by name and part), contender.
CREATE SCHEMA IF NOT EXISTS {schema};

-- One row. `floor` is a number below which no queue gives out tokens.
CREATE TABLE IF NOT EXISTS {schema}.meta (
  one smallint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  version integer NOT NULL,
  floor bigint NOT NULL DEFAULT 0
);

-- One row: the state of the data that is served. Each start of the server begins another one, `id`. It is not settled
-- until a client has waited for `wait_ms`; until then no lock is granted. `started` is the start that it was told of,
-- and `mark` the transaction that wrote the row, so that a row from a dump is known. No session may be opened with a
-- timeout above `timeout_max_ms`. A token from `token_ceiling` on is flushed before it is given; that is always ahead of
-- the clock. One below it may be lost in a crash, and then the next state gives out none below `token_floor`.
CREATE TABLE IF NOT EXISTS {schema}.state (
  one smallint PRIMARY KEY DEFAULT 1 CHECK (one = 1),
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  instance text,
  started timestamptz,
  mark xid,
  is_settled boolean NOT NULL DEFAULT true,
  wait_ms bigint NOT NULL DEFAULT 0,
  timeout_max_ms bigint NOT NULL
);
ALTER TABLE {schema}.state ADD COLUMN IF NOT EXISTS token_floor bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS token_ceiling bigint NOT NULL DEFAULT 0;

-- The start of the server that was told last. The table is not logged: it is empty after a start that follows no clean
-- end, after a process of the server was killed, after a promotion, and in a copy of a server that ran.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.start (started timestamptz PRIMARY KEY);

-- Half of each page is left free here and in `queue`: a row that changes then stays on its page, and its indexes as
-- they are.
CREATE TABLE IF NOT EXISTS {schema}.session (
  id uuid PRIMARY KEY,
  epoch bigint NOT NULL,
  beat bigint NOT NULL,
  timeout_ms bigint NOT NULL,
  owner text NOT NULL,
  listening boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS session_listening ON {schema}.session (id) WHERE listening;

-- `last` is the greatest number given out, as a token or a version. `modes` has a bit for each mode that stands there,
-- and maybe for more. No contender has a token below `head`: a search in the index stops there, where else it would
-- pass all that have left since the last vacuum. `joins` counts the joins since `head` was found. `joined` counts the
-- contenders that have joined, for who looks now and then; behind a rest of `last` it begins anew.
CREATE TABLE IF NOT EXISTS {schema}.queue (
  name text COLLATE "C" NOT NULL,
  part smallint NOT NULL,
  last bigint NOT NULL,
  modes integer NOT NULL DEFAULT 0,
  head bigint NOT NULL DEFAULT 0,
  joins integer NOT NULL DEFAULT 0,
  PRIMARY KEY (name, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE {schema}.queue ADD COLUMN IF NOT EXISTS joined bigint NOT NULL DEFAULT 0;

-- `session` is NULL where the contender outlives its session. It is no foreign key: a join has locked the session's row
-- itself. `pin` is for transactions of others, which lock a row here.
CREATE TABLE IF NOT EXISTS {schema}.contender (
  ticket uuid PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  part smallint NOT NULL,
  token bigint NOT NULL,
  place double precision NOT NULL,
  mode smallint NOT NULL,
  session uuid,
  record text NOT NULL,
  ask text,
  pin integer NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX IF NOT EXISTS contender_queue ON {schema}.contender (name, part, token, place, ticket);
CREATE INDEX IF NOT EXISTS contender_session ON {schema}.contender (session);
CREATE INDEX IF NOT EXISTS contender_asked ON {schema}.contender (session) WHERE ask IS NOT NULL;

CREATE TABLE IF NOT EXISTS {schema}.value (
  name text COLLATE "C" NOT NULL,
  part smallint NOT NULL,
  version bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (name, part)
);

-- Which sessions are told of every change of a queue.
CREATE TABLE IF NOT EXISTS {schema}.watch (
  name text COLLATE "C" NOT NULL,
  part smallint NOT NULL,
  session uuid NOT NULL,
  PRIMARY KEY (name, part, session)
);
CREATE INDEX IF NOT EXISTS watch_session ON {schema}.watch (session);

-- Contenders that an operator removed, until their session has withdrawn them.
CREATE TABLE IF NOT EXISTS {schema}.broken (
  ticket uuid PRIMARY KEY,
  session uuid NOT NULL
);
CREATE INDEX IF NOT EXISTS broken_session ON {schema}.broken (session);

-- Sessions of an earlier version keep their timeouts.
INSERT INTO {schema}.state (timeout_max_ms)
SELECT greatest({timeout_max_ms}, (SELECT max(s.timeout_ms) FROM {schema}.session s))
ON CONFLICT (one) DO NOTHING;

INSERT INTO {schema}.meta (version) VALUES ({version})
ON CONFLICT (one) DO UPDATE SET version = greatest(meta.version, excluded.version);
