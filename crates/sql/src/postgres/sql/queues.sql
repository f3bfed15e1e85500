-- Places in queues: they are taken, given up and looked at.

-- Takes places at the tail, one for each ticket, all or none; or right behind an anchor, with its token. It takes none
-- if one of them is there: then it was sent before, and its answer was lost.
CREATE OR REPLACE FUNCTION {schema}.join_v1(
  p_session uuid, p_epoch bigint, p_name text, p_part bigint, p_tickets uuid[], p_modes bytea, p_kept boolean,
  p_anchor uuid, p_records text, p_whole boolean)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_count integer := cardinality(p_tickets);
  v_part smallint := p_part;
  v_asked integer := 0;
  v_is_resent boolean;
  v_is_new boolean;
  v_joins integer;
  v_records text[];
  v_last bigint;
  v_step double precision := 0;
  v_next double precision;
  v_next_last bigint;
  v_first_place double precision;
  v_floor bigint;
  v_ceiling bigint;
  v_is_watched boolean;
  {view_variables}
BEGIN
  {read_committed}
  -- The lock waits for no other join, and is waited for by all that raises the epoch or removes the session.
  SELECT EXISTS (SELECT FROM {schema}.contender c WHERE c.ticket = ANY (p_tickets)), s.token_floor, s.token_ceiling
    INTO v_is_resent, v_floor, v_ceiling
    FROM {schema}.session o, {schema}.state s
    WHERE {is_settled_row} AND o.id = p_session AND o.epoch = p_epoch FOR SHARE OF o;
  what := 0;
  IF NOT FOUND THEN
    {settled}
    {stale_or_gone}
  END IF;
  FOR v_at IN 0 .. v_count - 1 LOOP
    v_asked := v_asked | (1 << get_byte(p_modes, v_at));
  END LOOP;

  IF p_anchor IS NOT NULL THEN
    SELECT q.modes, q.head INTO v_modes, v_head FROM {schema}.queue q
      WHERE q.name = p_name AND q.part = v_part FOR UPDATE;
    IF NOT v_is_resent THEN
      SELECT c.token, c.place INTO v_token, v_place FROM {schema}.contender c
        WHERE c.ticket = p_anchor AND c.name = p_name AND c.part = v_part AND c.session = p_session;
      IF NOT FOUND THEN
        text := 'anchor';
        RETURN NEXT;
        RETURN;
      END IF;
      SELECT min(c.place) INTO v_next FROM {schema}.contender c
        WHERE c.name = p_name AND c.part = v_part AND c.token = v_token AND c.place > v_place;
      -- A smaller number could not be divided: the server takes that for an error.
      IF v_next - v_place < 1e-290 THEN
        text := 'full';
        RETURN NEXT;
        RETURN;
      END IF;
      v_step := coalesce((v_next - v_place) / (v_count + 1), 1);
      IF v_place + v_step <= v_place OR v_place + v_step * v_count >= v_next THEN
        text := 'full';
        RETURN NEXT;
        RETURN;
      END IF;
      v_modes := v_modes | v_asked;
      UPDATE {schema}.queue q SET
          last = greatest(q.last, {clock}), modes = v_modes, joined = {joined} + v_count
        WHERE q.name = p_name AND q.part = v_part;
      v_last := v_token;
    END IF;
  ELSIF v_is_resent THEN
    SELECT q.modes, q.head INTO v_modes, v_head FROM {schema}.queue q
      WHERE q.name = p_name AND q.part = v_part FOR UPDATE;
  ELSE
    -- The row is locked before the number is taken, so that one who sees a contender sees all ahead of it.
    INSERT INTO {schema}.queue AS q (name, part, last, modes, joined)
      VALUES (p_name, v_part, greatest({clock}, v_floor) + v_count, v_asked, v_count)
      ON CONFLICT (name, part) DO UPDATE
        SET last = greatest(q.last + v_count, excluded.last), modes = q.modes | excluded.modes, joins = q.joins + 1,
          joined = {joined} + v_count
      RETURNING q.last, q.modes, q.head, q.joins, q.xmax = 0 INTO v_last, v_modes, v_head, v_joins, v_is_new;
    IF v_is_new THEN
      -- By a statement that sees the floor which a removal of this row raised while this one waited.
      UPDATE {schema}.queue q SET last = m.floor + v_count FROM {schema}.meta m
        WHERE q.name = p_name AND q.part = v_part AND q.last < m.floor + v_count RETURNING q.last INTO v_next_last;
      v_last := coalesce(v_next_last, v_last);
    ELSIF v_modes <> v_asked THEN
      IF NOT EXISTS (SELECT FROM {schema}.contender c WHERE c.name = p_name AND c.part = v_part
          AND c.token >= v_head) THEN
        UPDATE {schema}.queue q SET modes = v_asked WHERE q.name = p_name AND q.part = v_part;
        v_modes := v_asked;
      END IF;
    END IF;
    IF v_last >= {last_max} THEN
      text := 'full';
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;

  text := 'ok';
  RETURN NEXT;
  IF v_is_resent THEN
    RETURN QUERY
      SELECT {what_stored}::smallint, c.ticket, NULL::uuid, c.token, c.place, c.mode,
        NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
      FROM unnest(p_tickets) WITH ORDINALITY t (ticket, at) JOIN {schema}.contender c ON c.ticket = t.ticket
      ORDER BY t.at;
    SELECT c.token, c.place, c.ticket, c.mode INTO v_token, v_place, v_ticket, v_mode
      FROM {schema}.contender c WHERE c.ticket = ANY (p_tickets) ORDER BY c.token, c.place, c.ticket LIMIT 1;
  ELSE
    -- One that is lost in a crash is not granted again before its holder has given it up (`greet`), and its token never.
    IF p_kept OR v_last >= v_ceiling OR current_setting('lockkeeper.commit', true) = 'sync' THEN
      {durable}
    ELSE
      text := set_config('synchronous_commit', 'off', true);
    END IF;
    v_records := string_to_array(p_records, E'\n');
    what := {what_stored};
    text := NULL;
    FOR v_at IN 1 .. v_count LOOP
      ticket := p_tickets[v_at];
      mode := get_byte(p_modes, v_at - 1);
      IF p_anchor IS NULL THEN
        number := v_last - v_count + v_at;
        place := 0;
      ELSE
        number := v_last;
        place := v_place + v_step * v_at;
      END IF;
      INSERT INTO {schema}.contender (ticket, name, part, token, place, mode, session, record) VALUES
        (join_v1.ticket, p_name, v_part, join_v1.number, join_v1.place, join_v1.mode,
         CASE WHEN p_kept THEN NULL ELSE p_session END,
         v_records[CASE WHEN cardinality(v_records) = 1 THEN 1 ELSE v_at END])
        -- None of this statement is seen by it.
        RETURNING NOT EXISTS (SELECT FROM {schema}.contender c
            WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head),
          EXISTS (SELECT FROM {schema}.watch w WHERE w.name = p_name AND w.part = v_part)
        INTO v_is_alone, v_is_watched;
      RETURN NEXT;
      IF v_at = 1 THEN
        v_first_place := place;
      END IF;
    END LOOP;
    IF v_joins > {joins} THEN
      UPDATE {schema}.queue q SET joins = 0, head = (
          SELECT c.token FROM {schema}.contender c WHERE c.name = p_name AND c.part = v_part AND c.token >= v_head
          ORDER BY c.token, c.place, c.ticket LIMIT 1)
        WHERE q.name = p_name AND q.part = v_part;
    END IF;
    v_token := CASE WHEN p_anchor IS NULL THEN v_last - v_count + 1 ELSE v_last END;
    v_place := v_first_place;
    v_ticket := p_tickets[1];
    v_mode := get_byte(p_modes, 0);
    IF v_is_watched THEN
      PERFORM {schema}.tell_watchers_v1(p_name, v_part);
    END IF;
  END IF;
  v_has_behind := v_is_resent OR v_count > 1 OR p_anchor IS NOT NULL;
  {view}
END $$;

-- Gives up a place. The queue's row is locked: else one that joins meanwhile might see this contender, and not be told.
CREATE OR REPLACE FUNCTION {schema}.leave_v1(p_session uuid, p_name text, p_part bigint, p_ticket uuid)
RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_owner uuid;
BEGIN
  {guard}
  -- An assignment: a statement would take four times as long.
  text := set_config('lockkeeper.own', p_session::text, true);
  PERFORM FROM {schema}.queue q WHERE q.name = p_name AND q.part = p_part::smallint FOR UPDATE;
  DELETE FROM {schema}.contender c WHERE c.ticket = p_ticket AND (c.session = p_session OR c.session IS NULL)
    RETURNING c.session INTO v_owner;
  what := 0;
  IF FOUND THEN
    -- One that a crash undoes is removed by `resume`, or with its session. One without a session would stay.
    IF v_owner IS NOT NULL THEN
      text := set_config('synchronous_commit', 'off', true);
    END IF;
    text := 'left';
  ELSE
    DELETE FROM {schema}.broken b WHERE b.ticket = p_ticket AND b.session = p_session;
    IF FOUND THEN
      text := 'broken';
    ELSIF EXISTS (SELECT FROM {schema}.session s WHERE s.id = p_session) THEN
      text := 'removed';
    ELSE
      text := 'gone';
    END IF;
  END IF;
  RETURN NEXT;
END $$;

-- Gives up many places, as `leave` does each, whose session's they are. Their queues are locked in their order. The word
-- is that of those which were not there.
CREATE OR REPLACE FUNCTION {schema}.leave_all_v1(p_session uuid, p_tickets uuid[]) RETURNS {answer} AS $$
#variable_conflict use_column
DECLARE
  v_is_kept boolean;
BEGIN
  {guard}
  PERFORM set_config('lockkeeper.own', p_session::text, true);
  PERFORM FROM {schema}.queue q
    WHERE (q.name, q.part) IN (SELECT c.name, c.part FROM {schema}.contender c
      WHERE c.ticket = ANY (p_tickets) AND (c.session = p_session OR c.session IS NULL))
    ORDER BY q.name, q.part FOR UPDATE;
  what := 0;
  text := 'gone';
  IF EXISTS (SELECT FROM {schema}.session s WHERE s.id = p_session) THEN
    text := 'removed';
  END IF;
  RETURN NEXT;
  SELECT bool_or(c.session IS NULL) INTO v_is_kept FROM {schema}.contender c WHERE c.ticket = ANY (p_tickets);
  -- As one that is left alone.
  IF NOT v_is_kept THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
  RETURN QUERY
    DELETE FROM {schema}.contender c
    WHERE c.ticket = ANY (p_tickets) AND (c.session = p_session OR c.session IS NULL)
    RETURNING {what_left}::smallint, c.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea;
  RETURN QUERY
    DELETE FROM {schema}.broken b WHERE b.ticket = ANY (p_tickets) AND b.session = p_session
    RETURNING {what_broken}::smallint, b.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea;
END $$;

-- Shows a queue: all of it, or what decides for one place, or for one at the tail.
CREATE OR REPLACE FUNCTION {schema}.look_v1(p_name text, p_part bigint, p_around uuid, p_whole boolean)
RETURNS {answer} STABLE AS $$
#variable_conflict use_column
DECLARE
  v_part smallint := p_part;
  {view_variables}
BEGIN
  {settled}
  what := 0;
  text := 'ok';
  RETURN NEXT;
  {look}
END $$;

-- Which of these contenders are not there.
CREATE OR REPLACE FUNCTION {schema}.missing_v1(p_tickets uuid[]) RETURNS {answer} STABLE AS $$
#variable_conflict use_column
BEGIN
  {settled}
  what := 0;
  text := 'ok';
  RETURN NEXT;
  RETURN QUERY
    SELECT {what_missing}::smallint, t.ticket, NULL::uuid, NULL::bigint, NULL::double precision, NULL::smallint,
      NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bytea
    FROM unnest(p_tickets) t (ticket)
    WHERE NOT EXISTS (SELECT FROM {schema}.contender c WHERE c.ticket = t.ticket);
END $$;
