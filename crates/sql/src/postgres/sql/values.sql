-- The value of a queue, and who is told of changes.

-- Has a session told of every change of a queue, and shows it: a change is either in the view or told.
CREATE OR REPLACE FUNCTION {schema}.watch_v1(p_session uuid, p_epoch bigint, p_name text, p_part bigint)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  p_around uuid;
  p_whole boolean := true;
  v_part smallint := p_part;
  {view_variables}
BEGIN
  {guard}
  {settled}
  {session_stands}
  PERFORM {schema}.lock_queue_v1(p_name, v_part, 0);
  INSERT INTO {schema}.watch (name, part, session) VALUES (p_name, v_part, p_session) ON CONFLICT DO NOTHING;
  text := 'ok';
  RETURN NEXT;
  {look}
  {value}
END $$;

CREATE OR REPLACE FUNCTION {schema}.unwatch_v1(p_session uuid, p_name text, p_part bigint) RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  PERFORM set_config('synchronous_commit', 'off', true);
  DELETE FROM {schema}.watch w WHERE w.name = p_name AND w.part = p_part::smallint AND w.session = p_session;
  what := 0;
  text := 'ok';
  RETURN NEXT;
END $$;

CREATE OR REPLACE FUNCTION {schema}.value_v1(p_name text, p_part bigint) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
DECLARE
  v_part smallint := p_part;
BEGIN
  what := 0;
  text := 'ok';
  RETURN NEXT;
  {value}
END $$;

-- Locks the row of a queue and raises its last number by so many; answers that number. It makes the row if need be.
CREATE OR REPLACE FUNCTION {schema}.lock_queue_v1(p_name text, p_part smallint, p_count bigint) RETURNS bigint
LANGUAGE plpgsql {settings} AS $$
DECLARE
  v_last bigint;
BEGIN
  IF p_count = 0 THEN
    SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part FOR UPDATE;
    IF FOUND THEN
      RETURN v_last;
    END IF;
  END IF;
  INSERT INTO {schema}.queue AS q (name, part, last)
    VALUES (p_name, p_part, {clock} + p_count)
    ON CONFLICT (name, part) DO UPDATE SET last = greatest(q.last + p_count, excluded.last), joined = {joined};
  UPDATE {schema}.queue q SET last = m.floor + p_count FROM {schema}.meta m
    WHERE q.name = p_name AND q.part = p_part AND q.last < m.floor + p_count;
  SELECT q.last INTO v_last FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part;
  RETURN v_last;
END $$;

-- Replaces a value if it is as expected: 0 is any, 1 none, 2 one of this version. No bytes: it is removed.
CREATE OR REPLACE FUNCTION {schema}.set_value_v1(
  p_session uuid, p_epoch bigint, p_name text, p_part bigint, p_expected bigint, p_version bigint, p_bytes bytea)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_part smallint := p_part;
  v_version bigint;
BEGIN
  {guard}
  {session_stands}
  PERFORM {schema}.lock_queue_v1(p_name, v_part, 0);
  SELECT v.version INTO v_version FROM {schema}.value v WHERE v.name = p_name AND v.part = v_part;
  IF p_expected = 1 AND v_version IS NOT NULL OR p_expected = 2 AND v_version IS DISTINCT FROM p_version THEN
    text := 'no';
    RETURN NEXT;
    RETURN;
  END IF;
  IF p_bytes IS NULL THEN
    number := 0;
    DELETE FROM {schema}.value v WHERE v.name = p_name AND v.part = v_part;
  ELSE
    number := {schema}.lock_queue_v1(p_name, v_part, 1);
    INSERT INTO {schema}.value AS v (name, part, version, bytes) VALUES (p_name, v_part, set_value_v1.number, p_bytes)
      ON CONFLICT (name, part) DO UPDATE SET version = excluded.version, bytes = excluded.bytes;
  END IF;
  PERFORM {schema}.tell_watchers_v1(p_name, v_part);
  text := 'ok';
  RETURN NEXT;
END $$;

-- For transactions of the user's own: a row while the contender stands, which then goes only after the transaction.
CREATE OR REPLACE FUNCTION {schema}.pin_v1(p_ticket uuid) RETURNS SETOF integer
LANGUAGE sql VOLATILE SECURITY DEFINER {settings} AS $$
  SELECT 1 FROM {schema}.contender c WHERE c.ticket = p_ticket FOR KEY SHARE
$$;

-- A role has what it was given, and no more.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;
