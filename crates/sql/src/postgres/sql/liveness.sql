-- Who lives: sessions beat, and look after one another.

-- Renews a session, and looks after what it holds, waits for and watches. Its status names the state of the data in
-- `ask`, empty if that is not settled, and has the greatest timeout of sessions.
CREATE OR REPLACE FUNCTION {schema}.beat_v1(
  p_session uuid, p_epoch bigint, p_beat bigint, p_roll uuid[], p_awaited uuid[], p_ring bigint)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  p_tickets uuid[] := p_roll;
BEGIN
  {guard}
  {raise_ceiling}
  -- A beat that a crash undoes lets the others wait longer, not shorter.
  IF NOT FOUND THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  UPDATE {schema}.session s SET beat = p_beat WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat < p_beat;
  what := 0;
  IF NOT FOUND THEN
    {stale_or_gone}
  END IF;
  text := 'ok';
  number := pg_backend_pid();
  epoch := 0;
  IF EXISTS (SELECT FROM pg_listening_channels() channel
      WHERE channel = '{channel}' || replace(p_session::text, '-', '')) THEN
    epoch := 1;
  END IF;
  SELECT s.id::text, s.timeout_max_ms INTO ask, timeout_ms FROM {schema}.state s WHERE {is_settled_row};
  ask := coalesce(ask, '');
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_missing}::smallint, t.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
    -- That one who is waited for is gone is told only where it can be a turn.
    FROM unnest(CASE WHEN {is_settled} THEN p_roll || p_awaited ELSE p_roll END) t (ticket)
    WHERE NOT EXISTS (SELECT FROM {schema}.contender c WHERE c.ticket = t.ticket);
  {broken_and_asked}
  RETURN QUERY
    SELECT {what_owner}::smallint, c.ticket, c.session, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
    FROM {schema}.contender c WHERE c.ticket = ANY (p_awaited);
  RETURN QUERY
    SELECT {what_beat}::smallint, NULL::uuid, s.id, s.beat, NULL::double precision, NULL::smallint,
      s.epoch, s.timeout_ms, NULL::text, NULL::text, NULL::bytea
    FROM {schema}.session s
    WHERE s.id <> p_session AND s.id IN (
      SELECT c.session FROM {schema}.contender c WHERE c.ticket = ANY (p_awaited)
      UNION
      SELECT ring.id FROM (
        (SELECT n.id, 0 AS lap FROM {schema}.session n WHERE n.id > p_session ORDER BY n.id LIMIT p_ring)
        UNION ALL
        (SELECT n.id, 1 AS lap FROM {schema}.session n WHERE n.id < p_session ORDER BY n.id LIMIT p_ring)
        ORDER BY lap, id LIMIT p_ring) ring);
END $$;

-- Removes a session that was seen with this epoch and beat for longer than it may be silent. It is flushed before it is
-- seen: if it came back after a crash, its waiters would be ahead of those who were granted the lock after it.
CREATE OR REPLACE FUNCTION {schema}.reap_v1(p_session uuid, p_epoch bigint, p_beat bigint) RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_free bigint;
  v_all bigint;
BEGIN
  {guard}
  what := 0;
  IF NOT {is_settled} THEN
    text := 'busy';
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM FROM {schema}.session s WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat = p_beat
    FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    text := 'alive';
    IF EXISTS (SELECT FROM {schema}.session s WHERE s.id = p_session AND s.epoch = p_epoch AND s.beat = p_beat) THEN
      text := 'busy';
    END IF;
    RETURN NEXT;
    RETURN;
  END IF;
  PERFORM FROM {schema}.queue q
    WHERE (q.name, q.part) IN (SELECT c.name, c.part FROM {schema}.contender c WHERE c.session = p_session)
    ORDER BY q.name, q.part FOR UPDATE;
  SELECT count(*) INTO v_free FROM
    (SELECT FROM {schema}.contender c WHERE c.session = p_session FOR UPDATE SKIP LOCKED) free;
  SELECT count(*) INTO v_all FROM {schema}.contender c WHERE c.session = p_session;
  IF v_free < v_all THEN
    text := 'pinned';
  ELSE
    DELETE FROM {schema}.session s WHERE s.id = p_session;
    text := 'removed';
  END IF;
  RETURN NEXT;
END $$;
