-- Sessions: they are opened, go on over a new connection, and are closed; and which state of the data is served.

-- The version of the tables. Its name and its answer stay as they are in all versions.
CREATE OR REPLACE FUNCTION {schema}.version() RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER {settings} AS $$
  SELECT m.version FROM {schema}.meta m;
$$;

-- Which state of the data this is, and for how long it is to be waited for if it is not settled. Another start of the
-- server, another server, or a row from a dump begins another state. A start behind a clean end seems to have lost
-- nothing: then former clients have a short time to say that it has (`doubt`). Without an instance it only answers.
CREATE OR REPLACE FUNCTION {schema}.greet_v1(p_instance text) RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  IF p_instance IS NOT NULL
    AND NOT EXISTS (SELECT FROM {schema}.state s WHERE s.instance = p_instance AND {is_present} AND {has_start})
  THEN
    -- What follows sees what another one has written that greeted the server while this one waited.
    PERFORM FROM {schema}.state s FOR UPDATE;
    UPDATE {schema}.state s SET
        id = gen_random_uuid(), instance = p_instance, started = pg_postmaster_start_time(), mark = {mark},
        is_settled = s.instance IS NULL,
        wait_ms = CASE
          WHEN s.instance <> p_instance OR s.mark <> s.xmin
            OR NOT {has_start} THEN s.timeout_max_ms
          WHEN s.is_settled THEN least({brief_ms}, s.timeout_max_ms)
          ELSE s.wait_ms END
      WHERE s.instance IS DISTINCT FROM p_instance OR ({is_present}) IS NOT TRUE;
    -- Where nothing was lost the clock alone is ahead of all tokens, also of those of data that are put back later.
    UPDATE {schema}.state s SET token_floor = s.token_ceiling, mark = {mark}
      WHERE NOT s.is_settled AND s.wait_ms = s.timeout_max_ms AND s.token_floor < s.token_ceiling;
    DELETE FROM {schema}.start t WHERE t.started <> pg_postmaster_start_time();
    INSERT INTO {schema}.start (started) VALUES (pg_postmaster_start_time()) ON CONFLICT (started) DO NOTHING;
  END IF;
  what := 0;
  SELECT CASE WHEN {is_settled} THEN 'ok' ELSE 'unsettled' END, s.wait_ms, s.id::text INTO text, timeout_ms, ask
    FROM {schema}.state s;
  number := {schema}.version();
  RETURN NEXT;
END $$;
DROP FUNCTION IF EXISTS {schema}.hello_v1(text);

-- Makes sure that a connection which is lent leads to this state of the data, and to no transaction that its lender has
-- open: that one may be undone, or committed late. Answers no row.
CREATE OR REPLACE FUNCTION {schema}.reach_v1(p_state text) RETURNS SETOF boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER {settings} AS $$
BEGIN
  IF transaction_timestamp() <> statement_timestamp() THEN
    RAISE EXCEPTION 'locks need a connection that is in no transaction' USING ERRCODE = 'LK001';
  END IF;
  IF NOT EXISTS (SELECT FROM {schema}.state s WHERE s.id = p_state::uuid AND {is_present}) THEN
    RAISE EXCEPTION 'the connection leads to another server, or to another state of its data, than the one before'
      USING ERRCODE = '08006';
  END IF;
END $$;

-- Says that every session of the former state has stopped believing in its locks.
CREATE OR REPLACE FUNCTION {schema}.settle_v1(p_state text) RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  UPDATE {schema}.state s SET is_settled = true, mark = {mark} WHERE s.id = p_state::uuid AND NOT s.is_settled;
  what := 0;
  SELECT CASE WHEN s.id = p_state::uuid THEN 'ok' ELSE 'unsettled' END INTO text FROM {schema}.state s;
  RETURN NEXT;
END $$;

-- Says that the data lack what was acknowledged to a session that is still believed: so they lost other grants too.
CREATE OR REPLACE FUNCTION {schema}.doubt_v1(p_state text) RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  UPDATE {schema}.state s SET id = gen_random_uuid(), mark = {mark}, wait_ms = s.timeout_max_ms
    WHERE s.id = p_state::uuid AND NOT s.is_settled AND s.wait_ms < s.timeout_max_ms;
  what := 0;
  text := 'ok';
  RETURN NEXT;
END $$;

-- Changes the greatest timeout of sessions, or begins a state that is not settled since the data were restored; both
-- are NULL or false if not asked for. A greater timeout begins such a state too: then a standby that lags behind by less
-- than the wait lacks no grant to a session with that timeout.
CREATE OR REPLACE FUNCTION {schema}.limit_v1(p_timeout_ms bigint, p_is_restored boolean) RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_timeout_max_ms bigint;
BEGIN
  {guard}
  SELECT s.timeout_max_ms INTO v_timeout_max_ms FROM {schema}.state s FOR UPDATE;
  what := 0;
  SELECT max(s.timeout_ms) INTO timeout_ms FROM {schema}.session s;
  IF p_timeout_ms < timeout_ms THEN
    text := 'long';
    RETURN NEXT;
    RETURN;
  END IF;
  UPDATE {schema}.state s SET timeout_max_ms = coalesce(p_timeout_ms, s.timeout_max_ms), mark = {mark};
  UPDATE {schema}.state s SET id = gen_random_uuid(), is_settled = false, wait_ms = s.timeout_max_ms
    WHERE p_is_restored OR s.instance IS NOT NULL AND p_timeout_ms > v_timeout_max_ms;
  text := 'ok';
  RETURN NEXT;
END $$;

CREATE OR REPLACE FUNCTION {schema}.open_v1(p_session uuid, p_timeout_ms bigint, p_owner text, p_sweeps boolean)
RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  -- Before the row is locked: two that shared it would wait for each other.
  {raise_ceiling}
  what := 0;
  SELECT CASE WHEN s.is_settled THEN 'ok' ELSE 'unsettled' END, s.timeout_max_ms INTO text, timeout_ms
    FROM {schema}.state s FOR SHARE;
  IF p_timeout_ms > timeout_ms THEN
    text := 'long';
    RETURN NEXT;
    RETURN;
  END IF;
  INSERT INTO {schema}.session (id, epoch, beat, timeout_ms, owner) VALUES (p_session, 1, 1, p_timeout_ms, p_owner)
    ON CONFLICT (id) DO NOTHING;
  IF p_sweeps THEN
    PERFORM {schema}.sweep_v1();
  END IF;
  RETURN NEXT;
END $$;

-- Removes queues that nothing has happened in for a day, by what their last number says of the time: at most 200. No
-- queue gives out numbers below theirs later.
CREATE OR REPLACE FUNCTION {schema}.sweep_v1() RETURNS void LANGUAGE plpgsql {settings} AS $$
DECLARE
  v_floor bigint;
BEGIN
  WITH idle AS (
    SELECT q.name, q.part FROM {schema}.queue q
    WHERE q.last < (date_part('epoch', clock_timestamp() - interval '1 day') * 1000)::bigint << 20
      AND NOT EXISTS (SELECT FROM {schema}.contender c WHERE c.name = q.name AND c.part = q.part)
      AND NOT EXISTS (SELECT FROM {schema}.value v WHERE v.name = q.name AND v.part = q.part)
      AND NOT EXISTS (SELECT FROM {schema}.watch w WHERE w.name = q.name AND w.part = q.part)
    LIMIT 200 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM {schema}.queue q USING idle WHERE q.name = idle.name AND q.part = idle.part RETURNING q.last
  )
  SELECT max(removed.last) INTO v_floor FROM removed;
  UPDATE {schema}.meta m SET floor = v_floor WHERE m.floor < v_floor;
  DELETE FROM {schema}.broken b WHERE NOT EXISTS (SELECT FROM {schema}.session s WHERE s.id = b.session);
END $$;

-- Over a new connection. It waits for what still runs on the former one, and keeps what comes over it later from having
-- an effect; then it removes the session's contenders that its client does not know.
CREATE OR REPLACE FUNCTION {schema}.resume_v1(p_session uuid, p_epoch bigint, p_beat bigint, p_tickets uuid[])
RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  UPDATE {schema}.session s SET epoch = p_epoch, beat = p_beat, listening = false
    WHERE s.id = p_session AND s.epoch < p_epoch AND s.beat < p_beat;
  what := 0;
  IF NOT FOUND THEN
    {stale_or_gone}
  END IF;
  PERFORM set_config('lockkeeper.own', p_session::text, true);
  PERFORM FROM {schema}.queue q
    WHERE (q.name, q.part) IN
      (SELECT c.name, c.part FROM {schema}.contender c WHERE c.session = p_session AND c.ticket <> ALL (p_tickets))
    ORDER BY q.name, q.part FOR UPDATE;
  DELETE FROM {schema}.contender c WHERE c.session = p_session AND c.ticket <> ALL (p_tickets);
  DELETE FROM {schema}.watch w WHERE w.session = p_session;
  text := 'ok';
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_stands}::smallint, c.ticket, NULL::uuid, c.token, c.place, c.mode,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
    FROM {schema}.contender c WHERE c.ticket = ANY (p_tickets) AND (c.session = p_session OR c.session IS NULL);
  {broken_and_asked}
END $$;

-- Removes a session, a thousand of its contenders at a time; answers how many are left.
CREATE OR REPLACE FUNCTION {schema}.close_v1(p_session uuid) RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_tickets uuid[];
BEGIN
  {guard}
  PERFORM set_config('lockkeeper.own', p_session::text, true);
  PERFORM set_config('synchronous_commit', 'off', true);
  PERFORM FROM {schema}.session s WHERE s.id = p_session FOR UPDATE;
  SELECT array_agg(first.ticket) INTO v_tickets FROM
    (SELECT c.ticket FROM {schema}.contender c WHERE c.session = p_session ORDER BY c.name, c.part LIMIT 1000) first;
  PERFORM FROM {schema}.queue q
    WHERE (q.name, q.part) IN (SELECT c.name, c.part FROM {schema}.contender c WHERE c.ticket = ANY (v_tickets))
    ORDER BY q.name, q.part FOR UPDATE;
  DELETE FROM {schema}.contender c WHERE c.ticket = ANY (v_tickets);
  what := 0;
  text := 'ok';
  SELECT count(*) INTO number FROM {schema}.contender c WHERE c.session = p_session;
  IF number = 0 THEN
    DELETE FROM {schema}.session s WHERE s.id = p_session;
  END IF;
  RETURN NEXT;
END $$;

-- Whether a session is told by the server. At most `p_most` are, for each of them costs every other's notifications. The
-- connection listens before the commit that says so: one who sees it notifies one that hears.
CREATE OR REPLACE FUNCTION {schema}.listen_v1(p_session uuid, p_wants boolean, p_most bigint) RETURNS {answer} AS $$
#variable_conflict use_column
BEGIN
  {guard}
  what := 0;
  text := 'ok';
  IF p_wants AND p_most <= (SELECT count(*) FROM {schema}.session s WHERE s.listening AND s.id <> p_session) THEN
    text := 'full';
  ELSE
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {schema}.session s SET listening = p_wants WHERE s.id = p_session AND s.listening <> p_wants;
    EXECUTE format(CASE WHEN p_wants THEN 'LISTEN %I' ELSE 'UNLISTEN %I' END,
      '{channel}' || replace(p_session::text, '-', ''));
  END IF;
  RETURN NEXT;
END $$;

-- Answers how many stand ahead of a token, up to `p_most`. With `p_far` or more, the session is told no more for now;
-- but not where readers stand: they have their turns together.
CREATE OR REPLACE FUNCTION {schema}.rest_v1(
  p_session uuid, p_name text, p_part bigint, p_token bigint, p_far bigint, p_most bigint)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_head bigint;
  v_modes integer;
BEGIN
  {guard}
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT q.head, q.modes INTO v_head, v_modes FROM {schema}.queue q
    WHERE q.name = p_name AND q.part = p_part::smallint;
  what := 0;
  text := 'near';
  SELECT count(*) INTO number FROM (
    SELECT FROM {schema}.contender c
    WHERE c.name = p_name AND c.part = p_part::smallint AND c.token >= v_head AND c.token < p_token
    LIMIT p_most) ahead;
  IF number >= p_far AND v_modes & (1 << {mode_read}) = 0 THEN
    text := 'ok';
    UPDATE {schema}.session s SET listening = false WHERE s.id = p_session AND s.listening;
    EXECUTE format('UNLISTEN %I', '{channel}' || replace(p_session::text, '-', ''));
  END IF;
  RETURN NEXT;
END $$;
