-- What people ask for: the names of all queues, and to show all of them, or all of one; and that a contender gives up, or is removed.

CREATE OR REPLACE FUNCTION {schema}.inspect_v1(p_name text, p_part bigint) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
BEGIN
  what := 0;
  text := 'ok';
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_contender}::smallint, c.ticket, c.session, c.token, c.place, c.mode,
      NULL::bigint, NULL::bigint, c.record, c.ask, NULL::bytea
    FROM {schema}.contender c WHERE c.name = p_name AND c.part = p_part::smallint
    ORDER BY c.token, c.place, c.ticket;
END $$;

-- Shows all queues whose names begin so, as far as they have contenders: the names and the contenders of one moment, and
-- the sessions of these; and how many have joined the queues that changed since a former look, which is named by its
-- number, or since they began to count. Who waits at a gate holds nothing there.
CREATE OR REPLACE FUNCTION {schema}.follow_v1(p_prefix text, p_since bigint) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := {clock};
  v_since bigint := greatest(least(p_since, v_now) - {late}, v_now - {rest});
BEGIN
  what := 0;
  text := 'ok';
  number := v_now;
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_placed}::smallint, c.ticket, c.session, c.token, c.place, c.mode,
      c.part::bigint, NULL::bigint, c.record, c.ask, convert_to(c.name, 'UTF8')
    FROM {schema}.contender c WHERE c.name >= p_prefix AND c.name < p_prefix || repeat(chr(1114111), 51);
  RETURN QUERY
    SELECT {what_beat}::smallint, NULL::uuid, s.id, s.beat, NULL::double precision, NULL::smallint,
      s.epoch, s.timeout_ms, NULL::text, NULL::text, NULL::bytea
    FROM {schema}.session s WHERE s.id IN (
      SELECT c.session FROM {schema}.contender c
      WHERE c.name >= p_prefix AND c.name < p_prefix || repeat(chr(1114111), 51));
  RETURN QUERY
    SELECT {what_joined}::smallint, NULL::uuid, NULL::uuid, q.joined, NULL::double precision, NULL::smallint,
      q.part::bigint, q.last >> 20, NULL::text, NULL::text, convert_to(q.name, 'UTF8')
    FROM {schema}.queue q
    WHERE q.name >= p_prefix AND q.name < p_prefix || repeat(chr(1114111), 51)
      AND q.part <> {part_gate} AND q.last >= v_since;
END $$;

-- The same for clients of an earlier version, which pass over what has joined.
CREATE OR REPLACE FUNCTION {schema}.inspect_all_v1(p_prefix text) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT * FROM {schema}.follow_v1(p_prefix, 9223372036854775807);
END $$;

CREATE OR REPLACE FUNCTION {schema}.queues_v1(p_prefix text) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
BEGIN
  what := 0;
  text := 'ok';
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_queue}::smallint, NULL::uuid, NULL::uuid, q.part::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, q.name, NULL::text, NULL::bytea
    FROM {schema}.queue q
    -- A name has at most 200 bytes, and so is less than the prefix with 51 of the greatest character behind it.
    WHERE q.name >= p_prefix AND q.name < p_prefix || repeat(chr(1114111), 51)
      AND (EXISTS (SELECT FROM {schema}.contender c WHERE c.name = q.name AND c.part = q.part)
        OR EXISTS (SELECT FROM {schema}.value v WHERE v.name = q.name AND v.part = q.part))
    ORDER BY q.name, q.part;
END $$;

-- Removes a contender that has this token, or asks it to give up.
CREATE OR REPLACE FUNCTION {schema}.request_v1(p_name text, p_part bigint, p_ticket uuid, p_token bigint, p_ask text)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_owner uuid;
BEGIN
  {guard}
  PERFORM FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part::smallint FOR UPDATE;
  IF p_token IS NOT NULL THEN
    DELETE FROM {schema}.contender c WHERE c.ticket = p_ticket AND c.name = p_name AND c.part = p_part::smallint
      AND c.token = p_token RETURNING c.session INTO v_owner;
  ELSE
    UPDATE {schema}.contender c SET ask = p_ask WHERE c.ticket = p_ticket AND c.name = p_name
      AND c.part = p_part::smallint RETURNING c.session INTO v_owner;
  END IF;
  what := 0;
  text := 'ok';
  number := CASE WHEN FOUND THEN 1 ELSE 0 END;
  IF v_owner IS NOT NULL AND p_token IS NOT NULL THEN
    INSERT INTO {schema}.broken (ticket, session) VALUES (p_ticket, v_owner) ON CONFLICT (ticket) DO NOTHING;
  ELSIF v_owner IS NOT NULL THEN
    PERFORM {schema}.tell_session_v1(v_owner);
  END IF;
  RETURN NEXT;
END $$;
